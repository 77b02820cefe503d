package roster

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// placed takes the store's word on one placement. The last answer of its round sends the worker's message.
func (r *Roster) placed(e *Placed) {
	f := r.flights[e.ID]
	if f == nil || f.phase != placing {
		return
	}
	b := f.batch
	f.batch = nil
	b.open--
	if e.OK {
		r.written(f, b, e)
	} else {
		r.refuse(f, e.SessionConflict)
	}
	if b.open == 0 {
		r.send(b)
	}
}

// written takes up a placement that the store has made.
func (r *Roster) written(f *flight, b *batch, e *Placed) {
	f.placement.Attempt, f.phase = e.Attempt, publishing
	by := e.ClaimBy
	if by.IsZero() {
		by = r.now.Add(r.config.ClaimTimeout)
	}
	r.time(f, by)
	if f.ends.Epoch > 0 {
		r.endSession(f.ends.Worker, f.ends.Session, f.ends.Epoch)
	}
	if f.bind {
		if s, _ := r.table.Session(f.line.session); s.Epoch < f.epoch {
			r.ask(f.line) // the store was asked about the session before it made this binding
		}
	}
	switch {
	case f.carried: // it runs, and whoever handed it to its worker says so
		f.phase = queued
		return
	case f.doomed != "":
		r.takeBack(f, f.doomed)
		return
	}
	b.placements = append(b.placements, f.placement)
}

// ask wants the store's word on a session; nothing of it is placed meanwhile.
func (r *Roster) ask(l *line) {
	if !l.asking {
		l.asking = true
		r.emit(Reload{Session: l.session})
	}
}

// send publishes a batch whose placements have all been answered; those taken back meanwhile stay at home.
func (r *Roster) send(b *batch) {
	order := Publish{Worker: b.worker.seen.Worker, Queue: b.worker.seen.Queue, Placements: b.placements[:0]}
	for _, p := range b.placements {
		f := r.find(p)
		if f == nil || f.phase != publishing {
			continue
		}
		if len(order.Placements) > 0 && (f.timeout != order.Timeout || f.repeats != order.Idempotent || f.direct != order.Direct) {
			r.emit(order)
			order.Placements = nil
		}
		order.Placements, order.Timeout, order.Idempotent, order.Direct = append(order.Placements, p), f.timeout, f.repeats, f.direct
	}
	if len(order.Placements) > 0 {
		r.emit(order)
	}
	if b.worker.batch == b {
		b.worker.batch = nil
	}
	*b = batch{}
	r.spareBatches = append(r.spareBatches, b)
}

// refuse drops a placement that the store did not write. Where the session is to blame, or a binding may or may not have been made,
// the store is asked about the session. With its answer a candidate that was refused for its session may be placed, so the store is
// looked at again at once. Any other may stand on the worker of a router that gives the pool up, and is looked at again when something
// has become due since it was assigned, such as what that router takes back. What is refused again waits for the next Tick.
func (r *Roster) refuse(f *flight, conflict bool) {
	id := f.placement.Execution
	if f.line != nil && (conflict || f.bind) {
		r.ask(f.line)
	}
	conflict = conflict && f.line != nil
	before := r.stood
	if conflict {
		before = r.refused
	}
	switch {
	case !first(before, id):
		r.ignore(id)
	case conflict || f.wakes != r.wakes:
		r.top = true
	default:
		r.ignore(id)
		r.untilWake = append(r.untilWake, id)
	}
	r.forgetLine(f.line)
	r.land(f, false)
}

// first notes an execution in a set, and reports whether it was not in it and had room.
func first(set map[messages.ExecutionID]struct{}, id messages.ExecutionID) bool {
	if _, before := set[id]; before || len(set) >= ignoredMax {
		return false
	}
	set[id] = struct{}{}
	return true
}

// woken hears that work may be due, which may be what was refused.
func (r *Roster) woken() {
	r.top = true
	r.wakes++
	for _, id := range r.untilWake {
		delete(r.ignored, id)
	}
	r.untilWake = r.untilWake[:0]
}

// published takes the broker's word on one message.
func (r *Roster) published(e *Published) {
	for _, p := range e.Placements {
		f := r.find(p)
		if f == nil || f.phase != publishing {
			continue
		}
		f.phase = queued
		switch {
		case !e.OK:
			r.takeBack(f, "unpublished")
		case f.handed:
			r.land(f, false)
		}
	}
}

