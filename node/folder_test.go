package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// folderWith makes a folder of the mode with one file of another.
func folderWith(t *testing.T, mode fs.FileMode, name string, entry fs.FileMode) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	if name != "" {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chmod(path, entry))
	}
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.Chmod(folder, mode))
	return folder
}

func TestWideFoldersAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder fs.FileMode
		name   string
		entry  fs.FileMode
		want   string // empty: in order
	}{
		{0o700, "", 0, ""}, {0o755, "", 0, ""}, {0o711, "troupe.db", 0o600, ""}, {0o755, "troupe.db", 0o600, ""},
		{0o755, "sdk", 0o644, ""}, {0o700, "troupe.db", 0o666, ""}, {0o744, "troupe.db", 0o666, ""},
		{0o777, "", 0, "other users may write to it (mode 0777)"},
		{0o770, "", 0, "other users may write to it (mode 0770)"},
		{0o702, "", 0, "other users may write to it (mode 0702)"},
		{0o755, "troupe.db", 0o644, "other users may read troupe.db (mode 0644)"},
		{0o755, "troupe.db-wal", 0o640, "other users may read troupe.db-wal (mode 0640)"},
		{0o755, "troupe.db", 0o666, "other users may write to troupe.db (mode 0666)"},
		{0o711, "sdk", 0o664, "other users may write to sdk (mode 0664)"},
	} {
		folder := folderWith(t, c.folder, c.name, c.entry)
		err := CheckFolder(folder)
		if c.want == "" {
			require.NoError(t, err, "%v", c)
			continue
		}
		require.EqualError(t, err, "data folder "+folder+": "+c.want+": run `chmod -R go-rwx "+folder+"`, or choose another with --data")
	}
}

// What the message says mends the folder, and a folder that the node makes is in order.
func TestTheCommandMendsTheFolder(t *testing.T) {
	t.Parallel()
	folder := folderWith(t, 0o777, "troupe.db", 0o666)
	var wide *WideError
	require.ErrorAs(t, CheckFolder(folder), &wide)
	require.Equal(t, "chmod -R go-rwx "+folder, wide.Mend())
	require.NoError(t, os.Chmod(folder, 0o700))
	require.NoError(t, CheckFolder(folder))

	require.NoError(t, CheckFolder(filepath.Join(folder, "none")))
	require.Equal(t, `chmod -R go-rwx '/a b/it'\''s'`, (&WideError{Folder: "/a b/it's"}).Mend())

	n, err := New(Config{Data: filepath.Join(folder, "made", "here"), NoBuiltins: true})
	require.NoError(t, err)
	require.NoError(t, n.folder.prepare(t.Context()))
	info, err := os.Stat(n.cfg.Data)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, os.Chmod(n.cfg.Data, 0o757))
	require.ErrorAs(t, n.folder.prepare(t.Context()), &wide)
	requireMode(t, 0o757, n.cfg.Data)
	require.NoError(t, os.Chmod(n.cfg.Data, 0o775))
	require.NoError(t, n.folder.prepare(t.Context()))
	requireMode(t, 0o755, n.cfg.Data)
}

func requireMode(t *testing.T, want fs.FileMode, path string) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, want, info.Mode()&(fs.ModePerm|fs.ModeSetgid), path)
}

// A node takes from a group what it has too much of the node's own folder, and no more.
func TestANodeMendsItsOwnFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder          fs.FileMode
		name            string
		entry           fs.FileMode
		mended          int
		folder2, entry2 fs.FileMode
	}{
		{0o755, "troupe.db", 0o600, 0, 0o755, 0o600},
		{0o755, "sdk", 0o644, 0, 0o755, 0o644},
		{0o775, "sdk", 0o755, 1, 0o755, 0o755},
		{0o775, "sdk/run.py", 0o775, 2, 0o755, 0o755},
		{0o770, "troupe.db", 0o660, 2, 0o750, 0o600},
		{0o755, "troupe.db-wal", 0o640, 1, 0o755, 0o600},
		{0o720, "troupe.db", 0o666, 1, 0o700, 0o666}, // nobody enters it then
		{0o770 | fs.ModeSetgid, "history", 0o660, 2, 0o750 | fs.ModeSetgid, 0o640},
	} {
		folder := folderWith(t, c.folder, c.name, c.entry)
		mended, err := mendFolder(folder)
		require.NoError(t, err, "%v", c)
		require.Equal(t, c.mended, mended, "%v", c)
		requireMode(t, c.folder2, folder)
		requireMode(t, c.entry2, filepath.Join(folder, c.name))
		require.NoError(t, CheckFolder(folder))
	}
}

