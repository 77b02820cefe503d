package actors

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
)

// ended takes a run's end from the runner: it decides the outcome, has it written with its retry and the next claim in
// one transaction, and has the worker judged.
func (w *Worker) ended(m *ended) {
	r := w.slot.take(m.placement)
	if r == nil {
		return
	}
	if m.short != nil {
		w.notStarted(r, m.short)
		return
	}
	if m.unserved != "" {
		w.notServed(r, m)
		return
	}
	took := w.world.Now().Sub(r.Started)
	w.queue.pace.ran(took)
	outcome := settleStop(r, m)
	fault := health.IsFault(outcome, w.cfg.CountActionErrors)
	items := []Item{w.finish(r, m, outcome, took, fault)}
	w.traceEnd(r, &items[0], &outcome)
	w.sessions.left(r, m, &items[0])
	w.condition.counts.Finished(took, outcome.Status != messages.Completed, fault)
	if w.cfg.Runs != nil {
		w.cfg.Runs(w.cfg.PoolName, r.Execution, &outcome, took)
	}
	w.cfg.Feeds.Close(r.Execution.ID)
	if r.stop == stopHalt && m.crashed != "" {
		w.lastStates().forget()
	}
	w.recovery.checkin(r, m, &checkin{outcome: outcome, fault: fault}, items)
}

// finish is the item that writes the run's outcome, or gives the run back where it may be repeated.
func (w *Worker) finish(r *Run, m *ended, o messages.Outcome, took time.Duration, fault bool) Item {
	item := Item{Worker: w.key(), Took: took, Restored: m.restored, Lost: m.lost, Fault: fault, Change: runChange(r, m, o, w.ending.by)}
	if m.ran > 0 {
		item.Took = m.ran // without the wait for a processor, which others share
	}
	switch change := item.Change.(type) {
	case *store.Rescue:
		if m.unstarted || m.neverRan {
			item.Fault = false
		}
	case *store.Finish:
		change.Restored, change.NeverRan = m.restored, m.neverRan || m.unstarted
		change.Output.Record = w.cfg.Feeds.Record(r.Execution.ID)
		change.Outcome, change.Retry = w.cfg.retryOf(r.Execution, r.Action, change.Outcome)
	}
	return item
}

// notStarted ends a run whose program the node could not start for want of descriptors, memory or processes. Nothing of it
// has begun, so it goes back and is placed again after a back-off.
func (w *Worker) notStarted(r *Run, why error) {
	w.tellShort(why)
	items := []Item{w.putBack(r, why)}
	w.traceEnd(r, &items[0], &messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: codeShort}})
	w.cfg.Feeds.Close(r.Execution.ID)
	if w.ending.leaving != nil || r.stop == stopHalt {
		w.record(items)
		w.settle()
		return
	}
	w.recovery.short(why, items)
}

// putBack is the change of a run that was not started. One that a caller has cancelled meanwhile ends.
func (w *Worker) putBack(r *Run, why error) Item {
	e := r.Execution
	if r.stop == stopCancel {
		end := &ended{placement: r.Placement(), neverRan: true, outcome: failed(&messages.Error{Code: messages.CodeCancelled, Message: r.stopText})}
		return w.finish(r, end, settleStop(r, end), 0, false)
	}
	return w.item(&store.Rescue{
		ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + why.Error(), Unstarted: true,
		Delay: retry.ShortageDelay(int(e.Attempt)),
	})
}

// unservedFor is how long an execution is handed back by default.
const unservedFor = time.Hour

// notServed hands back an execution whose action this node does not serve: another node of the pool may. Once it has waited for long, it
// ends. The worker has done nothing and is held to nothing.
func (w *Worker) notServed(r *Run, m *ended) {
	e := r.Execution
	since := time.Duration(0)
	if !e.FirstPlacedAt.IsZero() {
		since = w.cfg.Clock.Since(e.FirstPlacedAt)
	}
	end := &ended{placement: m.placement, neverRan: true, outcome: failed(&messages.Error{
		Code: messages.CodeNoNodeServes, Message: fmt.Sprintf("%s; nor did the others that it came to, for %s", m.unserved, since.Round(time.Second)), FailedBy: messages.FailedByWorker,
	})}
	var item Item
	switch {
	case r.stop == stopCancel:
		end.outcome = failed(&messages.Error{Code: messages.CodeCancelled, Message: r.stopText})
		item = w.finish(r, end, settleStop(r, end), 0, false)
	case since >= cmp.Or(w.cfg.NoWorkerDeadline, unservedFor):
		item = w.finish(r, end, end.outcome, 0, false)
	default:
		item = w.item(&store.Rescue{
			ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + m.unserved, Unstarted: true, Delay: retry.UnservedDelay(int(e.Attempt)),
		})
		w.leaveSession(e)
	}
	w.traceEnd(r, &item, &end.outcome)
	w.cfg.Feeds.Close(e.ID)
	w.recovery.checkin(r, end, &checkin{outcome: end.outcome}, []Item{item})
}

