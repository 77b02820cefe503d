package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
)

// notStarted ends a run whose program the node could not start for want of descriptors, memory or processes. Nothing of it
// has begun, so it goes back and is placed again after a back-off; the worker degrades until a probe passes.
func (w *Worker) notStarted(ctx actor.Context, r *Run, m *ended) {
	w.tellShort(m.short)
	items := []Item{w.putBack(r, m.short)}
	w.cfg.Feeds.Close(r.Execution.ID)
	if w.leaving != nil || r.stop == stopHalt {
		w.record(items)
		w.settle(ctx)
		return
	}
	w.held, w.shaky = nil, false
	failure := lifecycle.Failure{Kind: lifecycle.NodeShort, Text: m.short.Error()}
	if w.cfg.Thresholds.Off { // health decides nothing: the worker goes on
		failure.Kind = lifecycle.ActionError
	}
	w.carry(ctx, failure, lifecycle.Metadata{Error: failure.Text})
	w.goOn(ctx, items)
}

// putBack is the change of a run that was not started. One that a caller has cancelled meanwhile ends.
func (w *Worker) putBack(r *Run, why error) Item {
	e := r.Execution
	if r.stop == stopCancel {
		end := &ended{placement: r.Placement(), outcome: failed(&messages.Error{Code: messages.CodeCancelled, Message: r.stopText})}
		return w.finish(r, end, settleStop(r, end), 0, false)
	}
	return w.item(&store.Rescue{
		ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + why.Error(), Unstarted: true,
		Delay: retry.ShortageDelay(int(e.Attempt)),
	})
}

func (w *Worker) tellShort(err error) {
	if w.cfg.Shortage != nil {
		w.cfg.Shortage(w.cfg.PoolName, err)
	}
}

// probeShort takes a probe's answer that the node lacks what a start takes. It is no failure of the worker's: none is counted.
func (w *Worker) probeShort(ctx actor.Context, err error) {
	w.tellShort(err)
	w.answerProbe("unhealthy: " + err.Error())
	if w.cfg.Thresholds.Off {
		w.probeIgnored(ctx)
		return
	}
	w.held = nil
	w.carry(ctx, lifecycle.Failure{Kind: lifecycle.NodeShort, Text: err.Error()}, lifecycle.Metadata{Error: err.Error()})
	w.tell(nil)
	w.next(nil)
}
