package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// reading is a record that is being read.
type reading struct {
	*Record
	conditions []held
}

// Of returns the timeline of what is recorded.
func Of(record *Record) Timeline {
	r := &reading{Record: record}
	r.conditions = r.allConditions()
	e := &r.Execution
	t := Timeline{
		Execution: e.ID, Status: e.Status, Whole: Window{From: e.RequestedAt, To: r.end()}, Window: r.window(), Attempts: r.attemptsWithin(), Late: r.lateWrites(),
		Runs: r.runsWithin(), Chain: r.chain(), Retries: r.Retries, Worker: r.workerLane(), Node: r.nodeLane(), Session: r.sessionLane(),
		Servers: r.serverLane(), Gaps: []Gap{}, LeftOut: r.LeftOut, Truncated: len(r.LeftOut) > 0,
	}
	waited := r.waitEnd()
	if !r.To.IsZero() {
		waited = earlier(waited, t.Window.To)
	}
	t.Wait = r.grow(split(t.Window.From, waited, r.facts(), r.unknown))
	for _, w := range t.Wait {
		if w.Cause == Unknown {
			t.Gaps = append(t.Gaps, Gap{From: w.From, To: w.To, Why: w.Evidence})
		}
	}
	return t
}

// presentMax is how long before now the present cause may explain what the journal does not have yet: each router writes what it knows
// once a second, and says with its heartbeat up to when that is complete.
const presentMax = 10 * time.Second

// grow has the last interval of a wait that goes on grow up to now by its present cause, where that is not written yet.
func (r *reading) grow(waits []Wait) []Wait {
	n, cause, window := len(waits)-1, causeOf(r.Present.Reason), r.window()
	if n < 0 || window.To.Before(r.end()) || !r.started().IsZero() || !r.Execution.FinishedAt.IsZero() || !slices.Contains(order, cause) || cause == Unknown {
		return waits
	}
	last := &waits[n]
	began := last.From
	if n == 0 && window.From.After(r.Execution.RequestedAt) {
		began = time.Time{} // it began before the window, and nobody knows when
	}
	if last.Cause != Unknown || r.end().Sub(began) > presentMax {
		return waits
	}
	if n > 0 && waits[n-1].Cause == cause {
		waits[n-1].To = last.To
		return waits[:n]
	}
	last.Cause, last.Source, last.Evidence = cause, FromNow, r.Present.Message
	return waits
}

// window is the part that is asked for.
func (r *reading) window() Window {
	w := Window{From: r.Execution.RequestedAt, To: r.end()}
	if w.To.Before(w.From) {
		return w
	}
	if !r.To.IsZero() {
		w.To = later(w.From, earlier(w.To, r.To))
	}
	w.From = earlier(w.To, later(w.From, r.From))
	return w
}

// overlaps reports whether something between two times, or up to now, reaches into the part that is asked for.
func (r *reading) overlaps(from, to time.Time) bool {
	if to.IsZero() {
		to = r.end()
	}
	return (r.From.IsZero() || !to.Before(r.From)) && (r.To.IsZero() || from.Before(r.To))
}

// end is the end of the execution, or now.
func (r *reading) end() time.Time {
	if at := r.Execution.FinishedAt; !at.IsZero() {
		return at
	}
	return later(r.Now, r.Execution.RequestedAt)
}

// started is when its last run began; zero: it has none that was not lost.
func (r *reading) started() time.Time {
	at := r.Execution.StartedAt
	for i := range r.Events {
		if v := &r.Events[i]; v.Kind == "rescue" && v.To == messages.Requested && !v.At.Before(at) {
			return time.Time{} // the row keeps the start of the run that was lost
		}
	}
	return at
}

// waitEnd is when it began to run, or when the wait ended otherwise.
func (r *reading) waitEnd() time.Time {
	if at := r.started(); !at.IsZero() {
		return at
	}
	return r.end()
}

// ended is an event that ended a placement and kept the execution.
func ended(v *Event) bool {
	return (v.Kind == "take_back" || v.Kind == "rescue") && v.To == messages.Requested
}

// facts are all that explains the wait.
func (r *reading) facts() []fact {
	facts := append(r.placementFacts(), r.dueFacts()...)
	facts = append(facts, r.orderFacts()...)
	return append(facts, r.conditionFacts()...)
}

// placementFacts are the times on workers' queues, and in runs that were lost.
func (r *reading) placementFacts() []fact {
	var facts []fact
	for _, a := range r.attempts() {
		if a.ScheduledAt.IsZero() && a.StartedAt.IsZero() {
			continue
		}
		end := a.EndedAt
		if end.IsZero() {
			end = r.Now
		}
		claimed := end
		if !a.StartedAt.IsZero() {
			claimed = a.StartedAt
			facts = append(facts, fact{
				from: a.StartedAt, to: end, cause: LostRun, source: FromEvents,
				evidence: fmt.Sprintf("attempt %d began on %s and was given back: %s", a.Attempt, a.Worker, words(a.Reason)),
			})
		}
		if !a.ScheduledAt.IsZero() {
			source := FromRow
			if a.Ended == takenBack || a.Ended == rescued {
				source = FromEvents
			}
			facts = append(facts, fact{
				from: a.ScheduledAt, to: claimed, cause: OnQueue, source: source,
				evidence: fmt.Sprintf("attempt %d was on the queue of %s", a.Attempt, a.Worker),
			})
		}
	}
	return facts
}

// dueFacts are the times at which it was not due: before run_at, and after it was given back.
func (r *reading) dueFacts() []fact {
	e := &r.Execution
	f := fact{from: e.RequestedAt, cause: NotDue, source: FromRow, evidence: "its run_at had not come"}
	if e.RetryCount > 0 {
		f.evidence = "the delay of the retry was not over"
	}
	var facts []fact
	known := !r.EventsBegin // what it waited for before the first event
	for i := range r.Events {
		v := &r.Events[i]
		if !ended(v) {
			continue
		}
		if f.to = v.RunAt; known && !v.RunAt.IsZero() { // an older release did not keep it
			facts = append(facts, f)
		}
		known = true
		f = fact{from: v.At, cause: BackedOff, source: FromEvents, evidence: "it was taken back: " + words(v.Reason)}
		if v.Kind == "rescue" {
			f.cause, f.evidence = NotDue, "it waited to be placed again after its run was lost: "+words(v.Reason)
		}
	}
	if f.to = e.RunAt; known {
		facts = append(facts, f)
	}
	return facts
}

// unknown says why nothing explains a moment.
func (r *reading) unknown(at time.Time) string {
	switch {
	case r.inGap(at):
		return "entries of the journal are missing"
	case r.hadRoom(at):
		return "the pool had room, and nothing is recorded of its session's worker"
	case len(r.conditions) > 0 && !at.Before(r.lastKnown()):
		return "the journal is not written up to this time yet, or its writer ended"
	}
	return "the journal has nothing about the pool at this time"
}

// hadRoom reports whether the pool is known to have had room.
func (r *reading) hadRoom(at time.Time) bool {
	return slices.ContainsFunc(r.conditions, func(h held) bool {
		return !at.Before(h.from) && at.Before(h.to) && causeOf(h.reason) == BeingPlaced
	})
}

// lastKnown is the end of what the journal says about the pool.
func (r *reading) lastKnown() (at time.Time) {
	for _, h := range r.conditions {
		at = later(at, h.to)
	}
	return at
}

func (r *reading) inGap(at time.Time) bool {
	for i := range r.Gaps {
		if g := &r.Gaps[i]; !at.Before(g.At) && !at.After(gapEnd(g)) {
			return true
		}
	}
	return false
}
