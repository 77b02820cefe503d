package process

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// evidence is everything but the wait status that shows how a program ended.
type evidence struct {
	asked Cause         // why Troupe ended it; empty: Troupe did not end it
	limit time.Duration // of CPU time; 0: none
	oom   bool          // the kernel has killed something for memory while the program ran
}

// exitOf says how and why a program ended. What Troupe did counts first: a program that was told to stop may still exit
// by itself, or by the signal. Then the limits count: a program may have exited by itself because a limit stopped its
// fork or its child.
func exitOf(x exitReport, e evidence) Exit {
	exit := Exit{Code: x.status.ExitStatus(), Cause: CauseExit, Left: x.left}
	if x.status.Signaled() {
		exit.Code, exit.Signal, exit.Cause = -1, signalName(x.status.Signal()), CauseSignal
	}
	sig := x.status.Signal()
	switch {
	case e.asked != "":
		exit.Cause = e.asked
	case x.killed:
		exit.Cause = CauseStopped
	case x.group&memoryOver != 0 && exit.failed():
		exit.Cause = CauseMemory
	case x.group&tasksOver != 0 && exit.failed():
		exit.Cause = CauseProcesses
	case !x.status.Signaled():
	case e.limit > 0 && sig == syscall.SIGXCPU, e.limit > 0 && sig == syscall.SIGKILL && time.Duration(x.cpu) >= e.limit: //nolint:gosec // nanoseconds
		exit.Cause = CauseCPU
	case e.oom && sig == syscall.SIGKILL:
		exit.Cause = CauseOOM
	}
	return exit
}

// failed reports whether the program ended in any way other than exit status 0.
func (x Exit) failed() bool { return x.Code != 0 }

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}
