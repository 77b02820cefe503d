package retry

import (
	"fmt"
	"strings"
	"time"

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
	Delay      time.Duration    // of PlaceAgain
}

// Rescue decides about an execution whose worker generation is gone. What was being cancelled is cancelled; what had not
// started is placed again; what ran is placed again only if it is idempotent and has killed fewer workers than
// PoisonLimit; see RescueFromNode where the whole node is gone. Anything else that ran is abandoned as
// worker_lost, and Decide judges its retry; but what has killed PoisonLimit workers over its chain fails as poisoned. failedBy names
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

// NodeDeathLimit is how many nodes may end while they run an execution, or its chain of retries, before it is kept for inspection. Most nodes
// end for reasons of their own, so it is above PoisonLimit.
const NodeDeathLimit = 5

// NodeEnded is why an execution is rescued whose node ended while it ran. Events are stored with it.
const NodeEnded = "its node ended while it ran"

// RescueFromNode decides as Rescue does about a running execution whose node has ended. That counts as no crash. Before names the nodes that
// have ended while they ran it, or what it retries, oldest first. It is placed again after the policy's back-off, which must be resolved.
func RescueFromNode(e *messages.Execution, before []string, p Policy, rnd func() float64, failedBy string) Rescued {
	deaths := len(before) + 1
	switch {
	case deaths >= NodeDeathLimit:
		nodes := strings.Join(append(before[:len(before):len(before)], e.WorkerID.Node()), ", ")
		return Rescued{Action: Finish, CrashCount: e.CrashCount, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{
			Code: messages.CodePoisoned, FailedBy: failedBy,
			Message: fmt.Sprintf("%d nodes ended while they ran the execution or those it retries: %s; see their logs and their memory", deaths, nodes),
		}}}
	case !e.Idempotent:
		lost := Lost(e, failedBy, NodeEnded)
		lost.Error.WorkerFault = false
		return Rescued{Action: Finish, CrashCount: e.CrashCount, Outcome: lost}
	}
	return Rescued{Action: PlaceAgain, CrashCount: e.CrashCount, Delay: Delay(p, len(before), rnd)}
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
