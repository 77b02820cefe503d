package actors

import (
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
)

// exitLeaked marks the end of a run whose go handler did not return after its grace.
const exitLeaked = "handler did not return"

var errInitTimeout = errors.New("no answer to hello within the init timeout")

func completed(result []byte) messages.Outcome {
	if len(result) > messages.ResultMax {
		return failed(&messages.Error{
			Code:    messages.CodeResultTooLarge,
			Message: fmt.Sprintf("the result has %d bytes, more than the %d that can be stored; return a reference instead", len(result), messages.ResultMax),
		})
	}
	return messages.Outcome{Status: messages.Completed, Result: result}
}

func failed(err *messages.Error) messages.Outcome {
	return messages.Outcome{Status: messages.Failed, Error: err.Bounded()}
}

// lost is the outcome of a run whose worker ended under it; the retry rules say what follows.
func lost(why, exit, stderr string) messages.Outcome {
	err := &messages.Error{Code: messages.CodeWorkerLost, Message: why, FailedBy: messages.FailedByWorker, Exit: exit, Stderr: stderr, WorkerFault: true}
	return messages.Outcome{Status: messages.Abandoned, Error: err.Bounded()}
}

// settleStop turns the way a run ended into its outcome where the run was being stopped. A result that came before
// the end is still taken; the store settles the race with the cancel itself.
func settleStop(r *Run, m *ended) messages.Outcome {
	o := m.outcome
	if r.stop == notStopped || o.Status == messages.Completed {
		return o
	}
	err := &messages.Error{FailedBy: messages.FailedByWorker}
	if o.Error != nil {
		err.Exit, err.Stderr = o.Error.Exit, o.Error.Stderr
	}
	switch r.stop {
	case stopCancel:
		err.Code, err.Message = messages.CodeCancelled, r.stopText
		if o.Status == messages.Failed && o.Error != nil && !saysCancelled(o.Error.Code) {
			err.Details = store.RecordedOutcome(messages.Cancelling, o).Error.Details // what it had come to
		}
		return messages.Outcome{Status: messages.Cancelled, Error: err}
	case stopTimeout:
		err.Code, err.Message, err.WorkerFault = messages.CodeTimeout, r.stopText, true
		return messages.Outcome{Status: messages.TimedOut, Error: err}
	case stopStalled:
		err.Code, err.Message, err.WorkerFault = messages.CodeStalled, r.stopText, true
		return messages.Outcome{Status: messages.TimedOut, Error: err}
	default:
		code := r.stopCode
		if code == "" {
			code = messages.CodeWorkerLost
		}
		return messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{
			Code: code, Message: r.stopText, FailedBy: messages.FailedByWorker, Exit: err.Exit, Stderr: err.Stderr,
		}}
	}
}

// saysCancelled reports whether an error says no more than that its run was stopped as asked.
func saysCancelled(c messages.Code) bool {
	return c == messages.CodeCancelled || c == (&messages.Error{Code: messages.CodeCancelled}).Said().Code
}

// runChange is the change that writes the outcome of a run, or that gives the run back where it may be made again. By is who
// has asked for the end of its worker; empty: nobody.
func runChange(r *Run, m *ended, o messages.Outcome, by string) store.Change {
	e := r.Execution
	halted := r.stop == stopHalt // its worker was told to end, which is no crash of the execution's making
	if !halted {
		by = ""
	}
	if m.unstarted && r.stop != stopCancel || m.neverRan && halted {
		why := o.Error.Message
		if m.restoring {
			why = m.crashed
		}
		return &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + why, Delay: m.delay, Unstarted: true, By: by}
	}
	if o.Status != messages.Abandoned {
		return &store.Finish{ID: e.ID, Attempt: e.Attempt, Output: m.output, Outcome: o, WorkerID: e.WorkerID}
	}
	rescued := retry.Rescue(e, messages.FailedByWorker, o.Error.Message)
	if halted { // so that its crashes stay as they are
		rescued.Action, rescued.Outcome = retry.Finish, retry.Lost(e, messages.FailedByWorker, o.Error.Message)
	}
	if rescued.Action == retry.PlaceAgain || halted && e.Idempotent {
		return &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: o.Error.Message, Unstarted: halted, By: by}
	}
	told := o.Error
	o = rescued.Outcome
	o.Error.Exit, o.Error.Stderr = told.Exit, told.Stderr
	if halted {
		o.Error.Code, o.Error.WorkerFault = told.Code, false
	}
	finish := &store.Finish{ID: e.ID, Attempt: e.Attempt, Output: m.output, Outcome: o, WorkerID: e.WorkerID}
	if o.Status == messages.Abandoned { // a run that had its outcome before was not ended by anybody
		finish.By = by
	}
	return finish
}

// why is how the process has ended, in words.
func (g *gone) why() string {
	if g.broken != "" {
		return "protocol error: " + g.broken
	}
	return "process ended: " + describeExit(g.exit)
}

// describeExit says in words how a process ended.
func describeExit(e process.Exit) string {
	switch {
	case e.Cause == process.CauseGuardian:
		return "ended with its guardian"
	case e.Cause == process.CauseOOM:
		return "oom"
	case e.Cause == process.CauseMemory, e.Cause == process.CauseCPU, e.Cause == process.CauseProcesses:
		return "limit: " + string(e.Cause)
	case e.Lost:
		return "exit status unknown"
	case e.Signal != "":
		return "signal: " + e.Signal
	default:
		return fmt.Sprintf("exit status %d", e.Code)
	}
}
