package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// queued is a placement that was delivered and not claimed.
type queued struct {
	messages.Placement
	ahead int                  // how many claims the worker may hold with this one, where it is not free; 1: none but its own
	by    messages.Incarnation // the router that handed it over directly; zero: the store has it
	came  arrival
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
	pace      pace
	hold      bool      // nothing is claimed for now
	taken     uint64    // the number of the last Take
	claiming  int       // claims under way
	asked     time.Time // when they were asked for
	writing   int       // changes under way
	early     Timer     // until a claim ahead is due; nil: none waits for it
	lingers   Timer     // until what is claimed ahead is looked at; nil: nothing is
	suspended Timer     // until the lease is looked at again; nil: nothing waits for it
}

// occupancy is a worker's slot, as what waits for it sees it.
type occupancy interface {
	free() bool
	holds(p messages.Placement) bool // the placement runs
	ran() time.Duration              // how long what runs has run; 0: nothing does, or it has just begun
	left() int                       // how many runs the worker may still begin; negative: any number
}

// add takes placements into the queue. One that is there already came twice and is dropped; so is one that was claimed.
func (q *workQueue) add(m *Execute) {
	for _, p := range m.Placements {
		if q.at(p) < 0 && !q.holds(p) {
			q.delivered = append(q.delivered, queued{p, min(max(m.Ahead, 1), aheadMax), m.By, arrival{m.Published, m.Arrived}})
		}
	}
}

// holds reports whether the placement is claimed: it runs, or is the next to run.
func (q *workQueue) holds(p messages.Placement) bool { return q.slot.holds(p) || q.claims(p) != nil }

// claims returns the execution of a placement that is claimed and has not begun; nil: it is not here.
func (q *workQueue) claims(p messages.Placement) *messages.Execution {
	at := slices.IndexFunc(q.claimed, func(e *messages.Execution) bool { return e.Placement() == p })
	if at < 0 {
		return nil
	}
	return q.claimed[at]
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
	n := q.claimable(len(items) > 0, takes)
	if n == 0 {
		return items
	}
	if !q.cfg.Lease.MayClaim() {
		q.suspend()
		return items
	}
	for i := range q.delivered[:n] {
		p := &q.delivered[i]
		items = append(items, Item{Worker: q.key(), Told: q.traced(p), Change: &store.Claim{
			ID: p.Execution, Attempt: p.Attempt, Worker: q.key(), Generation: q.gen, PlacedBy: p.by, WorkerID: q.id,
		}})
	}
	q.delivered = append(q.delivered[:0], q.delivered[n:]...)
	q.asked = q.world.Now()
	return items
}

// claimable is how many claims the worker may make now. Finishes: the last run's end is written with them. A claim that it is too
// early for is looked at again when it is due.
func (q *workQueue) claimable(finishes, takes bool) int {
	stopTimer(q.early)
	q.early = nil
	if q.claiming > 0 || len(q.delivered) == 0 {
		return 0
	}
	n, again := claimable{
		delivered: q.delivered, pace: &q.pace, claims: len(q.claimed),
		free: q.slot.free() && (q.writing == 0 || finishes), takes: takes,
		hold: q.hold, runs: !q.slot.free(), ran: q.slot.ran(), left: q.slot.left(),
	}.count()
	if n == 0 && again > 0 {
		q.early = q.world.After(again, func() {
			q.early = nil
			q.flow.next(nil)
		})
	}
	return n
}

// linger sees to it that what is claimed ahead does not wait behind a long run.
func (q *workQueue) linger() {
	if len(q.claimed) > 0 && q.lingers == nil {
		q.lingers = q.world.After(aheadWait, q.lingered)
	}
}

func (q *workQueue) lingered() {
	q.lingers = nil
	if q.pace.late(q.slot.ran()) {
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
		q.delivered = append(q.delivered, queued{Placement: p, ahead: 1, by: claim.PlacedBy}) // it is still ours, unless the node turns out to be dead
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

// take takes up what was claimed as it was stored. What is more than the worker may still begin goes back.
func (q *workQueue) take(m *Take) {
	q.taken = m.Number
	if q.holds(m.Execution.Placement()) {
		return
	}
	if left := q.slot.left(); left >= 0 && left <= len(q.claimed) {
		q.record([]Item{q.unstarted(m.Execution, "its worker has run as often as it may", "")})
		return
	}
	q.claimed = append(q.claimed, m.Execution)
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

// NeverStarted is the rescue of what was claimed and whose code has not begun.
func NeverStarted(p messages.Placement, why, by string) *store.Rescue {
	return &store.Rescue{ID: p.Execution, Attempt: p.Attempt, Reason: neverStarted + why, Unstarted: true, By: by}
}

// giveBack returns what was claimed and will not be started here. By is who asked for it; empty: nobody.
func (q *workQueue) giveBack(why, by string) {
	if len(q.claimed) == 0 {
		return
	}
	items := make([]Item, 0, len(q.claimed))
	for _, e := range q.claimed {
		items = append(items, q.unstarted(e, why, by))
	}
	q.claimed = nil
	q.record(items)
}

// unstarted is the change that gives back what was claimed and has not begun.
func (q *workQueue) unstarted(e *messages.Execution, why, by string) Item {
	return q.item(NeverStarted(e.Placement(), why, by))
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
	if claimed > 0 {
		q.pace.claimed(q.world.Now().Sub(q.asked))
	}
}

// stop ends the queue's timers.
func (q *workQueue) stop() {
	stopTimer(q.suspended)
	stopTimer(q.lingers)
	stopTimer(q.early)
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
