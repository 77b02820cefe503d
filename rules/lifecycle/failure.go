package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
)

// FailureKind is what went wrong with a worker. The zero value is a failure that nobody classified.
type FailureKind uint8

// The kinds of failure.
const (
	UnknownFailure  FailureKind = iota
	ProcessExited               // the process ended without being told to
	CheckoutFailed              // pid gone, pipe closed, or execute not taken: the execution never started
	ProbeFailed                 // a health check was answered with an error
	ProbeTimedOut               // a health check was not answered in time
	InitFailed                  // hello was answered with an error, or the process would not start
	InitTimedOut                // hello was not answered in time
	CommandTimedOut             // a run or another command was not answered by its deadline
	ActionError                 // the action's code returned an error; the process is fine
	WorkerFault                 // a fault counted against the worker, reported by a check-in
	DeadLettered                // a fault counted against the worker by a dead letter
	LateFailure                 // a fault counted against the worker by code of a run that has ended
	UnhealthyGrade              // unhealthy by its faults in a row or its failure rate
	CloseRequested              // no failure: a result asked for a new worker
	NodeShort                   // the node lacks descriptors, memory or processes to start a program
	RestoreDied                 // the process ended while a session's state was restored
)

var failureNames = [...]string{
	"unknown", "process_exited", "checkout_failed", "probe_failed", "probe_timed_out", "init_failed", "init_timed_out",
	"command_timed_out", "action_error", "worker_fault", "dead_lettered", "late_failure", "unhealthy_grade", "close_requested",
	"node_short", "restore_died",
}

// Charged is what the end of a worker's process is counted against.
type Charged uint8

// What can be charged.
const (
	ChargedNode      Charged = iota // nothing that ran: whoever ended it, or the worker itself
	ChargedPack                     // the code of the pack: its modules were loaded, and the worker was never ready
	ChargedState                    // the stored state of a session, which was being restored
	ChargedExecution                // the execution whose code had its run
)

// Death is what is known of the end of a worker's process.
type Death struct {
	Starting  bool // hello was not answered
	Restoring bool // a session's state was given to it, it had not answered, and nobody had asked for its end
	Running   bool // an execution's code had been given its run
}

// Charge says what a death is counted against: one of them, and never another.
func (d Death) Charge() Charged {
	switch {
	case d.Starting:
		return ChargedPack
	case d.Running:
		return ChargedExecution
	case d.Restoring:
		return ChargedState
	}
	return ChargedNode
}

// FailureKinds lists every kind.
func FailureKinds() []FailureKind {
	all := make([]FailureKind, len(failureNames))
	for k := range all {
		all[k] = FailureKind(k)
	}
	return all
}

func (k FailureKind) String() string {
	if int(k) < len(failureNames) {
		return failureNames[k]
	}
	return fmt.Sprintf("failure(%d)", uint8(k))
}

// Failure is one thing that went wrong.
type Failure struct {
	Kind FailureKind
	// Text is the cause in words, where there is one.
	Text string
	// Asked says that a caller's cancel took the process along: it exited, and that was wanted.
	Asked bool
}

// Error names a failure as people and logs see it: health_check_timeout, health_check_failed, timeout_limit, or the
// kind, followed by the cause in words.
func (f Failure) Error() string {
	name := f.Kind.String()
	switch f.Kind {
	case ProbeTimedOut:
		name = "health_check_timeout"
	case ProbeFailed:
		name = "health_check_failed"
	case CommandTimedOut:
		name = string(CauseTimeoutLimit)
	case InitFailed, InitTimedOut:
		name = "worker initialization failed"
	}
	if f.Text == "" || strings.HasPrefix(f.Text, name+": ") { // who made the text may have named it already
		return cmp.Or(f.Text, name)
	}
	return name + ": " + f.Text
}
