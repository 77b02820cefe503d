package roster

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Why says why the execution is not finished yet, as this router knows it. NotLoaded: ask the store whether it is due.
func (r *Roster) Why(now time.Time, id messages.ExecutionID) Reason {
	if f := r.flights[id]; f != nil {
		return f.why()
	}
	if w := r.held[id]; w != nil {
		return r.whyHeld(w)
	}
	return r.whyUnheld(now, id)
}

// whyHeld says why a held execution is not placed.
func (r *Roster) whyHeld(w *waiter) Reason {
	switch {
	case r.resigned:
		return Handed
	case w.line != nil && w.line.asking:
		return SessionUnknown
	case w.queue == nil || w.why == SessionOrder:
		return SessionOrder
	case w.queue.worker != nil:
		return SessionWorker
	}
	return r.whyPool()
}

func (f *flight) why() Reason {
	switch f.phase {
	case publishing:
		if f.direct {
			return OnQueue
		}
		return BeingPlaced
	case placing:
		return BeingPlaced
	case queued:
		return OnQueue
	case returning:
		return TakenBack
	}
	return IsRunning
}

func (r *Roster) whyUnheld(now time.Time, id messages.ExecutionID) Reason {
	if at, ok := r.backed[id]; ok && at.After(now) {
		return BackedOff
	}
	return NotLoaded
}

// stands reports whether nothing may be placed, for want of a server.
func (r *Roster) stands() bool { return r.halted != NotLoaded && r.halted != Ready }

// Condition says what keeps the pool as a whole from taking what is ready; Ready: nothing does. It costs nothing, so a caller may
// look at it after every step.
func (r *Roster) Condition() Reason {
	if r.resigned {
		return Handed
	}
	return r.whyPool()
}

// whyPool says what keeps the pool as a whole from taking what is ready.
func (r *Roster) whyPool() Reason {
	n := &r.counts
	switch {
	case r.stands():
		return r.halted
	case r.table.Free():
		return Ready
	case n[working]+r.occupied > 0:
		return WorkersBusy
	case n[starting]+n[refusing] > 0: // nothing runs there: its queue is not connected, its node has not said all, or the like
		return WorkersStarting
	case n[cordoned] > 0:
		return WorkersCordoned
	case n[broken] > 0 && n[broken] == len(r.workers):
		return PoolBroken
	case !r.steady:
		return Settling
	}
	return NoWorkerYet
}

// Behind says what an execution of a strict session waits behind, of those that were inserted before it and have not ended;
// NotLoaded: nothing. One that is backed off says until when. One that waits for a time of its own holds nothing.
func Behind(earlier []messages.Execution, now time.Time) (why Reason, until time.Time) {
	for i := range earlier {
		e := &earlier[i]
		switch ahead := e.Status == messages.Requested && e.RunAt.After(now); {
		case e.Affinity == messages.AffinityHint:
		case ahead && e.TakeBacks > 0:
			return SessionBackedOff, e.RunAt
		case !ahead:
			why = SessionOrder
		}
	}
	return why, time.Time{}
}
