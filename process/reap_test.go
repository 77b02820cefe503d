package process

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The children of a dead, unreaped child may have moved to this process after the list was read. So a look that finds
// such a child and nothing alive settles nothing.
func TestADeadChildIsNotTheEnd(t *testing.T) { // not parallel: it looks at this process's own children
	for { // children from an earlier round, with -count
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			break
		}
	}
	w := &warden{byPid: map[int]*ward{}, bySeq: map[uint64]*ward{}}
	child := exec.CommandContext(t.Context(), "true")
	require.NoError(t, child.Start())
	require.Eventually(t, func() bool {
		stat, err := readStat(child.Process.Pid)
		return err == nil && stat.dead()
	}, 10*time.Second, time.Millisecond, "dead and unreaped")

	found, settled := w.strays("NOBODY=")
	require.Empty(t, found)
	require.False(t, settled)

	require.NoError(t, child.Wait())
	found, settled = w.strays("NOBODY=")
	require.Empty(t, found)
	require.True(t, settled)
}
