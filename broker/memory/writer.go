package memory

import (
	"time"

	"github.com/troupe-run/troupe/broker"
)

// slabMax is how many entries are allocated at once: one entry in use keeps all of them in memory.
const slabMax = 16

// writer puts messages into queues. It keeps the lock of a queue while the next message goes to the same queue. The
// caller holds server.mu for reading.
type writer struct {
	server *server
	now    time.Duration
	left   int    // messages not written yet, for allocation
	queue  *queue // locked; nil: none
	slab   []entry
	dead   []deadMessage
}

// putAll publishes one message to its targets.
func (w *writer) putAll(targets []*queue, m *broker.Message) broker.Confirm {
	if len(targets) == 0 {
		return broker.Returned
	}
	confirm := broker.Confirmed
	for _, q := range targets {
		if !w.put(q, m, nil) {
			confirm = broker.Nacked
		}
	}
	w.left--
	return confirm
}

// put adds one message to one queue, or reports that it is full.
func (w *writer) put(q *queue, m *broker.Message, deaths []broker.Death) bool {
	w.lock(q)
	if q.ready.length >= q.limit {
		w.dead = q.expireHeads(w.now, w.dead)
	}
	e := w.entry()
	e.message, e.deaths = *m, deaths
	return q.push(e, w.now)
}

func (w *writer) entry() *entry {
	if len(w.slab) == 0 {
		w.slab = make([]entry, min(slabMax, max(1, w.left)))
	}
	e := &w.slab[0]
	w.slab = w.slab[1:]
	return e
}

func (w *writer) lock(q *queue) {
	if w.queue == q {
		return
	}
	w.unlock()
	q.mu.Lock()
	w.queue = q
}

func (w *writer) unlock() {
	if w.queue == nil {
		return
	}
	w.queue.arm(w.now)
	w.queue.mu.Unlock()
	w.queue = nil
}

// finish releases the last lock and returns the messages that expired.
func (w *writer) finish() []deadMessage {
	w.unlock()
	return w.dead
}
