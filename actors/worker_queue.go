package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// aheadMax bounds what a worker may hold claimed beside its run.
const aheadMax = 8

// queued is a placement that was delivered and not claimed.
type queued struct {
	messages.Placement
	ahead int // how many claims the worker may hold with this one, where it is not free; 1: none but its own
}

// execute takes placements into the queue. One that is there already came twice and is dropped.
// So is one that was claimed already, and everything that comes to a worker that leaves: the pool takes it back.
func (w *Worker) execute(m *Execute) {
	if w.leaving != nil || w.retire != nil {
		return
	}
	for _, p := range m.Placements {
		if w.queuedAt(p) < 0 && !w.holds(p) {
			w.queue = append(w.queue, queued{p, min(max(m.Ahead, 1), aheadMax)})
		}
	}
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
	if len(w.claimed) > 0 && !w.cfg.Lease.Holds() {
		w.giveBack("its node's lease has run out") // others may have declared the node dead
	}
	if w.run == nil && w.pause == nil && w.takes() && len(w.claimed) > 0 {
		e := w.claimed[0]
		w.claimed = w.claimed[1:]
		w.begin(e)
	}
	w.linger()
	w.record(w.claims(items))
}

func (w *Worker) claims(items []Item) []Item {
	if w.leaving != nil || w.retire != nil || w.held != nil {
		return items
	}
	n := w.claimable(len(items) > 0)
	if n == 0 {
		return items
	}
	if !w.cfg.Lease.MayClaim() {
		w.suspend()
		return items
	}
	for _, p := range w.queue[:n] {
		items = append(items, w.item(&store.Claim{
			ID: p.Execution, Attempt: p.Attempt, Worker: w.key, Generation: w.gen,
		}))
	}
	w.queue = append(w.queue[:0], w.queue[n:]...)
	return items
}

// aheadWait is how long a claim may wait behind one run. What is claimed ahead counts as running, and its runs are short
// only nine times of ten.
const aheadWait = 100 * time.Millisecond

// lingering lets a worker look at what it holds claimed.
type lingering struct{}

// linger sees to it that what is claimed ahead does not wait behind a long run.
func (w *Worker) linger() {
	if len(w.claimed) > 0 && w.lingers == nil {
		w.lingers = w.later(aheadWait, &lingering{})
	}
}

func (w *Worker) lingering() {
	w.lingers = nil
	if w.longRun() {
		w.giveBack("the run before it takes long")
	}
	w.linger()
}

// longRun reports whether the worker is in a run that nothing should be claimed behind.
func (w *Worker) longRun() bool { return w.run != nil && time.Since(w.run.Started) >= aheadWait }

// leaseLook is how often a worker that waits for its node's lease looks at it again.
const leaseLook = 100 * time.Millisecond

// lookAgain lets a worker that waits for its node's lease look at it again.
type lookAgain struct{}

// suspend leaves the queue as it is until the node's lease holds again.
func (w *Worker) suspend() {
	if w.suspended == nil {
		w.suspended = w.later(leaseLook, &lookAgain{})
	}
}

// claimable is how many from the head of the queue the worker may claim now: one where the slot is free, or about to be
// with the finish that is being written, and behind it what may be claimed ahead.
func (w *Worker) claimable(finishing bool) int {
	if len(w.queue) == 0 || len(w.claimed) > 0 || w.claiming > 0 {
		return 0
	}
	free := w.run == nil && (w.writing == 0 || finishing)
	if free && !w.takes() || !free && (w.queue[0].ahead <= 1 || w.longRun()) {
		return 0
	}
	n := 1
	for n < len(w.queue) && n < w.queue[n].ahead {
		n++
	}
	if w.cfg.RunsMax > 0 {
		n = min(n, w.cfg.RunsMax-w.runs) // nothing else is claimed or being claimed here
	}
	return n
}

// spent reports whether the worker has begun the last run that it may have.
func (w *Worker) spent() bool { return w.cfg.RunsMax > 0 && w.runs >= w.cfg.RunsMax }

// recorded hears what became of claims and finishes.
func (w *Worker) recorded(ctx actor.Context, m *Recorded) {
	if !m.Late {
		w.writing -= len(m.Items)
		w.claiming -= claims(m.Items)
	}
	for i := range m.Items {
		if claim, ok := m.Items[i].Change.(*store.Claim); ok {
			w.claimAnswered(claim, m.Results[i])
		} else {
			w.finishWritten(&m.Items[i], m.Results[i])
		}
	}
	if w.leaving != nil || w.retire != nil {
		w.giveBack("its worker leaves")
		w.settle(ctx)
		return
	}
	w.next(nil)
}

// deferred goes on without what the recorder cannot write for now and keeps.
func (w *Worker) deferred(ctx actor.Context, m *Deferred) {
	w.writing -= m.Changes
	w.claiming -= m.Claims
	if w.leaving != nil || w.retire != nil {
		w.settle(ctx)
		return
	}
	w.next(nil)
}

func (w *Worker) claimAnswered(claim *store.Claim, r store.Result) {
	p := messages.Placement{Execution: claim.ID, Attempt: claim.Attempt}
	w.drop(p) // where it was delivered once more meanwhile
	if errors.Is(r.Err, store.ErrFenced) {
		w.cfg.Lease.Refuse()
		w.queue = append(w.queue, queued{p, 1}) // it is still ours, unless the node turns out to be dead
		return
	}
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
func (w *Worker) giveBack(why string) {
	if len(w.claimed) == 0 {
		return
	}
	items := make([]Item, 0, len(w.claimed))
	for _, e := range w.claimed {
		items = append(items, w.item(&store.Rescue{
			ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + why, Unstarted: true, By: w.by,
		}))
	}
	w.claimed = nil
	w.record(items)
}

// drop forgets a placement that was taken back, cancelled or moved.
func (w *Worker) drop(p messages.Placement) {
	if i := w.queuedAt(p); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
}

// queuedAt is the placement's place in the queue; -1: it is not there.
func (w *Worker) queuedAt(p messages.Placement) int {
	return slices.IndexFunc(w.queue, func(q queued) bool { return q.Placement == p })
}

// checkout begins the lifecycle's side of a run.
func (w *Worker) checkout(e *messages.Execution) {
	w.shaky = w.machine.State() == lifecycle.Degraded
	w.transition(lifecycle.Checkout, lifecycle.Metadata{
		Execution: e.ID, Attempt: e.Attempt, Session: e.Session, Caller: e.CreatedBy,
	})
}
