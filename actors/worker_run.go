package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
)

// deadline says that a run's time, or its time without a sign of progress, is over.
type deadline struct {
	placement messages.Placement
	stalled   bool
}

// restoring brings the snapshot that a run's session is given back.
type restoring struct {
	placement messages.Placement
	kept      kept
}

// begin starts a claimed execution.
func (w *Worker) begin(e *messages.Execution) {
	r := &Run{Execution: e, Started: time.Now()}
	w.run = r
	w.runs++
	w.checkout(e)
	if w.spent() {
		w.tell(nil)
	}
	if action, ok := w.cfg.Action(e.Action, e.Version); ok {
		r.Action = action
	} else {
		w.post(&ended{placement: r.Placement(), outcome: failed(&messages.Error{
			Code: messages.CodeActionNotFound, Message: fmt.Sprintf("this node does not serve action %s", e.Action),
		})})
		return
	}
	if _, early := w.cancels[r.Placement()]; early {
		delete(w.cancels, r.Placement())
		r.stop, r.stopText = stopCancel, "cancelled before it started"
		w.neverRan(r)
		return
	}
	w.arm(r)
	if t := w.knownOf(e); e.SessionLost && e.SessionHit && w.keeps() && (t == nil || !t.entered) {
		w.fetchSnapshot(r)
		return
	}
	w.startRun(r)
}

// arm sets the run's timers. The run deadline in the row is the store's; this one counts from the start here.
func (w *Worker) arm(r *Run) {
	if r.Execution.Timeout > 0 {
		r.deadline = w.later(r.Execution.Timeout, &deadline{placement: r.Placement()})
	}
	if r.Execution.StallTimeout > 0 {
		r.stall = w.later(r.Execution.StallTimeout, &deadline{placement: r.Placement(), stalled: true})
	}
}

// fetchSnapshot reads the session's kept state beside the actor.
func (w *Worker) fetchSnapshot(r *Run) {
	e := r.Execution
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		kept, err := w.cfg.kept(ctx, e.Session, e.SessionEpoch)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			w.cfg.Logger.Warn("session snapshot not read", "session", e.Session, "error", err)
		}
		w.post(&restoring{placement: e.Placement(), kept: kept})
	}()
}

// kept is the state that a session is given back, and how many finished runs it lacks: with any, its loss is told all
// the same.
type kept struct {
	state  json.RawMessage
	behind int64
}

// kept reads what there is of a session: nothing where a run has finished in the epoch already, whose state is newer.
func (c *WorkerConfig) kept(ctx context.Context, name string, epoch int64) (kept, error) {
	session, err := c.Sessions.GetSession(ctx, c.PoolName, name)
	if err != nil || session.SnapshotEpoch == 0 || session.FinishedEpoch >= epoch {
		return kept{}, err
	}
	state, of, err := c.Sessions.Snapshot(ctx, c.PoolName, name)
	if err != nil || of != session.SnapshotEpoch {
		return kept{}, err
	}
	return kept{state: state, behind: session.Runs - session.SnapshotRuns}, nil
}

func (w *Worker) restored(m *restoring) {
	r := w.run
	switch {
	case r == nil || r.Placement() != m.placement:
	case r.stop != notStopped:
		w.neverRan(r)
	default:
		r.Restore, r.Behind = m.kept.state, m.kept.behind
		w.startRun(r)
	}
}

// neverRan ends a run that is stopped before its runner has heard of it.
func (w *Worker) neverRan(r *Run) {
	w.post(&ended{placement: r.Placement(), outcome: failed(&messages.Error{
		Code: messages.CodeCancelled, Message: r.stopText, FailedBy: failedByWorker,
	})})
}

// signed notes a sign of progress of the run.
func (w *Worker) signed() {
	if r := w.run; r != nil && r.stall != nil {
		r.sign = time.Now()
		r.stall.Reset(r.Execution.StallTimeout)
	}
}

// ended takes a run's end from the runner: it decides the outcome, has it written with its retry and the next claim in
// one transaction, and judges the worker.
func (w *Worker) ended(ctx actor.Context, m *ended) {
	r := w.run
	if r == nil || r.Placement() != m.placement {
		return
	}
	stopTimer(r.deadline)
	stopTimer(r.stall)
	w.run = nil
	if m.short != nil {
		w.notStarted(ctx, r, m)
		return
	}
	took := time.Since(r.Started)
	outcome := settleStop(r, m)
	fault := health.IsFault(outcome, w.cfg.CountActionErrors)
	items := []Item{w.finish(r, m, outcome, took, fault)}
	w.leftState(r, m, &items[0])
	w.counts.Finished(took, outcome.Status != messages.Completed, fault)
	if w.cfg.Runs != nil {
		w.cfg.Runs(w.cfg.PoolName, r.Execution, &outcome, took)
	}
	w.cfg.Feeds.Close(r.Execution.ID)
	w.checkin(ctx, r, m, outcome, fault, items)
}

// checkin is what is known when a run has ended and its worker must be judged.
type checkin struct {
	outcome messages.Outcome
	fault   bool
}

