package roster

import "github.com/troupe-run/troupe/messages"

// waiter is one held candidate. It stands in one queue (ready, patient, or its worker's) or, with queue nil, in its
// session's line behind another.
type waiter struct {
	candidate messages.Candidate
	line      *line
	queue     *queue
	index     int
	why       Reason // why it was not placed when it was last looked at
}

// before orders waiters: higher priority first, then the store's insertion order.
func (w *waiter) before(o *waiter) bool {
	if w.candidate.Priority != o.candidate.Priority {
		return w.candidate.Priority > o.candidate.Priority
	}
	return w.candidate.Seq < o.candidate.Seq
}

// queue is a heap of waiters, the one to place first on top.
type queue struct {
	items  []*waiter
	worker *worker // whose sessions wait here; nil: the pool's
}

func (q *queue) len() int { return len(q.items) }

func (q *queue) top() *waiter {
	if len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// push adds a waiter that is in no queue.
func (q *queue) push(w *waiter) {
	w.queue, w.index = q, len(q.items)
	q.items = append(q.items, w)
	q.up(w.index)
}

// remove takes a waiter out from wherever it stands in q.
func (q *queue) remove(w *waiter) {
	i, last := w.index, len(q.items)-1
	q.swap(i, last)
	q.items[last] = nil
	q.items = q.items[:last]
	if i < last {
		q.down(i)
		q.up(i)
	}
	w.queue, w.index = nil, 0
}

func (q *queue) swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].index, q.items[j].index = i, j
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.items[i].before(q.items[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.items); child++ {
			if q.items[child].before(q.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}
