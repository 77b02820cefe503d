package memory

import (
	"time"

	"github.com/troupe-run/troupe/broker"
)

// entry is one message in one queue, and the settler of at most one delivery of it: a message that is given back
// goes on as a new entry, so that a late settlement of the old delivery can never touch the new one. Everything in it
// is guarded by the queue's lock once it is there.
type entry struct {
	message     broker.Message
	deaths      []broker.Death // newest first; shared between copies and never changed
	queue       *queue
	seq         uint64        // place in the queue
	deadline    time.Duration // by server.now; 0: none
	returns     int           // how often it was given back
	redelivered bool

	holder     *consumer // who holds it unsettled; nil: nobody, or settled
	prev, next *entry    // among what the holder holds
}

func (e *entry) expired(now time.Duration) bool { return e.deadline != 0 && e.deadline <= now }

// Ack implements broker.Settler.
func (e *entry) Ack() error {
	q := e.queue
	q.mu.Lock()
	if e.holder == nil {
		q.mu.Unlock()
		return broker.ErrClosed
	}
	e.holder.release(e)
	q.unlockAndBury(q.dispatch(nil))
	return nil
}

// Nack implements broker.Settler.
func (e *entry) Nack(requeue bool) error {
	q := e.queue
	q.mu.Lock()
	if e.holder == nil {
		q.mu.Unlock()
		return broker.ErrClosed
	}
	e.holder.release(e)
	var dead []corpse
	switch {
	case requeue:
		dead = q.giveBack([]*entry{e}, dead)
	case !q.gone:
		dead = append(dead, corpse{e, broker.DeathRejected})
	}
	q.unlockAndBury(q.dispatch(dead))
	return nil
}

// again is the entry that goes on for one that was given back.
func (e *entry) again() *entry {
	return &entry{
		message: e.message, deaths: e.deaths, queue: e.queue, seq: e.seq, deadline: e.deadline,
		returns: e.returns + 1, redelivered: true,
	}
}

func (e *entry) delivery() broker.Delivery {
	return broker.Delivery{
		Message: e.message, Queue: e.queue.spec.Name, Redelivered: e.redelivered, Deaths: e.deaths, Settler: e,
	}
}
