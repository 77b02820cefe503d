package process

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// The helpers' names, which they get as argv[0].
const (
	guardianName = "troupe-guardian"
	shimName     = "troupe-shim"
)

// init runs a helper before the packages of the node are initialized: they would take several times the memory of the
// helper itself. See RunHelper.
func init() { RunHelper() }

// RunHelper runs the watcher, the guardian or the limits shim, and then exits the process, when the binary was executed
// as one of them. In every other execution it returns at once. The initialization of this package calls it, so a call in main only
// says that the package is linked.
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

// trim gives back what a helper needed for its start alone.
func trim() {
	debug.FreeOSMemory()
	TrimProgram()
}

// HideFromPeers keeps other processes of the same user, workers above all, from reading this one's memory, environment
// and descriptors through /proc, and from tracing it. A process with CAP_SYS_PTRACE, usually root's, still can. The
// process writes no core dump any more. The programs that it starts are not affected: an exec ends the state. Nor is
// what the process does to itself.
func HideFromPeers() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process from others of its user: %w", err)
	}
	return nil
}

// hideHelper hides a watcher or a guardian: their descriptors reach the node and every program's pipes. A helper that
// cannot be hidden still does its work.
func hideHelper() {
	if err := HideFromPeers(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	}
}

// BecomeSubreaper makes this process the parent of orphaned descendants, so that it can find and end what a killed
// guardian left behind. A node calls it once at start.
func BecomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// monotonic reads the kernel's clock that the node and its guardian share. It stops while the machine is suspended.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
