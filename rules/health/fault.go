package health

import "github.com/troupe-run/troupe/messages"

// IsFault reports whether an outcome is the worker's fault: its process exited or broke a limit, it broke the
// protocol, it ran past its time, the execution expired on its queue, or the worker says so itself. An error of the
// action's own code is none. With countActionErrors (health.count_action_errors) every failed execution is one.
// A cancelled execution never is.
func IsFault(o messages.Outcome, countActionErrors bool) bool {
	switch o.Status {
	case messages.Completed, messages.Cancelled:
		return false
	case messages.TimedOut, messages.Abandoned:
		return true
	}
	if countActionErrors {
		return true
	}
	if o.Error == nil {
		return false
	}
	switch o.Error.Code {
	case messages.CodeProtocol, messages.CodeWorkerLost, messages.CodePoisoned, messages.CodeLimit,
		messages.CodeQueueTimeout:
		return true
	}
	return o.Error.WorkerFault
}
