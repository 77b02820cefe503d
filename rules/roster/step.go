package roster

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Step takes one event and returns what is to be done about it, in order. The slice is valid until the next Step, which
// reuses it; what the effects hold is the caller's to keep. Now is the caller's clock, which must not go back: times of
// the store that an event brings must have been turned into times of that clock. An event that speaks of an
// unknown worker, execution or attempt changes nothing.
func (r *Roster) Step(now time.Time, e Event) []Effect {
	r.now = now
	r.out = r.out[:0]
	if !r.started {
		r.started, r.steadySince, r.sweepAt = true, now, now.Add(r.config.SessionSweep)
		r.ticked = now
	}
	r.age()
	r.settle()
	r.take(e)
	r.round()
	r.load()
	r.sleep()
	return r.out
}

// take carries the event into the state.
func (r *Roster) take(e Event) {
	switch e := e.(type) {
	case WorkerSeen:
		r.workerSeen(&e)
	case WorkerGone:
		r.workerGone(&e)
	case WorkerLeft:
		r.workerLeft(&e)
	case Beats:
		r.beat(&e)
	case Loaded:
		r.loaded(&e)
	case Wake:
		r.woken()
	case Arrived:
		r.arrived(&e)
	case Offered:
		r.offered(&e)
	case Placed:
		r.placed(&e)
	case Published:
		r.published(&e)
	case Claimed:
		r.claimed(&e)
	case Ended:
		r.ended(&e)
	case Released:
		r.released(&e)
	case Withdrawn:
		r.ignore(e.ID)
		r.withdraw(e.ID)
	case Doubted:
		r.ask(r.lineOf(e.Session))
	case SessionMoved:
		r.sessionMoved(&e)
	case Holding:
		r.holding(&e)
	case Resigned:
		r.resign(e.Own)
	case Store:
		r.storeStands(e.Away)
	case Halted:
		r.halted = e.Why
	case Tick:
		r.tick()
	}
}

func (r *Roster) emit(e Effect) { r.out = append(r.out, e) }

// tick does what time alone brings about.
func (r *Roster) tick() {
	r.ticked = r.now
	r.paused, r.top = false, true
	clear(r.ignored)
	clear(r.refused)
	clear(r.stood)
	r.untilWake = r.untilWake[:0]
	if !r.nextAt.After(r.now) {
		r.nextAt = time.Time{}
	}
	r.rewindow(true)
	r.takeBackDue()
	r.sweep()
	r.expirePatients()
	for id, at := range r.backed {
		if !at.After(r.now) {
			delete(r.backed, id)
		}
	}
}

// settle notices that the router has led for long enough on a steady store to fail what has no worker. What waits for a
// worker that is absent is judged anew.
func (r *Roster) settle() {
	if r.steady || r.away || r.now.Sub(r.steadySince) < r.config.SteadyAfter {
		return
	}
	r.steady = true
	r.table.SetSettled(true)
	for _, key := range r.order() {
		if w := r.workers[key]; w.standing.absent() {
			r.unparkAll(w)
		}
	}
	r.wakePatients()
}

// storeStands notes that the store is away or back.
func (r *Roster) storeStands(away bool) {
	if away || r.away {
		r.unsettle()
	}
	r.away = away
}

// unsettle starts the time anew that the router has to lead before anything fails for want of workers.
func (r *Roster) unsettle() {
	r.steadySince, r.steady = r.now, false
	r.table.SetSettled(false)
}

// expirePatients judges those again that have waited for any worker up to their deadline, a bounded number at a time.
func (r *Roster) expirePatients() {
	n := min(r.patient.len(), patientsPerTick)
	for range n {
		r.patientAt %= max(r.patient.len(), 1)
		w := r.patient.items[r.patientAt]
		r.patientAt++
		if d := w.candidate.WorkerDeadline; !d.IsZero() && !r.now.Before(d) {
			r.patient.remove(w)
			r.ready.push(w)
			r.patientAt--
		}
	}
}

// resign gives up the pool.
func (r *Roster) resign(own messages.Incarnation) {
	r.resigned = true
	for _, key := range r.order() {
		if w := r.workers[key]; own.IsZero() || key.Incarnation == own {
			r.takeBackAll(w, "resigned")
		} else {
			r.handOver(w)
		}
	}
}

// handOver leaves what stands on a worker to the next router. What is still being written or published is left to it once
// that has been answered.
func (r *Roster) handOver(w *worker) {
	for f := w.flights; f != nil; {
		next := f.next
		switch f.phase {
		case placing, publishing:
			f.handed = true
		case queued, flying:
			r.land(f, false)
		}
		f = next
	}
}

// sleep asks for a Tick where something is due before the next regular one.
func (r *Roster) sleep() {
	regular := r.ticked.Add(r.config.TickEvery)
	next := regular
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	if r.firstTimed != nil {
		sooner(r.firstTimed.claimBy)
	}
	if !r.resigned {
		sooner(r.nextAt)
	}
	if !r.steady && !r.away && len(r.held) > 0 && !r.present() {
		sooner(r.steadySince.Add(r.config.SteadyAfter))
	}
	if r.again {
		sooner(r.now)
	}
	if !next.Before(regular) || next.Equal(r.announced) {
		return
	}
	r.announced = next
	r.emit(Sleep{Until: next})
}

// Drained reports whether nothing that this router has begun is open: no Load or Place is unanswered, and every
// placement has been claimed or returned.
func (r *Roster) Drained() bool { return !r.loading && r.unanswered == 0 }
