package placement

import (
	"math/bits"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Config is a table's settings. Zero fields mean the defaults.
type Config struct {
	// SessionTimeout is how long a binding lives without use; 5 min.
	SessionTimeout time.Duration
	// SessionRetain is how long an ended binding's epochs are remembered, so that a session that comes back is told of
	// its loss; 7 days, as long as executions are kept.
	SessionRetain time.Duration
	// SessionMemory bounds how many ended bindings are remembered; 1,000,000. The oldest is forgotten first.
	SessionMemory int
}

func (c Config) withDefaults() Config {
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = 5 * time.Minute
	}
	if c.SessionRetain <= 0 {
		c.SessionRetain = 7 * 24 * time.Hour
	}
	if c.SessionMemory <= 0 {
		c.SessionMemory = 1_000_000
	}
	return c
}

// Table is one pool's workers and sessions, indexed for Pick. It is not safe for concurrent use.
type Table struct {
	config  Config
	workers map[messages.WorkerKey]*node
	known   int // workers that were described, not only named by a binding
	present int // workers that are a reason to wait
	clock   uint64
	settled bool

	// buckets holds the free workers that are not sated, by tier (open, last resort) and depth; filled has a bit for each
	// depth in use.
	buckets [2][DepthMax + 1]bucket
	filled  [2]uint64

	sessions map[string]*session
	bound    order // bindings, the longest unused first
	ended    order // remembered sessions without a binding, the first ended first
}

// New returns an empty table that has not settled: it fails nothing for want of workers.
func New(c Config) *Table {
	t := &Table{
		config:   c.withDefaults(),
		workers:  map[messages.WorkerKey]*node{},
		sessions: map[string]*session{},
	}
	for g := range t.buckets {
		for d := range t.buckets[g] {
			t.buckets[g][d].tier, t.buckets[g][d].depth = uint8(g), uint8(d)
		}
	}
	return t
}

// SetSettled says whether the router has led for long enough, on a steady store, to believe that an absent worker is
// absent. Until then nothing fails with no_workers.
func (t *Table) SetSettled(settled bool) { t.settled = settled }

// Upsert adds a worker or replaces what is known of it. A change of its depth counts as a use.
func (t *Table) Upsert(w Worker) {
	n := t.node(w.Key)
	if n.known && n.Depth != w.Depth {
		t.use(n)
	}
	if !n.known {
		n.known = true
		t.known++
	}
	t.change(n, w)
}

// Remove forgets a worker and ends the bindings to it, which it returns.
func (t *Table) Remove(key messages.WorkerKey, now time.Time) []Ended {
	n, ok := t.workers[key]
	if !ok {
		return nil
	}
	ended := t.UnbindWorker(key, now)
	if n.known {
		t.known--
	}
	t.change(n, Worker{})
	delete(t.workers, key)
	return ended
}

// Release says that a placement on the worker has ended or was taken back: its depth falls by one.
func (t *Table) Release(key messages.WorkerKey) {
	n, ok := t.workers[key]
	if !ok || n.Depth <= 0 {
		return
	}
	w := n.Worker
	w.Depth--
	t.use(n)
	t.change(n, w)
}

// Get returns what is known of a worker.
func (t *Table) Get(key messages.WorkerKey) (Worker, bool) {
	n, ok := t.workers[key]
	if !ok || !n.known {
		return Worker{}, false
	}
	return n.Worker, true
}

// Len returns how many workers the table has, and how many of them are present: working or about to.
func (t *Table) Len() (workers, present int) { return t.known, t.present }

// Free returns whether any worker can be given an execution of no session now, so that a round of picks can end early.
// Pick may give a session's own worker its next one though that is sated.
func (t *Table) Free() bool { return t.filled[0]|t.filled[1] != 0 }

// idleLook bounds the workers that Idle looks at.
const idleLook = 64

// Idle returns the open worker with nothing on it that was used least recently, of a node, or with a zero incarnation of any node. It
// looks at the first idleLook.
func (t *Table) Idle(of messages.Incarnation) (Worker, bool) {
	n := t.buckets[0][0].head
	for range idleLook {
		if n == nil {
			break
		}
		if of.IsZero() || n.Key.Incarnation == of {
			return n.Worker, true
		}
		n = n.next
	}
	return Worker{}, false
}

// node returns the worker's node, a new one where a binding comes before the worker.
func (t *Table) node(key messages.WorkerKey) *node {
	n, ok := t.workers[key]
	if !ok {
		n = &node{Worker: Worker{Key: key}}
		t.workers[key] = n
	}
	return n
}

func (t *Table) use(n *node) {
	t.clock++
	n.used = t.clock
}

// change replaces what is known of a worker and moves it to where it belongs. A worker whose bucket is the same keeps
// its place: nothing but a change of depth is a use.
func (t *Table) change(n *node, w Worker) {
	if n.present() {
		t.present--
	}
	n.Worker = w
	n.sated = n.Depth >= n.capacity() || n.sated && n.capacity() >= groupsFrom && n.Depth > (n.capacity()+1)/2
	if n.present() {
		t.present++
	}
	b := t.bucket(n)
	if b == n.bucket {
		return
	}
	t.unlist(n)
	if b != nil {
		b.insert(n)
		t.filled[b.tier] |= 1 << b.depth
	}
}

// bucket returns where the worker belongs; nil: it is not free, or sated.
func (t *Table) bucket(n *node) *bucket {
	if !n.free() || n.sated {
		return nil
	}
	return &t.buckets[Open-n.Tier][max(n.Depth, 0)]
}

func (t *Table) unlist(n *node) {
	b := n.bucket
	if b == nil {
		return
	}
	b.remove(n)
	if b.head == nil {
		t.filled[b.tier] &^= 1 << b.depth
	}
}

// best returns the free worker that comes first by tier, depth and least recent use, other than the one to avoid
// unless that is the only one; nil: none is free.
func (t *Table) best(avoid messages.WorkerID) *node {
	var last *node
	for g := range t.filled {
		for depths := t.filled[g]; depths != 0; depths &= depths - 1 {
			n := t.buckets[g][bits.TrailingZeros64(depths)].head
			if avoid == "" || n.ID != avoid {
				return n
			}
			if n.next != nil {
				return n.next
			}
			last = n
		}
	}
	return last
}
