package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMakeRun does what the first screen of the README says, in an empty home directory. `make run` builds troupe and starts a
// node. The node has its data where the XDG rules say, and runs its first execution.
func TestMakeRun(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	modules, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	require.NoError(t, err)
	caches := strings.Fields(string(modules))
	require.Len(t, caches, 2)
	n := &node{home: home, log: &logBook{}, done: make(chan struct{})}
	env := []string{
		"HOME=" + home, "PATH=" + searchPath, "GOMODCACHE=" + caches[0], "GOCACHE=" + caches[1], "TROUPE_LISTEN=127.0.0.1:0",
	}
	build := exec.CommandContext(t.Context(), "make", "-C", "../..", "build") // what run would do first, and may take its time
	build.Env = env
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	n.cmd = exec.Command("make", "-C", "../..", "run")
	n.cmd.Env = env
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, n.cmd.Start())
	go func() {
		n.err = n.cmd.Wait()
		close(n.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL)
		<-n.done
	})
	require.NoError(t, n.untilReady(), "%s", n.log)
	require.Equal(t, `{"message":"hi"}`, n.prints(t, "submit", "core.echo", "message=hi", "--wait"))
	require.Equal(t, `"hello, world"`, n.prints(t, "submit", "core.shell_greet", "--wait"))
	require.Contains(t, n.prints(t, "submit", "demo.counter", "--session", "me", "--wait"), `"count":1`)
	require.Contains(t, n.prints(t, "submit", "demo.counter", "--session", "me", "--wait"), `"count":2`)

	held, err := os.ReadFile(filepath.Join(home, ".local", "state", "troupe", "troupe.db.lock"))
	require.NoError(t, err, "the data is in the state folder of the home")
	pid, err := strconv.Atoi(strings.TrimSpace(string(held)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	require.NoError(t, n.ended(), "%s", n.log)
}
