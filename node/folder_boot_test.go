package node_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/node"
)

// bootOn starts a node on a folder and stops it again.
func bootOn(t *testing.T, folder string) {
	t.Helper()
	n, err := node.New(node.Config{Data: folder, Name: "boot", Logger: hclog.NewNullLogger()})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, n.Stop(ctx))
}

// giveToGroup does to a folder what kubelet does to a volume with fsGroup at each start of a pod: chmod -R g+rwX,g+s.
func giveToGroup(t *testing.T, folder string) (entries int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		entries++
		if entry.IsDir() {
			return os.Chmod(path, info.Mode()|0o770|fs.ModeSetgid)
		}
		return os.Chmod(path, info.Mode()|0o660)
	}))
	return entries
}

// A pod's second start finds its data folder open to the volume's group, and starts.
func TestANodeStartsInAFolderThatItsGroupWasGiven(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "node")
	bootOn(t, folder)
	require.Greater(t, giveToGroup(t, folder), 5)
	require.Error(t, node.CheckFolder(folder))
	bootOn(t, folder)
	require.NoError(t, node.CheckFolder(folder))
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		if entry.Type()&fs.ModeSymlink == 0 {
			require.Zero(t, info.Mode().Perm()&0o022, path)
		}
		return nil
	}))
	store, err := os.Lstat(filepath.Join(folder, "troupe.db"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), store.Mode().Perm())
}

// Where the umask is 002 a folder that somebody made, or a test's, has mode 0775.
func TestANodeStartsInAFolderOfAWideUmask(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o775))
	bootOn(t, folder)
	info, err := os.Lstat(folder)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
}
