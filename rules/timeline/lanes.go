package timeline

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
)

// How a placement ended that the execution outlived.
const (
	takenBack = "taken_back"
	rescued   = "rescued"
)

// The states of a worker that takes work. See package lifecycle.
const (
	idle    = "ready"
	working = "busy"
)

// attempts are the placements: those that its events ended, and the one of the row.
func (r *reading) attempts() []Attempt {
	list := []Attempt{}
	e := &r.Execution
	for i := range r.Events {
		v := &r.Events[i]
		if !ended(v) {
			continue
		}
		a := Attempt{
			Attempt: v.Attempt, Worker: v.Worker, Incarnation: v.Incarnation, Generation: v.Generation, ScheduledAt: r.placedAt(v),
			StartedAt: v.StartedAt, EndedAt: v.At, Ended: takenBack, Reason: v.Reason, By: v.By,
		}
		if v.Kind == "rescue" {
			a.Ended = rescued
		}
		list = append(list, a)
	}
	given := len(list) > 0 && list[len(list)-1].Attempt == e.Attempt
	if e.Attempt == 0 || given {
		return list
	}
	a := Attempt{
		Attempt: e.Attempt, Worker: e.WorkerID, Incarnation: e.Worker.Incarnation, Generation: e.Generation, ScheduledAt: e.ScheduledAt,
		ClaimBy: e.ClaimBy, StartedAt: r.started(), EndedAt: e.FinishedAt,
	}
	if e.Status.Terminal() {
		a.Ended = e.Status.String()
		a.Reason = codeOf(e)
	}
	return append(list, a)
}

// lateWrites are the rejected writes in the part that is asked for.
func (r *reading) lateWrites() (list []LateWrite) {
	for i := range r.Events {
		if v := &r.Events[i]; v.Kind == "stale_write" && r.overlaps(v.At, v.At) {
			list = append(list, LateWrite{At: v.At, Attempt: v.Attempt, Reason: v.Reason})
		}
	}
	return list
}

// attemptsWithin are the placements in the part that is asked for.
func (r *reading) attemptsWithin() []Attempt {
	return slices.DeleteFunc(r.attempts(), func(a Attempt) bool {
		begin := a.ScheduledAt
		if begin.IsZero() {
			begin = a.StartedAt
		}
		if begin.IsZero() {
			begin = a.EndedAt
		}
		return !r.overlaps(begin, a.EndedAt)
	})
}

// runsWithin are the runs in the part that is asked for.
func (r *reading) runsWithin() []Run {
	return slices.DeleteFunc(r.runs(), func(run Run) bool { return !r.overlaps(run.From, run.To) })
}

// placedAt is when the placement was made that an event ended. Where all events are stored, that of an older release has it in its own.
func (r *reading) placedAt(v *Event) time.Time {
	if !v.ScheduledAt.IsZero() {
		return v.ScheduledAt
	}
	for i := range r.Events {
		if p := &r.Events[i]; p.Kind == "place" && p.Attempt == v.Attempt {
			return p.At
		}
	}
	return time.Time{}
}

func codeOf(e *messages.Execution) string {
	if e.Error == nil {
		return ""
	}
	return string(e.Error.Code)
}

// runs are the runs that were lost, and the last one.
func (r *reading) runs() []Run {
	list := []Run{}
	for i := range r.Events {
		if v := &r.Events[i]; v.Kind == "rescue" && v.To == messages.Requested && !v.StartedAt.IsZero() {
			list = append(list, Run{From: v.StartedAt, To: v.At, Attempt: v.Attempt, Outcome: "lost", Code: v.Reason})
		}
	}
	e := &r.Execution
	if at := r.started(); !at.IsZero() {
		run := Run{From: at, To: r.end(), Attempt: e.Attempt, Code: codeOf(e)}
		if e.Status.Terminal() {
			run.Outcome = e.Status.String()
		}
		list = append(list, run)
	}
	return list
}

// chain are the executions of the retry chain.
func (r *reading) chain() []Link {
	list := []Link{}
	for i := range r.Chain {
		e := &r.Chain[i]
		link := Link{
			ID: e.ID, N: numberOf(e), Version: e.Version, From: e.RequestedAt, To: e.FinishedAt, Status: e.Status, Reason: e.RetryReason,
		}
		again := !e.FirstPlacedAt.IsZero() && e.RunAt.After(e.FirstPlacedAt) // its run_at is that of a later attempt
		if !again && e.RunAt.After(e.RequestedAt) {
			link.DelayMS = float64(e.RunAt.Sub(e.RequestedAt).Microseconds()) / 1000
		}
		list = append(list, link)
	}
	return list
}

