package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The names a helper runs under, as its argv[0].
const (
	guardianName = "troupe-guardian"
	shimName     = "troupe-shim"
)

// RunHelper runs the guardian or the limits shim when this execution of the binary is one of them, and then exits the
// process. In every other execution it returns at once. main and TestMain call it before anything else.
func RunHelper() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case guardianName:
		os.Exit(runWarden(3))
	case shimName:
		os.Exit(runShim(os.Args[1:]))
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
