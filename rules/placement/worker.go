package placement

import "github.com/troupe-run/troupe/messages"

// Tier says how available a worker is, whatever its load. The zero value is no worker that anybody has described.
type Tier uint8

// The tiers, the least available first. The roster decides which one holds.
const (
	Absent     Tier = iota // no reason to wait for it, and it is closed to new work
	Missing                // the same, but it would take work: what waits for its session keeps the binding
	Closed                 // a reason to wait: it takes no work for now
	LastResort             // takes work where no open worker is free
	Open                   // takes work
)

// takes reports whether a worker of the tier is placed on.
func (t Tier) takes() bool { return t >= LastResort }

// keeps reports whether what waits for a session on a worker of the tier keeps the binding alive.
func (t Tier) keeps() bool { return t == Missing || t.takes() }

// groupsFrom is the capacity from which a worker is given its next work in groups of half of that: its runs take at most 5 ms, and
// single hand-overs would cost more than they bring. Below it the next hand-over follows each end, so that what is ahead lasts longest.
const groupsFrom = 1 + WindowMax

// DepthMax bounds the placements on one worker: the deepest window is 20, and the grade is degraded from 50 on.
const DepthMax = 63

// Worker is what the table knows of one worker.
type Worker struct {
	Key messages.WorkerKey
	ID  messages.WorkerID
	// Tier is how available it is.
	Tier Tier
	// Depth counts what is placed or running on it, Capacity how much may be: 1 and the dispatch-ahead window. A
	// capacity above DepthMax counts as DepthMax.
	Depth    int
	Capacity int
}

// capacity is how many placements the worker may have.
func (w *Worker) capacity() int { return min(w.Capacity, DepthMax) }

// present reports whether the worker is a reason to wait: it works, or it is about to.
func (w *Worker) present() bool { return w.Tier >= Closed }

// free reports whether the worker can be given one more execution now.
func (w *Worker) free() bool { return w.Tier.takes() && w.Depth < w.capacity() }

// node is a worker in the table. It is in a bucket while it is free and not sated.
type node struct {
	Worker
	used       uint64 // when it was last placed on or released, in the table's own count; 0: never
	prev, next *node
	bucket     *bucket
	sessions   *session // the bindings to it, linked through session.sibling
	// sated: it was full, may have groupsFrom or more, and more than half of that is still there.
	sated bool
	// known is false for a worker that a binding names and nobody has described yet.
	known bool
}

// bucket lists the free workers of one tier and depth, the least recently used first.
type bucket struct {
	head, tail *node
	tier       uint8 // 0: open, 1: a last resort
	depth      uint8
}

// insert puts n behind every worker that was used before it. A worker that was just used goes to the end at once; only
// a change of tier has to look for its place.
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
