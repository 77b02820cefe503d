package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bare pid is killed only while its process is a child of the expected parent. A handle always means the same
// process.
func TestABarePidIsKilledOnlyUnderItsParent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bare   bool // no handle is available
		parent int
		killed bool
	}{
		"a handle":                       {false, os.Getpid(), true},
		"a handle, parent out of sight":  {false, 1 << 30, true},
		"a pid, the parent's":            {true, os.Getpid(), true},
		"a pid that another process has": {true, 1 << 30, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sleep", "600")
			require.NoError(t, cmd.Start())
			child, err := os.FindProcess(cmd.Process.Pid)
			require.NoError(t, err)
			defer func() { _ = child.Release() }()
			if c.bare {
				child = &os.Process{Pid: cmd.Process.Pid}
			}
			if none := errors.Is(child.WithHandle(func(uintptr) {}), os.ErrNoHandle); none != c.bare {
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
				t.Skip("this system has no handles of processes")
			}
			killChild(child, c.parent)
			// SIGKILL is handled before any other signal, so SIGTERM ends only a process that was not killed.
			_ = cmd.Process.Signal(syscall.SIGTERM)
			err = cmd.Wait()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			status, ok := exit.Sys().(syscall.WaitStatus)
			require.True(t, ok)
			require.Equal(t, map[bool]syscall.Signal{true: syscall.SIGKILL, false: syscall.SIGTERM}[c.killed], status.Signal())
		})
	}
}
