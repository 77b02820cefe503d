package link

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// While no worker is idle, what has just been stored is gathered until little before it waits to be placed or claimed, so that a
// busy node places, publishes, claims and records few large groups instead of many small ones (docs/lab/benchmarks-history.md). While
// many callers submit that do not wait for the outcome, it is gathered behind anything that waits. Else nothing waits for others.
const (
	// gatherTime bounds how long an execution is gathered with others. The queues that are dispatched ahead to hold up to
	// 100 ms of work.
	gatherTime = 20 * time.Millisecond
	// gatherMax is how many executions are gathered at most.
	gatherMax = 256
	// gatherFrom is how many executions have to be unclaimed before others are gathered behind them. What is gathered is not compared by
	// priority yet, and behind a few there is little to gain.
	gatherFrom = 8
)

// gathers decides whether so many executions, just stored, wait for others: many is whether many callers that do not wait are storing
// more, idle how many workers have nothing, unclaimed how many executions the router has that wait for a worker or for their claim.
func gathers(stored int, many bool, idle, unclaimed int) bool {
	behind := gatherFrom
	if many {
		idle, behind = 0, 1
	}
	return idle == 0 && unclaimed >= behind && stored < gatherMax
}

// arrivals are executions that this node has stored and its router has not been told of. Those that an actor had when it
// failed, the next one finds in the store.
type arrivals struct {
	gathered []messages.Candidate
	many     bool         // many were being stored when the last of them came
	over     actors.Timer // ends their time; nil: they do not wait yet
}

// Arrive takes up what has just been stored; many is whether many callers that do not wait are storing more. The end of the message
// looks at it.
func (l *Link) Arrive(candidates []messages.Candidate, many bool) {
	l.arrivals.gathered, l.arrivals.many = append(l.arrivals.gathered, candidates...), many
}

// LookAtArrivals tells the router of what was gathered, unless that waits for more.
func (l *Link) LookAtArrivals() {
	a := &l.arrivals
	switch {
	case len(a.gathered) == 0:
	case !gathers(len(a.gathered), a.many, l.router.Idle(), l.router.Waiting()):
		l.TellArrivals()
	case a.over == nil:
		a.over = l.World.After(cmp.Or(l.Config.GatherTime, gatherTime), l.TellArrivals)
	}
}

// TellArrivals tells the router of what was gathered.
func (l *Link) TellArrivals() {
	gathered := l.arrivals.gathered
	l.dropArrivals()
	if len(gathered) > 0 {
		l.Tell(roster.Arrived{Candidates: gathered})
	}
}

// dropArrivals leaves what was gathered to whoever looks at the store next.
func (l *Link) dropArrivals() {
	part.StopTimer(l.arrivals.over)
	l.arrivals = arrivals{}
}

// Wake tells the router that work may be due. What the store has told every node (heard), the router has heard.
func (l *Link) Wake(heard bool) {
	if !heard || l.mode.Mode() != lead.Following {
		l.Tell(roster.Wake{})
	}
}
