package process

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// evidence is what is known of an end beside the wait status.
type evidence struct {
	asked Cause         // what Troupe ended it for; empty: it did not
	limit time.Duration // of CPU time; 0: none
	oom   bool          // the kernel has killed something for memory while the program ran
}

// judge says how and why a program ended. Troupe's own word comes first: a program that was told to stop may still
// exit by itself, or by the signal. Then comes what its group says of limits: a program whose fork or child a limit took
// may have ended by itself for it.
func judge(x exitReport, e evidence) Exit {
	exit := Exit{Code: x.status.ExitStatus(), Cause: CauseExit}
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

// failed reports an end that is not the program's own success.
func (x Exit) failed() bool { return x.Code != 0 }

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}
