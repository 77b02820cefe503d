package memory

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
)

// queue is one queue. After every operation either no message is ready or no consumer has credit.
type queue struct {
	server *server
	spec   broker.Queue
	limit  int // ready messages

	mu        sync.Mutex
	gone      bool
	seq       uint64
	ready     ring // by seq
	consumers []*consumer
	turn      int // index of the next consumer
	credit    int // of all consumers

	usedAt time.Duration // when it was last declared or a consumer left, for Expires
	timer  *time.Timer
	armed  time.Duration // when the timer fires; 0: never
}

func newQueue(s *server, spec broker.Queue) *queue {
	q := &queue{server: s, spec: spec, limit: spec.MaxLength, usedAt: s.now()}
	if q.limit == 0 {
		q.limit = s.queueMax
	}
	q.arm(q.usedAt)
	return q
}

// push adds a message at the back, or reports that the queue is full. The caller holds mu.
func (q *queue) push(e *entry, now time.Duration) bool {
	if q.ready.length >= q.limit {
		return false
	}
	q.seq++
	e.queue, e.seq, e.deadline = q, q.seq, q.deadline(e.message.Expiration, now)
	if q.credit > 0 {
		q.next().take(e)
		return true
	}
	q.ready.pushBack(e)
	return true
}

// deadline returns when a message expires: the lower of its own time and the queue's.
func (q *queue) deadline(expiration, now time.Duration) time.Duration {
	life := q.spec.TTL
	if expiration > 0 && (life == 0 || expiration < life) {
		life = expiration
	}
	if life == 0 {
		return 0
	}
	return now + life
}

// next returns the next consumer in turn. The caller has checked that one has credit.
func (q *queue) next() *consumer {
	for {
		c := q.consumers[q.turn%len(q.consumers)]
		q.turn = (q.turn + 1) % len(q.consumers)
		if c.credit > 0 {
			return c
		}
	}
}

// dispatch delivers ready messages while consumers have credit, and appends messages that expired at the head to dead.
func (q *queue) dispatch(dead []deadMessage) []deadMessage {
	if q.ready.length == 0 {
		return dead
	}
	now := q.server.now()
	dead = q.expireHeads(now, dead)
	for q.credit > 0 && q.ready.length > 0 {
		q.next().take(q.ready.popFront())
		dead = q.expireHeads(now, dead)
	}
	q.arm(now)
	return dead
}

// expireHeads removes expired messages from the head. A message behind one that expires later waits for that one.
func (q *queue) expireHeads(now time.Duration, dead []deadMessage) []deadMessage {
	for q.ready.length > 0 && q.ready.front().expired(now) {
		dead = append(dead, deadMessage{q.ready.popFront(), broker.DeathExpired})
	}
	return dead
}

// giveBack returns messages to their old places among the ready ones. Messages beyond the delivery limit are
// dead-lettered.
func (q *queue) giveBack(entries []*entry, dead []deadMessage) []deadMessage {
	if q.gone || len(entries) == 0 {
		return dead
	}
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	last := entries[len(entries)-1].seq
	var merged []*entry
	for q.ready.length > 0 && q.ready.front().seq < last {
		merged = append(merged, q.ready.popFront())
	}
	for _, e := range entries {
		e = e.again()
		if q.spec.DeliveryLimit > 0 && e.returns > q.spec.DeliveryLimit {
			dead = append(dead, deadMessage{e, broker.DeathDeliveryLimit})
			continue
		}
		merged = append(merged, e)
	}
	slices.SortFunc(merged, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	for _, e := range slices.Backward(merged) {
		q.ready.pushFront(e)
	}
	return dead
}

func (q *queue) attach(c *consumer) {
	q.consumers = append(q.consumers, c)
	q.credit += c.credit
}

// detach removes a consumer from the turns. Its unsettled messages stay with it.
func (q *queue) detach(c *consumer) {
	c.ended = true
	q.consumers = slices.DeleteFunc(q.consumers, func(o *consumer) bool { return o == c })
	q.turn = 0
	q.credit -= c.credit
	c.credit = 0
	q.usedAt = q.server.now()
	q.arm(q.usedAt)
}

// touch records a use of the queue.
func (q *queue) touch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.usedAt = q.server.now()
}

// end drops all messages and ends the consumers with err. The caller holds server.mu, so the queue gets no more
// messages.
func (q *queue) end(err error) {
	q.gone = true
	q.ready = ring{}
	if q.timer != nil {
		q.timer.Stop()
	}
	for len(q.consumers) > 0 {
		c := q.consumers[0]
		q.detach(c)
		for _, e := range c.untaken() {
			c.release(e)
		}
		c.close(err)
	}
}

// unlockAndPublish releases the queue's lock and then publishes the dead letters.
func (q *queue) unlockAndPublish(dead []deadMessage) {
	q.mu.Unlock()
	q.server.publishDead(dead)
}
