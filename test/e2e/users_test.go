package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// usersPack is a pack with a shell pool and a Python pool of one user. Everybody may read it.
func usersPack(t *testing.T, dir, pools string) string {
	t.Helper()
	pack := filepath.Join(dir, "users")
	for name, text := range map[string]string{
		"pack.yaml":         "name: users\nversion: 1.0.0\npools:\n" + pools,
		"actions/sh.yaml":   "name: sh\nruntime: shell\npool: sh\ncommand: [sh, -c, 'id -u; id -G; umask; echo $HOME; wc -c <$API_KEY_FILE; echo said >/dev/stderr']\n",
		"actions/py.yaml":   "name: py\nruntime: python\npool: py\nentrypoint: who.py:who\n",
		"actions/hang.yaml": "name: hang\nruntime: shell\npool: sh\ncommand: [sh, -c, 'trap \"\" TERM; echo up; sleep 600']\n",
		"who.py": `import os, errno, tempfile

def tried(do):
    try:
        do()
    except OSError as exc:
        return errno.errorcode[exc.errno]
    return "done"

def who(params):
    mask = os.umask(0)
    os.umask(mask)
    with tempfile.NamedTemporaryFile() as made:
        mode = os.stat(made.name).st_uid
    return {
        "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(), "umask": "%03o" % mask, "home": os.environ["HOME"], "made": mode,
        "data": tried(lambda: os.listdir(params["data"])), "store": tried(lambda: open(params["data"] + "/troupe.db")),
        "environ": tried(lambda: open("/proc/%d/environ" % params["node"]).read()),
        "guardian": tried(lambda: open("/proc/%d/environ" % os.getppid()).read()),
        "signal": tried(lambda: os.kill(params["node"], 0)), "code": tried(lambda: open(__file__, "a")),
        "secret": len(open(os.environ["API_KEY_FILE"]).read()), "secrets": tried(lambda: os.listdir(os.path.dirname(os.path.dirname(os.environ["API_KEY_FILE"])))),
        "unlink": tried(lambda: os.unlink(os.environ["API_KEY_FILE"])), "owner": os.stat(os.environ["API_KEY_FILE"]).st_uid,
        "sdk": os.environ["PYTHONPATH"],
    }
`,
	} {
		path := filepath.Join(pack, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return pack
}

// open is a folder that every user may enter.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "troupe-users-") // only this user may enter the parent of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// TestAPoolOfAnotherUser: the pool's programs run as that user and reach nothing of the node. The guardian can still end them.
func TestAPoolOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	dir := open(t)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("value-of-the-key"), 0o600))
	pack := usersPack(t, dir, "  - {name: sh, runtime: shell, workers: 1, user: nobody, umask: 027, secrets: {API_KEY: {file: "+key+", as: file}}}\n"+
		"  - {name: py, runtime: python, workers: 1, user: '65534:12345', umask: 077, env: {PATH: '/usr/local/bin:/usr/bin:/bin'}, secrets: {API_KEY: {file: "+key+", as: file}}}\n")
	n, err := launch(dir, options{packs: []string{pack}})
	require.NoError(t, err)
	t.Cleanup(n.kill)

	run := n.runs(t, "users.sh", nil)
	require.Equal(t, "completed", run.text("status"), "%v", run)
	require.Equal(t, "65534\n65534\n0027\n/nonexistent\n16", run.text("result"))
	data := filepath.Join(dir, "data")
	run = n.runs(t, "users.py", object{"node": n.cmd.Process.Pid, "data": data})
	require.Equal(t, "completed", run.text("status"), "%v", run)
	for key, want := range map[string]string{
		"uid": "65534", "gid": "12345", "umask": "077", "home": "/nonexistent", "made": "65534",
		"data": "EACCES", "store": "EACCES", "environ": "EACCES", "guardian": "EACCES", "signal": "EPERM", "code": "EACCES",
		"secret": "16", "secrets": "EACCES", "unlink": "EACCES", "owner": "65534",
	} {
		require.Equal(t, want, run.text("result", key), key)
	}
	require.NotContains(t, run.text("result", "groups"), " 0", "the node's own groups are not the user's")
	sdk := strings.TrimSuffix(run.text("result", "sdk"), "/sdk/python")
	require.DirExists(t, sdk)

	hung := n.submit(t, "users.hang", nil).text("id")
	n.stands(t, hung, "running")
	n.prints(t, "cancel", hung)
	require.Equal(t, "cancelled", n.finish(t, hung).text("status"))
	info, err := os.Stat(data)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, n.stop())
	require.NoDirExists(t, sdk)
}

// TestAUserNeedsANodeOfRoot: a node that is not root refuses the pack and says what to do.
func TestAUserNeedsANodeOfRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may run a node as another user")
	}
	dir, program, user := someone(t)
	n, err := begin(dir, options{
		program: program, user: user, packs: []string{usersPack(t, dir, "  - {name: sh, runtime: shell, user: daemon}\n  - {name: py, runtime: python}\n")},
	})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	require.Error(t, n.ended())
	log := n.log.tail(30)
	require.Contains(t, log, "pack users: pool sh: user daemon: this node, of uid 65534, may not run programs as another user")
	require.Contains(t, log, "run it as root, or leave the user out")
	require.Contains(t, log, "users/pack.yaml:4")
}

// TestAUserThatTheMachineDoesNotHave: the error names the unknown user.
func TestAUserThatTheMachineDoesNotHave(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	dir := open(t)
	n, err := begin(dir, options{packs: []string{usersPack(t, dir, "  - {name: sh, runtime: shell, user: no-such-user}\n  - {name: py, runtime: python}\n")}})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	require.Error(t, n.ended())
	require.Contains(t, n.log.tail(30), "pool sh: user no-such-user: this machine has no user no-such-user: make it, or name another")
}
