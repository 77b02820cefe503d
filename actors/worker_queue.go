package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors/lifecycle"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// aheadMax bounds what a worker may hold claimed beside its run.
const aheadMax = 8

// execute takes placements into the queue. One that is there already came twice and is dropped.
// So is one that was claimed already, and everything that comes to a worker that leaves: the pool takes it back.
func (w *Worker) execute(m *Execute) {
	if w.leaving != nil || w.retire != nil {
		return
	}
	for _, p := range m.Placements {
		if !slices.Contains(w.queue, p) && !w.holds(p) {
			w.queue = append(w.queue, p)
		}
	}
	w.ahead = min(max(m.Ahead, 1), aheadMax)
	w.next(nil)
}

// holds reports whether the placement is claimed: it runs, or is the next to run.
func (w *Worker) holds(p messages.Placement) bool {
	return w.run != nil && w.run.Placement() == p ||
		slices.ContainsFunc(w.claimed, func(e *messages.Execution) bool { return e.Placement() == p })
}

// takes reports whether the lifecycle lets the worker start a run.
func (w *Worker) takes() bool {
	return w.leaving == nil && w.retire == nil && (w.machine.CanAcceptWork() || w.machine.CanAcceptLastResort())
}

// next starts the next claimed execution where the worker is free, and claims what the queue holds: slot first, then
// claim. Items are changes that must be written anyway; a claim rides in the same transaction.
func (w *Worker) next(items []Item) {
	if w.run == nil && w.takes() && len(w.claimed) > 0 {
		e := w.claimed[0]
		w.claimed = w.claimed[1:]
		w.begin(e)
	}
	w.record(w.claims(items))
}

func (w *Worker) claims(items []Item) []Item {
	if w.leaving != nil || w.retire != nil || w.held != nil || len(w.queue) == 0 || !w.mayClaim(len(items) > 0) {
		return items
	}
	n := min(len(w.queue), w.ahead)
	for _, p := range w.queue[:n] {
		items = append(items, w.item(&store.Claim{
			ID: p.Execution, Attempt: p.Attempt, Worker: w.key, Generation: w.gen,
		}))
	}
	w.queue = append(w.queue[:0], w.queue[n:]...)
	return items
}

// mayClaim: the slot is free, or about to be with the finish that is being written, or the pool lets the worker claim
// ahead and what it holds runs short.
func (w *Worker) mayClaim(finishing bool) bool {
	switch {
	case len(w.claimed) > 0:
		return false
	case w.claiming > 0:
		return false
	case w.run != nil:
		return w.ahead > 1
	case w.writing > 0 && !finishing:
		return w.ahead > 1
	default:
		return w.takes()
	}
}

// recorded hears what became of claims and finishes.
func (w *Worker) recorded(ctx actor.Context, m *Recorded) {
	w.writing--
	if claims(m.Items) {
		w.claiming--
	}
	for i := range m.Items {
		if claim, ok := m.Items[i].Change.(*store.Claim); ok {
			w.claimAnswered(claim, m.Results[i])
		}
	}
	if w.leaving != nil || w.retire != nil {
		w.giveBack()
		w.settle(ctx)
		return
	}
	w.next(nil)
}

func (w *Worker) claimAnswered(claim *store.Claim, r store.Result) {
	p := messages.Placement{Execution: claim.ID, Attempt: claim.Attempt}
	w.drop(p) // where it was delivered once more meanwhile
	if r.Verdict != store.Applied && r.Verdict != store.Already || r.Execution == nil || w.holds(p) {
		return
	}
	if r.Execution.Status == messages.Cancelling {
		w.cancelBeforeStart(r.Execution.Placement())
	}
	w.claimed = append(w.claimed, r.Execution)
}

// cancelBeforeStart keeps the wish to cancel an execution that is claimed and has not begun.
func (w *Worker) cancelBeforeStart(p messages.Placement) {
	if w.cancels == nil {
		w.cancels = map[messages.Placement]struct{}{}
	}
	w.cancels[p] = struct{}{}
}

// neverStarted begins the reason of every rescue of what was claimed and whose code has not begun: such a claim is the
// one that may be made again whatever the action is.
const neverStarted = "never started: "

// giveBack returns what was claimed and will not be started here.
func (w *Worker) giveBack() {
	if len(w.claimed) == 0 {
		return
	}
	items := make([]Item, 0, len(w.claimed))
	for _, e := range w.claimed {
		items = append(items, w.item(&store.Rescue{
			ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + "its worker leaves", Unstarted: true,
		}))
	}
	w.claimed = nil
	w.record(items)
}

// drop forgets a placement that was taken back, cancelled or moved.
func (w *Worker) drop(p messages.Placement) {
	if i := slices.Index(w.queue, p); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
}

// checkout begins the lifecycle's side of a run.
func (w *Worker) checkout(e *messages.Execution) {
	w.shaky = w.machine.State() == lifecycle.Degraded
	w.transition(lifecycle.Checkout, lifecycle.Metadata{
		Execution: e.ID, Attempt: e.Attempt, Session: e.Session, Caller: e.CreatedBy,
	})
}
