package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// aheadMax bounds what a worker may hold claimed beside its run.
const aheadMax = 8

// queued is a placement that was delivered and not claimed.
type queued struct {
	messages.Placement
	ahead int                  // how many claims the worker may hold with this one, where it is not free; 1: none but its own
	by    messages.Incarnation // the router that handed it over directly; zero: the store has it
}

// workQueue is what a worker has been given and has not begun: placements that are delivered, claims that the store has not
// answered, and executions that are claimed.
type workQueue struct {
	*workerShell
	flow      flow
	slot      occupancy
	delivered []queued              // not claimed
	claimed   []*messages.Execution // not begun
	cancels   map[messages.Placement]struct{}
	claiming  int   // claims under way
	writing   int   // changes under way
	lingers   Timer // until what is claimed ahead is looked at; nil: nothing is
	suspended Timer // until the lease is looked at again; nil: nothing waits for it
}

// occupancy is a worker's slot, as what waits for it sees it.
type occupancy interface {
	free() bool
	holds(p messages.Placement) bool // the placement runs
	long() bool                      // nothing should be claimed behind its run
	left() int                       // how many runs the worker may still begin; negative: any number
}

// add takes placements into the queue. One that is there already came twice and is dropped; so is one that was claimed.
func (q *workQueue) add(m *Execute) {
	for _, p := range m.Placements {
		if q.at(p) < 0 && !q.holds(p) {
			q.delivered = append(q.delivered, queued{p, min(max(m.Ahead, 1), aheadMax), m.By})
		}
	}
}

// holds reports whether the placement is claimed: it runs, or is the next to run.
func (q *workQueue) holds(p messages.Placement) bool { return q.slot.holds(p) || q.claims(p) }

// claims reports whether the placement is claimed and has not begun.
func (q *workQueue) claims(p messages.Placement) bool {
	return slices.ContainsFunc(q.claimed, func(e *messages.Execution) bool { return e.Placement() == p })
}

// pop takes out the execution to begin next; nil: none is claimed.
func (q *workQueue) pop() *messages.Execution {
	if len(q.claimed) == 0 {
		return nil
	}
	e := q.claimed[0]
	q.claimed = q.claimed[1:]
	return e
}

// claim adds the claims that the worker may make to changes that must be written anyway: slot first, then claim, and all in
// one transaction. Takes says whether the lifecycle lets it begin a run.
func (q *workQueue) claim(items []Item, takes bool) []Item {
	n := claimable{
		delivered: q.delivered, claimed: len(q.claimed) > 0 || q.claiming > 0,
		free: q.slot.free() && (q.writing == 0 || len(items) > 0), takes: takes, long: q.slot.long(), left: q.slot.left(),
	}.count()
	if n == 0 {
		return items
	}
	if !q.cfg.Lease.MayClaim() {
		q.suspend()
		return items
	}
	for _, p := range q.delivered[:n] {
		items = append(items, q.item(&store.Claim{
			ID: p.Execution, Attempt: p.Attempt, Worker: q.key, Generation: q.gen, PlacedBy: p.by, WorkerID: q.id,
		}))
	}
	q.delivered = append(q.delivered[:0], q.delivered[n:]...)
	return items
}

// claimable is what decides how much of its queue a worker may claim.
type claimable struct {
	delivered []queued
	claimed   bool // what was claimed before has not all begun
	free      bool // the slot is free, or about to be with the finish that is being written
	takes     bool // the lifecycle lets the worker begin a run
	long      bool // the run takes long
	left      int  // how many runs the worker may still begin; negative: any number
}

// count is how many from the head of the queue the worker may claim now: one where the slot is free, and behind it, or behind
// a short run, what may be claimed ahead.
func (c claimable) count() int {
	if len(c.delivered) == 0 || c.claimed {
		return 0
	}
	if c.free && !c.takes || !c.free && (c.delivered[0].ahead <= 1 || c.long) {
		return 0
	}
	n := 1
	for n < len(c.delivered) && n < c.delivered[n].ahead {
		n++
	}
	if c.left >= 0 {
		n = min(n, c.left)
	}
	return n
}

// aheadWait is how long a claim may wait behind one run. What is claimed ahead counts as running, and its runs are short
// only nine times of ten.
const aheadWait = 100 * time.Millisecond

