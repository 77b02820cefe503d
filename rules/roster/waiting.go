package roster

import (
	"github.com/troupe-run/troupe/messages"
)

// serial reports whether the candidate's session lets one execution at a time pass, in order.
func serial(c *messages.Candidate) bool {
	return c.Session != "" && c.Affinity != messages.AffinityHint
}

// hold takes up a due candidate; false: it is held, placed or not to be looked at already.
func (r *Roster) hold(c *messages.Candidate) bool {
	if r.held[c.ID] != nil || r.flights[c.ID] != nil {
		return false
	}
	if _, ok := r.ignored[c.ID]; ok {
		return false
	}
	if _, ok := r.settled[c.ID]; ok {
		r.top = true // it moved while the store was read: another look tells
		return false
	}
	if len(r.held) >= r.config.HeldMax {
		return true // the store keeps it, and a later look finds it
	}
	w := &waiter{candidate: *c, why: Ready}
	r.held[c.ID] = w
	delete(r.backed, c.ID)
	if c.Session == "" {
		r.ready.push(w)
		return true
	}
	w.line = r.lineOf(c.Session)
	if serial(c) {
		r.lineUp(w)
	} else {
		w.line.hints++
		r.ready.push(w)
	}
	return true
}

// drop forgets a held candidate, wherever it stands.
func (r *Roster) drop(w *waiter) {
	delete(r.held, w.candidate.ID)
	if w.queue != nil {
		w.queue.remove(w)
	}
	if w.line != nil {
		w.line.leave(w)
		r.offer(w.line)
		r.closeLine(w.line)
	}
}

// withdraw drops a candidate that is no longer requested.
func (r *Roster) withdraw(id messages.ExecutionID) {
	if w := r.held[id]; w != nil {
		r.drop(w)
	}
}

// fail ends a candidate that may not wait.
func (r *Roster) fail(w *waiter, code messages.Code, text string) {
	c := &w.candidate
	r.emit(Fail{ID: c.ID, Attempt: c.Attempt, Code: code, Message: text})
	r.ignore(c.ID)
	r.drop(w)
}

// park lets a waiter wait for its session's worker.
func (r *Roster) park(w *waiter, on *worker) {
	r.ready.remove(w)
	on.parked.push(w)
}

// unpark lets as many waiters of a worker try again as it has places.
func (r *Roster) unpark(w *worker) {
	for n := w.free; n > 0 && w.parked.len() > 0; n-- {
		r.unparkTop(w)
	}
}

// unparkAll lets everything that waits for a worker be judged anew, because the worker is gone or absent.
func (r *Roster) unparkAll(w *worker) {
	for w.parked.len() > 0 {
		r.unparkTop(w)
	}
}

func (r *Roster) unparkTop(w *worker) {
	top := w.parked.top()
	w.parked.remove(top)
	r.wake(top)
}

// wake lets a waiter be judged anew; one of strict_fail also in a round that has no room, for it may not wait.
func (r *Roster) wake(w *waiter) {
	r.ready.push(w)
	if w.candidate.Affinity == messages.AffinityStrictFail {
		r.urgent = append(r.urgent, w)
	}
}

// wakePatients lets what waits for any worker try again.
func (r *Roster) wakePatients() {
	for r.patient.len() > 0 {
		top := r.patient.top()
		r.patient.remove(top)
		r.wake(top)
	}
}
