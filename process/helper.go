package process

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The names a helper runs under, as its argv[0].
const (
	guardianName = "troupe-guardian"
	shimName     = "troupe-shim"
)

// RunHelper runs the watcher, the guardian or the limits shim when this execution of the binary is one of them, and then exits the
// process. In every other execution it returns at once. main and TestMain call it before anything else.
func RunHelper() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case watcherName:
		hideHelper()
		os.Exit(runWatcher(3))
	case guardianName:
		hideHelper()
		os.Exit(runWarden(3))
	case shimName:
		os.Exit(runShim(os.Args[1:]))
	}
}

// HideFromPeers keeps other processes of the same user, workers above all, from reading this one's memory, environment and
// descriptors through /proc, and from tracing it. The kernel leaves that to who has CAP_SYS_PTRACE, root as a rule. The
// process writes no core dump any more. What a process does to itself, and programs that it starts, are not affected: an
// exec ends the state.
func HideFromPeers() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process from others of its user: %w", err)
	}
	return nil
}

// hideHelper hides a watcher or a guardian: their descriptors reach the node and every program's pipes. One that cannot be
// hidden still does its work.
func hideHelper() {
	if err := HideFromPeers(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	}
}

// BecomeSubreaper makes this process the parent of descendants whose own parents died, so that what a killed guardian
// leaves behind stays in reach. A node calls it once at start.
func BecomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// monotonic is the kernel's clock that the node and its guardian share; it stands still in suspend.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
