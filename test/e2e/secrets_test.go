package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nobody is the user who runs the node if the test runs as root, because root may read every process.
const nobody = 65534

// someone returns a folder. If this process is root, it also returns a user without privileges who owns the folder and can run
// the binary in it.
func someone(t *testing.T) (dir, program string, user *syscall.Credential) {
	t.Helper()
	if os.Getuid() != 0 {
		return t.TempDir(), binary, nil
	}
	dir, err := os.MkdirTemp("", "troupe-someone-") // only root may enter the parent of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, nobody, nobody))
	program = filepath.Join(dir, "troupe")
	image, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, image, 0o755))
	require.NoError(t, os.Chmod(program, 0o755))
	user = &syscall.Credential{Uid: nobody, Gid: nobody}
	try := exec.Command(program, "version")
	try.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("another user cannot run a program in %s: %v %s", dir, err, out)
	}
	return dir, program, user
}

// guarded is a node with secrets in its environment, run by a user without privileges.
func guarded(t *testing.T) *node {
	t.Helper()
	dir, program, user := someone(t)
	n, err := launch(dir, options{
		program: program, user: user, packs: []string{"testdata/peek"}, token: "ops-secret-0123456789",
		config: "tokens: [{name: ops, scopes: [admin], token_env: OPS_SECRET}]\n",
		env:    []string{"OPS_SECRET=ops-secret-0123456789", "TROUPE_TOKEN=caller-secret-0123456789", "PGPASSWORD=libpq-secret", "HARMLESS=seen"},
	})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	return n
}

// TestAWorkerCannotReadTheNode: a worker runs as the node's user. It still cannot read the environment and memory of the node, or
// of the processes between them.
func TestAWorkerCannotReadTheNode(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	run := n.runs(t, "peek.look", object{"node": n.cmd.Process.Pid})
	require.Equal(t, "completed", run.text("status"), "%v", run)
	require.NotEqual(t, "0", run.text("result", "uid"), "root could read everything")
	for _, who := range []string{"node", "guardian", "watcher"} {
		for _, part := range []string{"environ", "mem", "maps", "fd"} {
			require.Contains(t, []string{"EACCES", "EPERM"}, run.text("result", "seen", who, part), "%s of the %s", part, who)
		}
	}
	require.Equal(t, "read", run.text("result", "seen", "child", "environ"), "it can read a process that is not protected")
	require.NotContains(t, fmt.Sprint(run["result"]), "secret", "nothing of it is in the worker's own environment")
}

// TestSecretsAreRemovedFromTheEnvironment: when the node has read its environment, even a user who may read that environment finds no
// secret there.
func TestSecretsAreRemovedFromTheEnvironment(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may read the environment of a node")
	}
	n := guarded(t)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", n.cmd.Process.Pid))
	require.NoError(t, err)
	require.Contains(t, string(environ), "HARMLESS=seen")
	require.Contains(t, string(environ), "OPS_SECRET=\x00")
	require.NotContains(t, string(environ), "-secret")
}

// TestPasswordsAreRemovedFromTheCommandLine: the node removes passwords from its command line, which every user of a machine may read.
func TestPasswordsAreRemovedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	const store, broker = "postgres://troupe:hidden-1@127.0.0.1:1/troupe", "amqp://troupe:hidden-2@127.0.0.1:1/"
	n, err := begin(t.TempDir(), options{flags: []string{"--store", store, "--broker=" + broker}})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	await(t, "the passwords leave the command line", func() bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n.cmd.Process.Pid))
		require.NoError(t, err)
		return strings.Contains(string(line), "--broker=xxx") && !strings.Contains(string(line), "hidden")
	})
}

// TestClientsKeepTheirEnvironmentExceptTokens: the node finds processes that a worker left by their environment, which /proc must still show. This
// holds also for `troupe logs -f`, whose token is blanked.
func TestClientsKeepTheirEnvironmentExceptTokens(t *testing.T) {
	t.Parallel()
	dir, program, user := someone(t)
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	defer silent.Close()
	cmd := exec.Command(program, "logs", "-f", "019aa5c0-0000-7000-8000-000000000001")
	cmd.Env = []string{"HOME=" + dir, "TROUPE_SERVER=" + silent.URL, "TROUPE_TOKEN=caller-secret-0123456789", "MARK=seen"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	await(t, "the verb asks the node", func() bool { return len(asked) > 0 })
	path := fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)
	info, err := os.Stat(path)
	require.NoError(t, err)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && user != nil {
		require.Equal(t, user.Uid, stat.Uid, "root owns what /proc shows of a process that is hidden")
	}
	environ, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(environ), "MARK=seen")
	require.Contains(t, string(environ), "TROUPE_SERVER="+silent.URL)
	require.NotContains(t, string(environ), "-secret")
}
