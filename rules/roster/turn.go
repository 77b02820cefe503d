package roster

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Turn is the place in line of an execution that waits.
type Turn struct {
	Ahead   int    // others that are before it
	AtLeast bool   // there may be more
	Line    string // in which line it stands; empty: in none that the router knows
}

// The lines.
const (
	PoolLine      = "pool"       // for the next free worker of the pool
	WorkerLine    = "worker"     // for the worker of its session
	SessionLine   = "session"    // behind others of its session
	AnyWorkerLine = "any_worker" // for the first worker of a pool that has none
)

// TurnMax bounds the waiting executions that Turn looks at.
const TurnMax = 10_000

// Turn returns the place in line of an execution. One that is not held is told by its priority and seq: the held ones that come first are
// before it, and others that are not held may be.
func (r *Roster) Turn(id messages.ExecutionID, priority messages.Priority, seq int64) Turn {
	w := r.held[id]
	switch _, backed := r.backed[id]; {
	case r.flights[id] != nil, backed:
		return Turn{}
	case w == nil:
		ahead, _ := r.ready.ahead(&waiter{candidate: messages.Candidate{Priority: priority, Seq: seq}})
		return Turn{Ahead: ahead, AtLeast: true, Line: PoolLine}
	case w.queue == nil:
		return r.turnInSession(w)
	}
	ahead, more := w.queue.ahead(w)
	t := Turn{Ahead: ahead, AtLeast: more || r.incomplete(), Line: PoolLine}
	switch {
	case w.queue == &r.patient:
		t.Line = AnyWorkerLine
	case w.queue.worker != nil:
		t.Line = WorkerLine
	}
	return t
}

// turnInSession counts what of its session is before a waiter that stands in no queue.
func (r *Roster) turnInSession(w *waiter) Turn {
	if w.line == nil {
		return Turn{}
	}
	i := slices.Index(w.line.order, w)
	if i < 0 { // a hint, which waits for the store's word alone
		return Turn{}
	}
	return Turn{Ahead: i + len(w.line.flights), AtLeast: r.incomplete(), Line: SessionLine}
}

// TurnBehind counts those of its session that go before an execution of a strict one, of those that were inserted before it and have not
// ended; see Behind. More says that there are others.
func TurnBehind(earlier []messages.Execution, now time.Time, more bool) Turn {
	t := Turn{AtLeast: more, Line: SessionLine}
	for i := range earlier {
		if e := &earlier[i]; e.Affinity != messages.AffinityHint && (e.Status != messages.Requested || !e.RunAt.After(now) || e.TakeBacks > 0) {
			t.Ahead++
		}
	}
	return t
}

// incomplete reports whether the store may have something better than what is held.
func (r *Roster) incomplete() bool { return r.top || r.loading || r.away }

// ahead counts the waiters of a queue that come before one. More: it did not look at all.
func (q *queue) ahead(of *waiter) (n int, more bool) {
	for _, w := range q.items[:min(len(q.items), TurnMax)] {
		if w != of && w.before(of) {
			n++
		}
	}
	return n, len(q.items) > TurnMax
}
