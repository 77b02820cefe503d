package supervisor

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/roster"
)

// While many submit at once, what has just been stored is gathered until what came before it has been claimed, so that a
// busy node places, publishes, claims and records few large groups instead of many small ones (docs/benchmarks.md). Where
// few submit, or nothing is on its way to a worker, nothing waits.
const (
	// gatherTime bounds how long an execution is gathered with others. The queues that are dispatched ahead to hold up to
	// 50 ms of work.
	gatherTime = 20 * time.Millisecond
	// gatherMax is how many executions are gathered at most.
	gatherMax = 256
)

// gathers decides whether so many executions, just stored, wait for others: more is whether others are being stored right
// now, unclaimed how many executions the router has that wait for a worker or for their claim.
func gathers(stored int, more bool, unclaimed int) bool {
	return more && unclaimed > 0 && stored < gatherMax
}

// arrivals are executions that this node has stored and its router has not been told of. Those that an actor had when it
// failed, the next one finds in the store.
type arrivals struct {
	gathered []messages.Candidate
	more     bool        // of the last ones
	over     *time.Timer // running while there are some
}

// arrivalsOver ends their time.
type arrivalsOver struct{ of *Pool }

// arrive takes up what has just been stored; more is whether others are being stored right now.
func (p *Pool) arrive(candidates []messages.Candidate, more bool) {
	a := &p.arrivals
	a.gathered, a.more = append(a.gathered, candidates...), more
	p.lookAtArrivals()
	if a.over == nil && len(a.gathered) > 0 {
		a.over = p.later(cmp.Or(p.cfg.GatherTime, gatherTime), &arrivalsOver{p})
	}
}

// lookAtArrivals tells the router of what was gathered, unless that waits for more.
func (p *Pool) lookAtArrivals() {
	if a := &p.arrivals; len(a.gathered) > 0 && !gathers(len(a.gathered), a.more, p.roster.Waiting()) {
		p.tellArrivals()
	}
}

// tellArrivals tells the router of what was gathered.
func (p *Pool) tellArrivals() {
	gathered := p.arrivals.gathered
	p.dropArrivals()
	if len(gathered) > 0 {
		p.step(roster.Arrived{Candidates: gathered})
	}
}

// dropArrivals leaves what was gathered to whoever looks at the store next.
func (p *Pool) dropArrivals() {
	stopTimer(p.arrivals.over)
	p.arrivals = arrivals{}
}