// claimed says that a placement runs. It may overtake the answer to Publish, and win against a take back.
func (r *Roster) claimed(e *Claimed) {
	f := r.find(e.Placement)
	if f == nil || f.phase == flying {
		return
	}
	if f.direct && f.worker.seen.Worker != e.Worker {
		r.land(f, false)
		r.holding(&Holding{Placement: e.Placement, Worker: e.Worker, Running: true})
		return
	}
	r.fly(f)
	r.begun(f)
	if r.workers[f.worker.seen.Worker] != f.worker {
		r.land(f, false)
	}
}

func (r *Roster) fly(f *flight) {
	r.untime(f)
	f.phase = flying
	f.worker.running++
	r.unanswered--
}

// ended frees the slot of a run, and learns from its run time where it is known: an end that another than its worker
// tells, a rescue or a sweep, knows none.
func (r *Roster) ended(e *Ended) {
	if e.Took > 0 && r.times.add(e.Took) {
		r.rewindow(false)
	}
	f := r.find(e.Placement)
	if f == nil {
		if e.Session != "" {
			r.ask(r.lineOf(e.Session))
		}
		return
	}
	r.begun(f)
	if f.line != nil && e.Restored {
		r.table.Restored(f.line.session, f.epoch)
	}
	if !e.Finished {
		r.forgetLine(f.line)
		r.top = true
	}
	if e.Unseen && f.line != nil && !f.miss {
		r.ask(f.line)
	}
	r.land(f, e.Finished)
}

// released frees the place of a placement that never started. Its execution is due again, at once or after its delay.
func (r *Roster) released(e *Released) {
	f := r.find(e.Placement)
	if f == nil || !e.Worker.IsZero() && f.worker.seen.Worker != e.Worker {
		return
	}
	if f.delay > 0 && len(r.backed) < backedMax {
		r.backed[e.Placement.Execution] = r.now.Add(f.delay)
	}
	r.forgetLine(f.line)
	r.top = true
	r.land(f, false)
}

// holding takes up a placement of the router before.
func (r *Roster) holding(e *Holding) {
	w := r.workers[e.Worker]
	if w == nil || r.flights[e.Placement.Execution] != nil {
		return
	}
	r.withdraw(e.Placement.Execution)
	var l *line
	if e.Session != "" {
		l = r.lineOf(e.Session)
	}
	f := r.launch(e.Placement, w, l)
	f.epoch, f.miss, f.takeBacks = e.Epoch, e.Missed, e.TakeBacks
	r.unanswered++
	if e.Running {
		r.fly(f)
		r.begun(f)
	} else {
		f.phase = queued
		r.time(f, e.ClaimBy)
	}
	if l != nil {
		r.stall(l, 0)
		r.recount(l)
	}
	r.refresh(w)
}

// takeBack returns a placement to the store, unless it runs. The fifth time in a row it waits before it is due again. One that is
// stored with its claim runs as soon as it is stored: whoever cannot hand it to its worker gives it back.
func (r *Roster) takeBack(f *flight, reason string) {
	if f.carried {
		return
	}
	switch f.phase {
	case placing:
		f.doomed = reason
		return
	case returning, flying:
		return
	}
	f.phase = returning
	f.delay = backOff(f.takeBacks + 1)
	r.time(f, r.now.Add(r.config.ClaimTimeout))
	r.emit(TakeBack{Placement: f.placement, Reason: reason, Delay: f.delay})
}

func (r *Roster) takeBackAll(w *worker, reason string) {
	for f := w.flights; f != nil; f = f.next {
		r.takeBack(f, reason)
	}
}

// takeBackDue takes back what was not claimed in time, and repeats the take backs that nobody answered.
func (r *Roster) takeBackDue() {
	for f := r.firstTimed; f != nil && !f.claimBy.After(r.now); f = r.firstTimed {
		if f.phase == returning {
			f.phase = queued
		} else if r.config.ClaimSweepOff {
			r.untime(f)
			continue
		}
		r.takeBack(f, "unclaimed")
	}
}

// The back-off after so many take backs in a row.
const (
	takeBacksFree = 4
	backOffMax    = 30 * time.Second
)

// backOff is how long the execution waits after its n-th take back in a row: not at all up to the fourth, then 1 s
// doubling to 30 s.
func backOff(n int) time.Duration {
	if n <= takeBacksFree {
		return 0
	}
	return min(time.Second<<min(n-takeBacksFree-1, 5), backOffMax)
}

// ignore keeps an execution from being held again before the next Tick, unless it is one of untilWake.
func (r *Roster) ignore(id messages.ExecutionID) {
	if len(r.ignored) >= ignoredMax {
		r.paused = true
		return
	}
	r.ignored[id] = struct{}{}
}
