package roster

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// Knows reports whether the placement stands on a worker, as this router knows it.
func (r *Roster) Knows(p messages.Placement) bool {
	f := r.flights[p.Execution]
	return f != nil && f.placement.Attempt == p.Attempt
}

// Running lists what runs on a worker, as this router knows it, the oldest first.
func (r *Roster) Running(on messages.WorkerKey) (list []messages.Placement) {
	w := r.workers[on]
	if w == nil {
		return nil
	}
	for f := w.flights; f != nil; f = f.next {
		if f.phase == flying {
			list = append(list, f.placement)
		}
	}
	slices.Reverse(list)
	return list
}

// Waiting counts the due executions that wait here for a worker, and those that are placed and unclaimed.
func (r *Roster) Waiting() int { return r.ready.len() + r.unanswered }

// Epoch is that of the session's binding, or of its last one; 0: this router knows of none.
func (r *Roster) Epoch(session string) int64 {
	s, _ := r.table.Session(session)
	return s.Epoch
}

// Remember takes over what the roster before has learned of run times.
func (r *Roster) Remember(before *Roster) {
	r.times = before.times
	r.rewindow(false)
}
