package retry

import (
	"fmt"

	"github.com/troupe-run/troupe/messages"
)

// RescueAction is what becomes of an execution whose worker is gone.
type RescueAction uint8

// The actions.
const (
	Leave      RescueAction = iota // no worker holds it: nothing to do
	PlaceAgain                     // same execution, next attempt
	Finish                         // write Rescued.Outcome, then ask Decide
)

func (a RescueAction) String() string {
	switch a {
	case PlaceAgain:
		return "place_again"
	case Finish:
		return "finish"
	}
	return "leave"
}

// Rescued is the decision about an execution whose worker is gone.
type Rescued struct {
	Action RescueAction
	// CrashCount is the execution's new count. A worker that was lost before the execution started is no crash.
	CrashCount int
	Outcome    messages.Outcome // for Finish
}

// Rescue decides about an execution whose worker generation is gone. What was being cancelled is cancelled; what had not
// started is placed again; what ran is placed again only if it is idempotent and has killed fewer workers than
// PoisonLimit. Anything else that ran is
// abandoned as worker_lost, and Decide judges its retry; but what has killed PoisonLimit workers over its chain fails as poisoned. failedBy names
// the part of Troupe that found out, why says in words what happened to the worker.
func Rescue(e *messages.Execution, failedBy, why string) Rescued {
	switch e.Status {
	case messages.Cancelling:
		return Rescued{Action: Finish, CrashCount: e.CrashCount, Outcome: cancelled(e, failedBy, why)}
	case messages.Scheduling, messages.Scheduled:
		return Rescued{Action: PlaceAgain, CrashCount: e.CrashCount}
	case messages.Running:
		return rescueRunning(e, failedBy, why)
	}
	return Rescued{Action: Leave, CrashCount: e.CrashCount}
}

func rescueRunning(e *messages.Execution, failedBy, why string) Rescued {
	crashes := e.CrashCount + 1
	switch {
	case crashes >= PoisonLimit:
		return Rescued{Action: Finish, CrashCount: crashes, Outcome: messages.Outcome{
			Status: messages.Failed,
			Error: &messages.Error{
				Code: messages.CodePoisoned, WorkerFault: true, FailedBy: failedBy,
				Message: sentence(fmt.Sprintf("%d workers died while they ran the execution or those it retries", crashes), why),
			},
		}}
	case !e.Idempotent:
		return Rescued{Action: Finish, CrashCount: crashes, Outcome: Lost(e, failedBy, why)}
	}
	return Rescued{Action: PlaceAgain, CrashCount: crashes}
}

// Lost is the outcome of a run whose worker is gone.
func Lost(e *messages.Execution, failedBy, why string) messages.Outcome {
	return messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{
		Code: messages.CodeWorkerLost, WorkerFault: true, FailedBy: failedBy,
		Message: sentence(fmt.Sprintf("worker %s was lost while it ran the execution", e.WorkerID), why),
	}}
}

func cancelled(e *messages.Execution, failedBy, why string) messages.Outcome {
	return messages.Outcome{Status: messages.Cancelled, Error: &messages.Error{
		Code: messages.CodeCancelled, FailedBy: failedBy,
		Message: sentence(fmt.Sprintf("cancelled; worker %s was lost before it answered", e.WorkerID), why),
	}}
}

func sentence(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
