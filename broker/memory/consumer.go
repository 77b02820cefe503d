package memory

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/broker"
)

// consumer is one subscription. All but err is guarded by the queue's lock.
type consumer struct {
	connection *Broker
	queue      *queue
	deliveries chan broker.Delivery // as long as the prefetch, so that a send under the lock never blocks
	credit     int                  // how many more deliveries it may get
	held       int                  // unsettled deliveries
	oldest     *entry               // list of the unsettled deliveries
	newest     *entry
	ended      bool
	err        atomic.Pointer[error]
}

func newConsumer(b *Broker, q *queue, prefetch int) *consumer {
	return &consumer{
		connection: b, queue: q, credit: prefetch, deliveries: make(chan broker.Delivery, prefetch),
	}
}

// Deliveries implements broker.Consumer.
func (c *consumer) Deliveries() <-chan broker.Delivery { return c.deliveries }

// Err implements broker.Consumer.
func (c *consumer) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Cancel implements broker.Consumer. A second call does nothing.
func (c *consumer) Cancel() error {
	q := c.queue
	q.mu.Lock()
	if c.ended {
		q.mu.Unlock()
		return nil
	}
	q.detach(c)
	back := c.untaken()
	for _, e := range back {
		c.release(e)
	}
	c.close(nil)
	q.unlockAndPublish(q.dispatch(q.giveBack(back, nil)))
	return nil
}

// disconnect ends the consumer with its connection and gives back all its unsettled messages.
func (c *consumer) disconnect() {
	q := c.queue
	q.mu.Lock()
	if !c.ended {
		q.detach(c)
		c.untaken() // they are still held, so the loop below includes them
		c.close(broker.ErrClosed)
	}
	var back []*entry
	for e := c.oldest; e != nil; e = c.oldest {
		c.release(e)
		back = append(back, e)
	}
	q.unlockAndPublish(q.dispatch(q.giveBack(back, nil)))
}

// take delivers a message. The caller has checked the credit.
func (c *consumer) take(e *entry) {
	e.holder, e.prev, e.next = c, c.newest, nil
	if c.newest == nil {
		c.oldest = e
	} else {
		c.newest.next = e
	}
	c.newest = e
	c.held++
	c.credit--
	c.queue.credit--
	c.deliveries <- e.delivery()
}

// release settles e and frees its place in the prefetch.
func (c *consumer) release(e *entry) {
	if e.prev == nil {
		c.oldest = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		c.newest = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.holder, e.prev, e.next = nil, nil, nil
	c.held--
	switch {
	case !c.ended:
		c.credit++
		c.queue.credit++
	case c.held == 0:
		c.connection.forget(c)
	}
}

// untaken empties the channel and returns the deliveries that were not read.
func (c *consumer) untaken() []*entry {
	var entries []*entry
	for {
		select {
		case d := <-c.deliveries:
			entries = append(entries, d.Settler.(*entry))
		default:
			return entries
		}
	}
}

// close closes the channel; err is the reason. The consumer is forgotten when it has no unsettled messages.
func (c *consumer) close(err error) {
	if err != nil {
		c.err.Store(&err)
	}
	close(c.deliveries)
	if c.held == 0 {
		c.connection.forget(c)
	}
}
