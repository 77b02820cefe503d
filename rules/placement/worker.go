package placement

import "github.com/troupe-run/troupe/messages"

// Grade orders workers by health. Its values are those of health.Grade, which this package may not import. The zero
// value is no grade; nothing is placed on such a worker.
type Grade uint8

// The grades. Healthy workers come before degraded ones; an unhealthy one gets no work.
const (
	Unknown Grade = iota
	Healthy
	Degraded
	Unhealthy
)

func (g Grade) takes() bool { return g == Healthy || g == Degraded }

// DepthMax bounds the placements on one worker: the deepest window is 20, and the grade is degraded from 50 on.
const DepthMax = 63

// Worker is what the table knows of one worker.
type Worker struct {
	Key messages.WorkerKey
	ID  messages.WorkerID
	// Grade is the worker's health.
	Grade Grade
	// Fresh says that its last heartbeat is young enough.
	Fresh bool
	// Active says that it is not cordoned, draining or inactive.
	Active bool
	// Starting says that it is starting or being replaced on a live node, which counts as busy whatever its heartbeat.
	// The roster leaves it false for the workers of a broken pool, which count as absent.
	Starting bool
	// Depth counts what is placed or running on it, Capacity how much may be: 1 and the dispatch-ahead window. A
	// capacity above DepthMax counts as DepthMax.
	Depth    int
	Capacity int
}

// capacity is how many placements the worker may have.
func (w *Worker) capacity() int { return min(w.Capacity, DepthMax) }

// present reports whether the worker is a reason to wait: it works, or it is about to.
func (w *Worker) present() bool { return w.Starting || w.Fresh && w.Grade.takes() }

// free reports whether the worker can be given one more execution now.
func (w *Worker) free() bool {
	return w.Active && w.Fresh && !w.Starting && w.Grade.takes() && w.Depth < w.capacity()
}

// node is a worker in the table. It is in a bucket while it is free and not sated.
type node struct {
	Worker
	used       uint64 // when it was last placed on or released, in the table's own count; 0: never
	prev, next *node
	bucket     *bucket
	sessions   *session // the bindings to it, linked through session.sibling
	// sated: it was full, and more than half of what it may have is still there.
	sated bool
	// known is false for a worker that a binding names and nobody has described yet.
	known bool
}

// bucket lists the free workers of one grade and depth, the least recently used first.
type bucket struct {
	head, tail *node
	grade      uint8
	depth      uint8
}

// insert puts n behind every worker that was used before it. A worker that was just used goes to the end at once; only
// a change of grade or freshness has to look for its place.
func (b *bucket) insert(n *node) {
	after := b.tail
	for after != nil && after.used > n.used {
		after = after.prev
	}
	n.bucket, n.prev = b, after
	if after == nil {
		n.next, b.head = b.head, n
	} else {
		n.next, after.next = after.next, n
	}
	if n.next == nil {
		b.tail = n
	} else {
		n.next.prev = n
	}
}

func (b *bucket) remove(n *node) {
	if n.prev == nil {
		b.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		b.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next, n.bucket = nil, nil, nil
}
