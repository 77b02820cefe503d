package roster

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/placement"
)

// phase is where a placement stands.
type phase uint8

// The phases, in the order a placement passes them.
const (
	placing    phase = iota // Place is unanswered
	publishing              // written; waits for its round, or Publish is unanswered
	queued                  // on the worker's queue
	returning               // TakeBack is unanswered
	flying                  // claimed: it runs
)

// flight is one placement from its decision to its end. It takes one place of its worker's capacity all that time.
type flight struct {
	placement messages.Placement
	worker    *worker
	line      *line
	epoch     int64
	miss      bool // it does not run on its session's worker
	bind      bool
	ends      placement.Ended // the binding that ends with it; Epoch 0: none
	takeBacks int
	phase     phase
	batch     *batch
	doomed    string // taken back for this reason as soon as Place is answered
	claimBy   time.Time
	delay     time.Duration // of the take back that is under way
	timeout   time.Duration // of the run
	repeats   bool          // it may be run again
	handed    bool          // it is the next router's as soon as it is published
	direct    bool          // the store does not have it before its claim
	carried   bool          // it is stored with its claim
	wakes     uint64        // that had been heard when it was assigned

	prev, next     *flight // on its worker
	before, behind *flight // in the roster's order of claimBy
	timed          bool
}

// batch gathers the placements of one round for one worker, so that they go out in one message.
type batch struct {
	worker     *worker
	open       int // Place answers still to come
	placements []messages.Placement
	round      uint64
}

// launch makes the flight of a placement.
func (r *Roster) launch(p messages.Placement, w *worker, l *line) *flight {
	f := r.spare
	if f != nil {
		r.spare = f.next
		*f = flight{}
	} else {
		f = &flight{}
	}
	f.placement, f.worker, f.line, f.wakes = p, w, l, r.wakes
	f.next = w.flights
	if w.flights != nil {
		w.flights.prev = f
	}
	w.flights = f
	w.depth++
	r.flights[p.Execution] = f
	if l != nil {
		l.flights = append(l.flights, f)
	}
	return f
}

// find returns the flight of a placement, nil where it is none of ours, or of another attempt.
func (r *Roster) find(p messages.Placement) *flight {
	f := r.flights[p.Execution]
	if f == nil || f.placement.Attempt != p.Attempt || f.phase == placing {
		return nil
	}
	return f
}

// land ends a flight: its place is free, and its session goes on.
func (r *Roster) land(f *flight, finished bool) {
	delete(r.flights, f.placement.Execution)
	r.landed.note(f.placement.Execution)
	if r.loading {
		r.settled[f.placement.Execution] = struct{}{}
	}
	r.untime(f)
	r.unlink(f)
	r.vacate(f.worker, f.phase == flying)
	if f.phase != flying {
		r.unanswered--
	}
	if f.line != nil {
		r.leaveLine(f, finished)
	}
	*f = flight{next: r.spare}
	r.spare = f
}

func (r *Roster) unlink(f *flight) {
	if f.prev == nil {
		f.worker.flights = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
}

// vacate frees one place of a worker.
func (r *Roster) vacate(w *worker, ran bool) {
	w.depth--
	if ran {
		w.running--
	}
	if r.workers[w.seen.Worker] != w {
		if w.flights == nil {
			delete(r.departed, w.seen.Worker)
		}
		return
	}
	r.table.Release(w.seen.Worker)
	r.settleFree(w)
	if w.free > 0 {
		r.unpark(w)
	}
}

// time puts a flight in the order of claimBy. Placements come nearly in that order, so the walk is short.
func (r *Roster) time(f *flight, by time.Time) {
	r.untime(f)
	f.claimBy, f.timed = by, true
	at := r.lastTimed
	for at != nil && at.claimBy.After(by) {
		at = at.before
	}
	f.before = at
	if at == nil {
		f.behind, r.firstTimed = r.firstTimed, f
	} else {
		f.behind, at.behind = at.behind, f
	}
	if f.behind == nil {
		r.lastTimed = f
	} else {
		f.behind.before = f
	}
}

func (r *Roster) untime(f *flight) {
	if !f.timed {
		return
	}
	if f.before == nil {
		r.firstTimed = f.behind
	} else {
		f.before.behind = f.behind
	}
	if f.behind == nil {
		r.lastTimed = f.before
	} else {
		f.behind.before = f.before
	}
	f.before, f.behind, f.timed = nil, nil, false
}