// What every user of the machine could write or read is refused with the command that mends it, and stays as it is: others may have put
// there what workers would run.
func TestAFolderOpenToEveryUserIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder fs.FileMode
		name   string
		entry  fs.FileMode
		said   string
	}{
		{0o777, "troupe.db", 0o600, "other users may write to it (mode 0777)"},
		{0o703, "troupe.db", 0o600, "other users may write to it (mode 0703)"},
		{0o755, "sdk/run.py", 0o646, "other users may write to sdk/run.py (mode 0646)"},
		{0o755, "troupe.db", 0o644, "other users may read troupe.db (mode 0644)"},
		{0o755, "troupe.db-wal", 0o604, "other users may read troupe.db-wal (mode 0604)"},
	} {
		folder := folderWith(t, c.folder, c.name, c.entry)
		_, err := mendFolder(folder)
		require.EqualError(t, err, "data folder "+folder+": "+c.said+": run `chmod -R go-rwx "+folder+"`, or choose another with --data")
		require.EqualError(t, CheckFolder(folder), err.Error())
		requireMode(t, c.folder, folder)
		requireMode(t, c.entry, filepath.Join(folder, c.name))
	}
}

// A link is not followed: what it names may be anything.
func TestMendingFollowsNoLinks(t *testing.T) {
	t.Parallel()
	folder := folderWith(t, 0o755, "file", 0o664)
	outside := filepath.Join(filepath.Dir(folder), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Chmod(outside, 0o666))
	require.NoError(t, os.Symlink(outside, filepath.Join(folder, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(folder), filepath.Join(folder, "up")))
	mended, err := mendFolder(folder)
	require.NoError(t, err)
	require.Equal(t, 1, mended)
	requireMode(t, 0o666, outside)

	root, err := os.OpenRoot(folder)
	require.NoError(t, err)
	defer root.Close()
	seen, err := root.Lstat("file")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "other"), nil, 0o600))
	for _, target := range []string{outside, "other"} { // what replaces the file between the look and the change
		require.NoError(t, os.Remove(filepath.Join(folder, "file")))
		require.NoError(t, os.Symlink(target, filepath.Join(folder, "file")))
		require.Error(t, mendEntry(root, "file", seen), target)
	}
	require.NoError(t, os.Remove(filepath.Join(folder, "file")))
	require.NoError(t, os.Rename(filepath.Join(folder, "other"), filepath.Join(folder, "file")))
	require.ErrorIs(t, mendEntry(root, "file", seen), errReplaced)
}

// What another user owns stays refused, with the command and the reason.
func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may give a file away")
	}
	folder := folderWith(t, 0o775, "troupe.db", 0o660)
	require.NoError(t, os.Chown(filepath.Join(folder, "troupe.db"), 65534, 65534))
	var wide *WideError
	require.ErrorAs(t, CheckFolder(folder), &wide)
	require.False(t, wide.Own, "the one that no node changes comes first")
	mended, err := mendFolder(folder)
	require.Equal(t, 1, mended, "the folder itself")
	require.EqualError(t, err, "data folder "+folder+": other users may write to troupe.db (mode 0660; not changed: another user owns it): "+
		"run `chmod -R go-rwx "+folder+"`, or choose another with --data")
	requireMode(t, 0o660, filepath.Join(folder, "troupe.db"))
}

func TestOwnersAreCompared(t *testing.T) {
	t.Parallel()
	info, err := os.Lstat(t.TempDir())
	require.NoError(t, err)
	require.True(t, owned(info, os.Geteuid()))
	require.False(t, owned(info, os.Geteuid()+1))
}

// A link's own mode means nothing, and what cannot be looked at is no reason to refuse a folder.
func TestLinksAreNoReason(t *testing.T) {
	t.Parallel()
	folder := folderWith(t, 0o755, "file", 0o600)
	require.NoError(t, os.Symlink("file", filepath.Join(folder, "troupe.db")))
	require.NoError(t, CheckFolder(folder))
	require.NoError(t, CheckFolder(filepath.Join(folder, "file")))

	require.NoError(t, os.Chmod(filepath.Join(folder, "file"), 0o666))
	link := filepath.Join(filepath.Dir(folder), "link")
	require.NoError(t, os.Symlink(folder, link))
	var wide *WideError
	require.ErrorAs(t, CheckFolder(link), &wide)
	require.Equal(t, "file", wide.Path)
}
