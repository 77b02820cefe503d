package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPipesThatCannotBeMadeLeaveNothing runs in a process of its own, because it lowers the limit on descriptors.
func TestPipesThatCannotBeMadeLeaveNothing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = environment(roleVar + "=starved")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^refused ([5-9]|10) times, 0 left over\n$`, string(out), "ten descriptors make the five pipes")
}

// playStarved makes a program's pipes, with one descriptor more each time, until it succeeds. The garbage collector is
// off, because it would close leaked descriptors.
func playStarved() {
	debug.SetGCPercent(-1)
	spec := Spec{Stdin: make([]byte, pipeRoom+1), Framed: true}
	_, _, _ = newProgram(nil, spec, nil) // opens the poller, which a process has once
	before := openDescriptors()
	refused, left := 0, 0
	for ; refused < 20; refused++ {
		boundDescriptors(before + refused)
		if _, _, err := newProgram(nil, spec, nil); err == nil {
			break
		}
		boundDescriptors(1 << 10)
		left = openDescriptors() - before
	}
	fmt.Printf("refused %d times, %d left over\n", refused, left)
}

// boundDescriptors sets this process's limit on descriptors.
func boundDescriptors(n int) {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n), Max: 1 << 10}); err != nil {
		panic(err)
	}
}

// openDescriptors returns how many descriptors this process has.
func openDescriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(entries) - 1 // the folder itself
}
