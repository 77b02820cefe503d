package memory

import (
	"time"

	"github.com/troupe-run/troupe/broker"
)

// entry is one message in one queue, and the settler of at most one delivery of it. A message that is given back gets a
// new entry, so that a late settlement of the old delivery cannot settle the new one. Once an entry is in a queue, the
// queue's lock guards all of it.
type entry struct {
	message     broker.Message
	deaths      []broker.Death // newest first; shared between copies and never changed
	queue       *queue
	seq         uint64        // place in the queue
	deadline    time.Duration // by server.now; 0: none
	returns     int           // how often it was given back
	redelivered bool

	holder     *consumer // the consumer that has it unsettled; nil: none
	prev, next *entry    // in the holder's list
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
	q.unlockAndPublish(q.dispatch(nil))
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
	var dead []deadMessage
	switch {
	case requeue:
		dead = q.giveBack([]*entry{e}, dead)
	case !q.gone:
		dead = append(dead, deadMessage{e, broker.DeathRejected})
	}
	q.unlockAndPublish(q.dispatch(dead))
	return nil
}

// again returns the new entry of a message that is given back.
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
