package timeline

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// noLine are the causes of a wait that no other execution of the pool makes shorter or longer by standing before it, or for which no record says
// which others did.
var noLine = []string{NotDue, BackedOff, OnQueue, LostRun, SessionWorker}

// LineOf is the line in which an execution stood that waited for a cause: that of its pool or of its session; empty: none that the rows know.
func LineOf(cause string) string {
	switch {
	case cause == "" || slices.Contains(noLine, cause):
		return ""
	case cause == SessionOrder:
		return roster.SessionLine
	}
	return roster.PoolLine
}

// Line counts the executions that were before one in its line at a time of the past, by their rows as they are now. A row has the last placement
// and the last start alone. So what was placed more than once may have run at that time or not: it is not counted, and Unsure.
type Line struct {
	Of     *messages.Execution
	At     time.Time
	Which  string // roster.PoolLine or roster.SessionLine
	Ahead  int
	Unsure bool // there may be more
}

// Look takes an execution of the same pool, and for the line of a session, of the same session.
func (l *Line) Look(e *messages.Execution) {
	switch {
	case e.ID == l.Of.ID || e.RequestedAt.After(l.At) || passed(e.FinishedAt, l.At):
	case l.Which == roster.SessionLine:
		l.lookInSession(e)
	case l.goesFirst(e) && !passed(e.StartedAt, l.At):
		l.count(l.waited(e))
	}
}

// goesFirst reports whether the router places an execution before the one at hand, where both are due and any worker may take them.
func (l *Line) goesFirst(e *messages.Execution) bool {
	if e.Priority != l.Of.Priority {
		return e.Priority > l.Of.Priority
	}
	return e.Seq < l.Of.Seq
}

// lookInSession takes an earlier execution of a session whose executions run in order: it goes first also while it runs.
func (l *Line) lookInSession(e *messages.Execution) {
	if e.Seq > l.Of.Seq || !strictly(e) {
		return
	}
	if first := passed(e.FirstPlacedAt, l.At); first || !e.RunAt.After(l.At) {
		l.count(true, true)
	} else {
		l.count(false, unmoved(e))
	}
}

// waited reports whether an execution that had not ended and whose last start came later waited in line, and whether that is known.
func (l *Line) waited(e *messages.Execution) (in, known bool) {
	switch {
	case strictly(e): // the head of its session alone stands in the pool's line, and only while its worker may be any
		return false, false
	case passed(e.FirstPlacedAt, l.At): // on the queue of a worker, unless it was placed more than once
		return true, unmoved(e)
	case e.RunAt.After(l.At): // not due, unless it was taken back after that and its time is another one now
		return false, unmoved(e)
	}
	return true, true
}

func (l *Line) count(in, known bool) {
	switch {
	case !known:
		l.Unsure = true
	case in:
		l.Ahead++
	}
}

// unmoved reports whether an execution has its first times still: it was not placed a second time, and not taken back.
func unmoved(e *messages.Execution) bool { return e.Attempt <= 1 && e.TakeBacks == 0 }

func strictly(e *messages.Execution) bool {
	return e.Session != "" && e.Affinity != messages.AffinityHint
}

func passed(moment, at time.Time) bool { return !moment.IsZero() && !moment.After(at) }