// within cuts a state to the window; false: it is outside of it. An event at the end of a part belongs to the next one.
func (r *reading) within(s State) (State, bool) {
	w := r.window()
	if s.To.IsZero() {
		last := s.From.Equal(w.To) && !w.To.Before(r.end())
		return s, !s.From.Before(w.From) && (s.From.Before(w.To) || last)
	}
	s.From, s.To = later(s.From, w.From), earlier(s.To, w.To)
	return s, s.From.Before(s.To)
}

func (r *reading) keepWithin(all []State) []State {
	list := []State{}
	for _, s := range all {
		if s, inside := r.within(s); inside {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b State) int { return a.From.Compare(b.From) })
	return list
}

// busy adds to the states of workers that one which runs the execution is busy with it: a worker's journal says only that it is ready.
// Another state that it had meanwhile, such as degraded, stays.
func (r *reading) busy(all []State) []State {
	attempts := r.attempts()
	for _, run := range r.runs() {
		at := slices.IndexFunc(attempts, func(a Attempt) bool { return a.Attempt == run.Attempt && a.StartedAt.Equal(run.From) })
		if at < 0 || attempts[at].Worker == "" {
			continue
		}
		worker, generation := string(attempts[at].Worker), attempts[at].Generation
		busy := []State{{From: run.From, To: run.To, Of: worker, What: working, Generation: generation, Reason: "it ran this execution"}}
		if run.Outcome == "" {
			busy[0].Reason = "it runs this execution"
		}
		var rest []State
		for _, s := range all {
			switch {
			case s.Of != worker || s.To.IsZero():
				rest = append(rest, s)
			case s.What == idle || s.What == working || s.Generation != generation && s.Generation != 0 && generation != 0:
				rest = append(rest, s.outside(run.From, run.To)...)
			default:
				rest = append(rest, s)
				var left []State
				for _, b := range busy {
					left = append(left, b.outside(s.From, s.To)...)
				}
				busy = left
			}
		}
		all = slices.Concat(rest, busy)
	}
	return all
}

// outside is what of a state lies outside of a range of time.
func (s State) outside(from, to time.Time) (parts []State) {
	if !from.Before(to) || !s.From.Before(to) || !from.Before(s.To) {
		return []State{s}
	}
	before, after := s, s
	before.To, after.From = from, to
	for _, part := range []State{before, after} {
		if part.From.Before(part.To) {
			parts = append(parts, part)
		}
	}
	return parts
}

// nameOf is the name of the node that an incarnation is a boot of, or the incarnation.
func (r *reading) nameOf(incarnation string) string {
	inc, err := messages.ParseIncarnation(incarnation)
	if name := r.Names[inc]; err == nil && name != "" {
		return name
	}
	return incarnation
}

// sessionLane are the bindings of its session.
func (r *reading) sessionLane() []State {
	var all []State
	entries := r.Bindings
	for i := range entries {
		e, d := &entries[i], detailOf(&entries[i])
		s := State{From: e.At, To: r.end(), Of: e.Subject, What: e.What, Epoch: d.Epoch, Reason: e.Reason}
		if d.Worker != "" {
			s.What += " to " + d.Worker
		}
		if s.Reason == "" && d.Lost {
			s.Reason = "away from its state"
		}
		if i+1 < len(entries) {
			s.To = entries[i+1].At
		}
		all = append(all, s)
	}
	return r.keepWithin(all)
}

// serverLane are the times at which a server was not there for one of the nodes. What a node left open ends with the node, or its last
// heartbeat: nobody knows how the server was for it after that.
func (r *reading) serverLane() []State {
	var all []State
	for i := range r.Servers {
		e := &r.Servers[i]
		if e.What == "back" {
			continue
		}
		s := State{From: e.At, To: earlier(r.end(), r.nodeEnd(e.Incarnation)), Of: e.Subject, What: e.What, Reason: e.Reason, By: r.Names[e.Incarnation]}
		if !s.From.Before(s.To) {
			s.To = time.Time{} // nothing says how long it was so
		}
		for j := i + 1; j < len(r.Servers); j++ {
			if next := &r.Servers[j]; next.Subject == e.Subject && next.Incarnation == e.Incarnation {
				s.To = next.At
				break
			}
		}
		all = append(all, s)
	}
	return r.keepWithin(all)
}

// detail is what an entry about a session says of its worker.
type detail struct {
	Worker string `json:"worker"`
	Epoch  int64  `json:"epoch"`
	Lost   bool   `json:"lost"`
}

func detailOf(e *messages.JournalEntry) (d detail) {
	_ = json.Unmarshal(e.Detail, &d) // an entry without one names no worker
	return d
}

// gapEnd is the time of the last entry that is missing.
func gapEnd(e *messages.JournalEntry) time.Time {
	var d journal.GapDetail
	if json.Unmarshal(e.Detail, &d) != nil {
		return e.At
	}
	return d.Until
}