// leaveSession ends the binding of a session to this worker where none of its runs has finished here, so that its next one may be placed on a
// node that serves it.
func (w *Worker) leaveSession(e *messages.Execution) {
	if e.Session == "" || !e.SessionHit || w.cfg.Sessions == nil {
		return
	}
	binding := store.Binding{Pool: w.cfg.PoolName, Session: e.Session, Epoch: e.SessionEpoch, Worker: e.Worker}
	w.world.Beside(fetchWithin, func(ctx context.Context) func() {
		session, err := w.cfg.Sessions.GetSession(ctx, binding.Pool, binding.Session)
		if err == nil && session.FinishedEpoch < binding.Epoch {
			_, err = w.cfg.Sessions.Unbind(ctx, []store.Binding{binding})
		}
		if err != nil {
			w.cfg.Logger.Warn("session stays bound to a worker that does not serve it", "worker", w.id, "session", binding.Session, "error", err)
		}
		return nil
	})
}

// lateWithin bounds the writing of a late failure.
const lateWithin = 5 * time.Second

// failedLate takes a failure of code whose run has ended. It is told on that run and counted against the worker. It spends nothing of
// the run that is on the worker now, whose code has nothing to do with it.
func (w *Worker) failedLate(m *lateFailure) {
	w.cfg.Logger.Warn("code of a run that has ended has failed", "worker", w.id, "generation", w.gen, "execution", m.placement.Execution,
		"attempt", m.placement.Attempt, "type", m.err.Type, "error", m.err.Message)
	if id := m.placement.Execution; !id.IsZero() && w.cfg.Failures != nil {
		late := store.LateFailure{Execution: id, Attempt: m.placement.Attempt, Reason: m.err.Message, Worker: w.id}
		late.Reason = messages.ClipText(late.Reason, messages.ListedMessageMax)
		w.world.Beside(lateWithin, func(ctx context.Context) func() {
			if err := w.cfg.Failures.SaveLateFailure(ctx, late); err != nil {
				w.cfg.Logger.Warn("late failure not stored", "worker", w.id, "execution", id, "error", err)
			}
			return func() {}
		})
	}
	if !w.ending.begun() && w.condition.ready {
		w.recovery.late(m.err.Message)
	}
}

// gone hears of the end of the runner's process, which ends the worker whatever it was doing.
func (w *Worker) gone(m *gone) {
	r, why := w.slot.run, m.why()
	charged := lifecycle.Death{
		Starting:  w.condition.machine.State() == lifecycle.Initializing && w.ending.leaving == nil,
		Restoring: r != nil && r.tries > 0, Running: r != nil && m.running == r.Placement(),
	}.Charge()
	if charged == lifecycle.ChargedPack {
		w.goneEarly(withStderr(why, m.stderr))
		return
	}
	w.ending.gone()
	if r != nil {
		end := &ended{
			placement: r.Placement(), outcome: lost(why, describeExit(m.exit), m.stderr), output: m.output, crashed: why, restored: m.restored, lost: m.lost,
			unstarted: charged != lifecycle.ChargedExecution,
		}
		if charged == lifecycle.ChargedState {
			w.restoreDied(r, end)
		}
		w.ended(end)
	}
	if w.ending.leaving == nil {
		w.condition.counts.Faulted()
		w.recovery.carry(lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: why}, lifecycle.Metadata{})
	}
	w.ending.gone()
	w.settle()
}

// restoreDied says of a run's end that its session's state has caused it. The run is placed again later, so that this worker is back before
// the state may end another, and the pool's other work has one meanwhile.
func (w *Worker) restoreDied(r *Run, end *ended) {
	end.restoring, end.delay = true, retry.ShortageDelay(r.tries)
	end.crashed = fmt.Sprintf("its session's state ended worker %s while it was restored, %d of %d times: %s", w.id, r.tries, store.StateTriesMax, end.crashed)
	w.cfg.Logger.Warn("a session's state ended its worker while it was restored", append(r.Execution.LogFields(), "worker", w.id, "generation", w.gen,
		"session", r.Execution.Session, "times", r.tries, "reason", end.crashed)...)
}