// linger sees to it that what is claimed ahead does not wait behind a long run.
func (q *workQueue) linger() {
	if len(q.claimed) > 0 && q.lingers == nil {
		q.lingers = q.world.After(aheadWait, q.lingered)
	}
}

func (q *workQueue) lingered() {
	q.lingers = nil
	if q.slot.long() {
		q.giveBack("the run before it takes long", "")
	}
	q.linger()
}

// leaseLook is how often a worker that waits for its node's lease looks at it again.
const leaseLook = 100 * time.Millisecond

// suspend leaves the queue as it is until the node's lease holds again.
func (q *workQueue) suspend() {
	if q.suspended == nil {
		q.suspended = q.world.After(leaseLook, func() {
			q.suspended = nil
			q.flow.next(nil)
		})
	}
}

// claimAnswered takes the store's answer to a claim.
func (q *workQueue) claimAnswered(claim *store.Claim, r store.Result) {
	p := messages.Placement{Execution: claim.ID, Attempt: claim.Attempt}
	q.drop(p) // where it was delivered once more meanwhile
	if errors.Is(r.Err, store.ErrFenced) {
		q.cfg.Lease.Refuse()
		q.delivered = append(q.delivered, queued{p, 1, claim.PlacedBy}) // it is still ours, unless the node turns out to be dead
		return
	}
	if r.Verdict != store.Applied && r.Verdict != store.Already || r.Execution == nil || q.holds(p) {
		return
	}
	if r.Execution.Status == messages.Cancelling {
		q.cancel(r.Execution.Placement())
	}
	q.claimed = append(q.claimed, r.Execution)
}

// cancel keeps the wish to cancel an execution that is claimed and has not begun.
func (q *workQueue) cancel(p messages.Placement) {
	if q.cancels == nil {
		q.cancels = map[messages.Placement]struct{}{}
	}
	q.cancels[p] = struct{}{}
}

// cancelled reports whether somebody has cancelled what begins now, and forgets it.
func (q *workQueue) cancelled(p messages.Placement) bool {
	_, early := q.cancels[p]
	delete(q.cancels, p)
	return early
}

// neverStarted begins the reason of every rescue of what was claimed and whose code has not begun: such a claim is the
// one that may be made again whatever the action is.
const neverStarted = "never started: "

// giveBack returns what was claimed and will not be started here. By is who asked for it; empty: nobody.
func (q *workQueue) giveBack(why, by string) {
	if len(q.claimed) == 0 {
		return
	}
	items := make([]Item, 0, len(q.claimed))
	for _, e := range q.claimed {
		items = append(items, q.item(&store.Rescue{
			ID: e.ID, Attempt: e.Attempt, Reason: neverStarted + why, Unstarted: true, By: by,
		}))
	}
	q.claimed = nil
	q.record(items)
}

// drop forgets a placement that was taken back, cancelled or moved.
func (q *workQueue) drop(p messages.Placement) {
	if i := q.at(p); i >= 0 {
		q.delivered = slices.Delete(q.delivered, i, i+1)
	}
}

// clear forgets all that is not claimed: the pool takes it back.
func (q *workQueue) clear() { q.delivered = nil }

// at is the placement's place in the queue; -1: it is not there.
func (q *workQueue) at(p messages.Placement) int {
	return slices.IndexFunc(q.delivered, func(d queued) bool { return d.Placement == p })
}

// record asks for changes. A worker that ends waits for the answer to its claims, which it may have to give back.
func (q *workQueue) record(items []Item) {
	if len(items) == 0 {
		return
	}
	q.writing += len(items)
	q.claiming += claims(items)
	q.out.Send(q.cfg.Recorder, &Record{Items: items, Pool: q.cfg.Pool, Reply: q.self})
}

// answered counts changes, and the claims among them, that are no longer waited for.
func (q *workQueue) answered(changes, claimed int) {
	q.writing -= changes
	q.claiming -= claimed
}

// stop ends the queue's timers.
func (q *workQueue) stop() {
	stopTimer(q.suspended)
	stopTimer(q.lingers)
}

// claims counts the claims among changes.
func claims(items []Item) (n int) {
	for i := range items {
		if _, claim := items[i].Change.(*store.Claim); claim {
			n++
		}
	}
	return n
}
