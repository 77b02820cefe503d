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

// An exit names what the program has left running: as sleep, or as sh where that has not become it yet.
func TestAnExitNamesWhatWasLeft(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	for script, want := range map[string]string{
		"sleep 60 & setsid sleep 61 & exit 0":               `^\w+ \(\d+\), \w+ \(\d+\)$`,
		"for i in 1 2 3 4 5 6 7 8 9 10; do sleep 60 & done": `^(\w+ \(\d+\), ){7}\w+ \(\d+\) and 2 more$`,
		"sleep 0 & wait":           `^$`,
		"sleep 60 & kill -KILL $$": `^\w+ \(\d+\)$`,
	} {
		_, events := run(t, g, Spec{Argv: shell(script), Env: environment()})
		exit, _ := events.exit(t)
		require.Regexp(t, want, exit.Left, script)
	}
}