// goneEarly ends a worker whose process has ended before it was ready.
func (w *Worker) goneEarly(why string) {
	v := lifecycle.Recover(lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: why}, w.condition.facts())
	w.leave(v.Reason, v.Cause, "worker initialization failed: "+why, v.Wanted)
	w.ending.gone()
	w.settle()
}

// retire ends the worker once its run has ended.
func (w *Worker) retire(m *Retire) {
	if w.ending.begun() {
		return
	}
	w.ending.by = m.By
	w.lastStates().missing = m.Sessions
	w.retireFor(m)
	w.settle()
}

// retireFor makes the worker leave when its run has ended, and take nothing more.
func (w *Worker) retireFor(m *Retire) {
	w.ending.retire = m
	w.queue.clear()
	w.sessions.endPause()
	w.giveBack()
}

// halt ends the worker now. A worker leaves busy only when no execution is on it, so a run is stopped first, and its
// end lets the worker go.
func (w *Worker) halt(m *Halt) {
	if w.ending.leaving != nil && !m.Hard {
		return
	}
	if m.By != "" {
		w.ending.by = m.By
	}
	if r := w.slot.run; r != nil && w.ending.leaving == nil {
		w.ending.halted = true
		w.retireFor(&Retire{Reason: m.Reason, Why: m.Why})
		r.stopCode = m.Code
		w.slot.stop(stopHalt, m.Why)
	} else {
		if w.ending.leaving == nil && w.lastStates().open() {
			w.lastStates().drop(m.Why)
		}
		w.leave(m.Reason, lifecycle.CauseEnding, m.Why, true)
	}
	if m.Hard {
		w.ending.abort(w.slot.run)
	}
}

// leaves implements recovered.
func (w *Worker) leaves() (why string, leaves bool) {
	if w.ending.leaving == nil {
		return "", false
	}
	return w.ending.leaving.why, true
}

// retires implements recovered.
func (w *Worker) retires() bool { return w.ending.retire != nil }

// leave implements recovered. The worker takes nothing more, what it had claimed goes back, and its runner is stopped by the
// ladder. A run that is on it ends first.
func (w *Worker) leave(reason lifecycle.Reason, cause lifecycle.Cause, why string, wanted bool) {
	if w.ending.leaving != nil {
		return
	}
	w.ending.leave(cause, why, wanted)
	w.lastStates().over = true
	w.queue.clear()
	w.recovery.held = nil
	w.sessions.endPause()
	w.prober.answer(endsFor(why))
	w.giveBack()
	to := lifecycle.Terminating // by name: a failed probe, for one, has a milder end too
	if w.condition.machine.State() == lifecycle.Initializing {
		to = lifecycle.Terminated
	}
	w.condition.transitionTo(to, reason, lifecycle.Metadata{Reason: why})
	w.settle()
}

// settle implements flow.
func (w *Worker) settle() {
	l := w.ending.leaving
	if l == nil {
		w.retireIfIdle()
		return
	}
	switch l.next(w.slot.run != nil, w.queue.claiming) {
	case endWaits:
	case endStopsRunner:
		w.ending.stopRunner(w.condition.ready)
	case endTells:
		w.over(l)
	}
}

// over tells the pool that the worker has ended, and ends the actor.
func (w *Worker) over(l *leaving) {
	l.told = true
	if w.condition.machine.State() == lifecycle.Terminating {
		w.condition.transition(lifecycle.CleanupComplete, lifecycle.Metadata{})
	}
	w.out.Send(w.cfg.Pool, &WorkerEnded{
		Slot: w.number, Generation: w.gen, Cause: l.cause, Why: l.why, Wanted: l.wanted,
		WasReady: w.condition.ready, Traceback: w.ending.trace, Taken: w.queue.taken,
	})
	w.out.Stop(w.self)
}

// retireIfIdle lets a retired worker go once it is idle and its sessions are kept.
func (w *Worker) retireIfIdle() {
	r := w.ending.retire
	if r == nil || w.slot.run != nil || w.lastStates().keep(w.cfg.keepTime(w.ending.halted), w.queue.writing == 0) {
		return
	}
	w.leave(r.Reason, lifecycle.CauseEnding, r.Why, true)
}