// checkin makes the one decision that follows a run: leave, degrade, or be ready again. Ending wins.
func (w *Worker) checkin(ctx actor.Context, r *Run, m *ended, outcome messages.Outcome, fault bool, items []Item) {
	switch {
	case w.leaving != nil:
		w.record(items)
		w.settle(ctx)
	case r.stop == stopHalt:
		if m.crashed != "" {
			w.retire.Sessions = nil // their state went with the process
		}
		w.record(items)
		w.settle(ctx)
	case r.stop == stopTimeout || r.stop == stopStalled: // also where stopping it took the worker along
		w.record(items)
		w.carry(ctx, lifecycle.Failure{Kind: lifecycle.CommandTimedOut, Text: r.stopText}, lifecycle.Metadata{})
	case m.unstarted:
		w.record(items)
		w.carry(ctx, lifecycle.Failure{Kind: lifecycle.CheckoutFailed, Text: m.crashed}, lifecycle.Metadata{})
	case m.crashed != "":
		w.record(items)
		w.carry(ctx, lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: m.crashed, Asked: r.stop == stopCancel}, lifecycle.Metadata{})
	case m.close:
		w.record(items)
		w.carry(ctx, lifecycle.Failure{Kind: lifecycle.CloseRequested, Text: "the code asked for a new worker"}, lifecycle.Metadata{})
	case (w.shaky || w.probe.due && w.runner.Traits().Probes) && w.retire == nil:
		w.held = &checkin{outcome: outcome, fault: fault}
		w.record(items)
		w.startProbe(nil)
	default:
		w.stay(ctx, &checkin{outcome: outcome, fault: fault}, items)
	}
}

// stay returns the worker to ready, or degrades or ends it for its faults.
func (w *Worker) stay(ctx actor.Context, c *checkin, items []Item) {
	w.held, w.shaky = nil, false
	w.regrade()
	failure := lifecycle.Failure{Kind: lifecycle.ActionError}
	switch {
	case w.faultGrade() == health.Unhealthy:
		failure.Kind = lifecycle.UnhealthyGrade
	case c.fault && !w.cfg.Thresholds.Off:
		failure.Kind = lifecycle.WorkerFault
	case c.outcome.Status == messages.Completed:
		w.transition(lifecycle.CheckinSuccess, lifecycle.Metadata{})
		w.goOn(ctx, items)
		return
	}
	if c.outcome.Error != nil {
		failure.Text = c.outcome.Error.Message
	}
	w.carry(ctx, failure, lifecycle.Metadata{Error: failure.Text, FailureCount: int32(w.counts.Faults())})
	w.goOn(ctx, items)
}

func (w *Worker) goOn(ctx actor.Context, items []Item) {
	if w.retire != nil || w.leaving != nil {
		w.record(items)
		w.settle(ctx)
		return
	}
	w.next(items)
}

// carry asks the recovery table what follows from a failure and does it.
func (w *Worker) carry(ctx actor.Context, f lifecycle.Failure, meta lifecycle.Metadata) lifecycle.Verdict {
	v := lifecycle.Recover(f, w.snapshotState())
	if v.Unhealthy {
		w.machine.SetHealth(lifecycle.Unhealthy)
	}
	switch {
	case v.To == lifecycle.Terminating:
		w.leave(ctx, v.Reason, v.Cause, f.Error(), v.Wanted)
		return v
	case v.To == lifecycle.Degraded && v.Moves():
		w.machine.SetHealth(lifecycle.Unhealthy)
		w.transitionTo(v.To, v.Reason, meta)
		if v.Cause != lifecycle.CauseNodeShort { // the node tells that, for all of its workers
			w.cfg.Logger.Warn("Degrading worker", "worker", w.id, "cause", v.Cause, "reason", f.Error())
		}
	case v.Moves():
		w.transitionTo(v.To, v.Reason, meta)
	}
	if v.Action == lifecycle.Degrade || v.Unhealthy {
		w.regrade()
		w.probeAfter(v.Delay)
	}
	return v
}

// faultGrade is the grade that the worker's own faults give it, whatever its queue and heartbeat say.
func (w *Worker) faultGrade() health.Grade {
	return health.FaultGrade(w.cfg.Thresholds, w.counts.Sample(0))
}

// regrade evaluates the worker's grade and tells the pool of a change.
func (w *Worker) regrade() {
	s := w.counts.Sample(len(w.queue))
	s.HeartbeatSeen = true // its age is judged by whoever reads the heartbeat
	s.StateDegraded = w.machine.State() == lifecycle.Degraded
	if grade := health.Evaluate(w.cfg.Thresholds, s).Grade; grade != w.grade {
		w.grade = grade
		w.show()
		w.tell(nil)
	}
}

// finish builds the change that writes the run's outcome, or gives the run back where it may be repeated.
func (w *Worker) finish(r *Run, m *ended, o messages.Outcome, took time.Duration, fault bool) Item {
	e := r.Execution
	item := Item{Worker: w.key, Took: took, Restored: m.restored, Fault: fault}
	if m.ran > 0 {
		item.Took = m.ran // without the wait for a processor, which others share
	}
	by := ""
	if r.stop == stopHalt {
		by = w.by
	}
	if m.unstarted && r.stop != stopCancel {
		item.Fault = false
		item.Change = &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + o.Error.Message, Unstarted: true, By: by}
		return item
	}
	if o.Status == messages.Abandoned {
		halted := r.stop == stopHalt // its worker was told to end, which is no crash of the execution's making
		rescued := retry.Rescue(e, failedByWorker, o.Error.Message)
		if halted { // so that its crashes stay as they are
			rescued.Action, rescued.Outcome = retry.Finish, retry.Lost(e, failedByWorker, o.Error.Message)
		}
		if rescued.Action == retry.PlaceAgain || halted && e.Idempotent {
			item.Change = &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: o.Error.Message, Unstarted: halted, By: by}
			return item
		}
		told := o.Error
		o = rescued.Outcome
		o.Error.Exit, o.Error.Stderr = told.Exit, told.Stderr
		if halted {
			o.Error.Code, o.Error.WorkerFault = told.Code, false
		}
	}
	finish := &store.Finish{ID: e.ID, Attempt: e.Attempt, Output: m.output}
	if o.Status == messages.Abandoned { // a run that had its outcome before was not ended by anybody
		finish.By = by
	}
	finish.Outcome, finish.Retry = w.cfg.retryOf(e, r.Action, o)
	item.Change = finish
	return item
}
