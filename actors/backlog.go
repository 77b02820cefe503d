package actors

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// groupMax bounds the changes of one transaction, groupBytes what they bring along, where it has more than one record.
const (
	groupMax   = 4096
	groupBytes = 16 << 20
)

// askersMax bounds the records that may wait before callers from outside the tree are turned away. What actors ask for
// is bounded by themselves: each waits for its answer.
const askersMax = 20_000

var errBacklog = fmt.Errorf("too many changes wait for the store: %w", store.ErrUnavailable)

// pendingRecord is a record that waits, with who is to hear of it.
type pendingRecord struct {
	record *Record
	answer *ChangeQuestion
	since  time.Time // when it was asked for
	bytes  int
	apart  *aside // of a record that was divided; nil: of one that is whole
	unsure bool   // an earlier recorder tried it, and it may have been made
}

// Backlog is what a recorder has been asked for and has not told the end of. It outlives the actor: a recorder that
// fails is followed by one that goes on where it was. Changes that were made already say so when they are repeated.
type Backlog struct {
	mu       sync.Mutex
	waiting  []pendingRecord
	changes  int       // of those that wait
	flights  []*flight // the transactions under way, the oldest first
	signaled bool      // a look is in the mailbox
	apart    apart

	committed time.Time // when the store last took a change, or was first asked to
}

// flight is one transaction under way.
type flight struct {
	group   []pendingRecord
	changes int
	targets map[messages.ExecutionID]struct{} // of its changes; nil: nobody has asked yet
	unsure  bool                              // it was tried before, and nobody knows whether it was made

	began time.Time     // when the store was first asked for it; of one that is made apart: when it was last
	told  time.Time     // when the log was last told that it is repeated
	wait  time.Duration // the one before it was last repeated

	// Of one that is made apart from the others:
	aside bool
	due   time.Time // when it is tried
}

// list is the changes of the transaction.
func (f *flight) list() []store.Change {
	changes := make([]store.Change, 0, f.changes)
	for _, p := range f.group {
		for i := range p.record.Items {
			changes = append(changes, p.record.Items[i].Change)
		}
	}
	return changes
}

// meets reports whether the record changes an execution that the transaction changes, too.
func (f *flight) meets(r *Record) bool {
	if f.targets == nil {
		f.targets = make(map[messages.ExecutionID]struct{}, f.changes)
		for _, p := range f.group {
			for i := range p.record.Items {
				f.targets[p.record.Items[i].Change.Target()] = struct{}{}
			}
		}
	}
	for i := range r.Items {
		if _, met := f.targets[r.Items[i].Change.Target()]; met {
			return true
		}
	}
	return false
}

// look tells the recorder that its backlog has something new.
type look struct{}

// keep is the recorder's Keep.
func (b *Backlog) keep(message any) (any, bool) {
	var p pendingRecord
	switch m := message.(type) {
	case *Record:
		p.record = m
	case *ChangeQuestion:
		p.record, p.answer = m.Ask, m
	default:
		return nil, false
	}
	for i := range p.record.Items {
		p.bytes += store.Size(p.record.Items[i].Change)
	}
	p.since = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.answer != nil && len(b.waiting) >= askersMax {
		p.answer.Reply(nil, errBacklog)
		return nil, true
	}
	if b.committed.IsZero() {
		b.committed = p.since
	}
	b.waiting = append(b.waiting, p)
	b.changes += len(p.record.Items)
	if b.signaled {
		return nil, true
	}
	b.signaled = true
	return &look{}, true
}

// looked lets the next record signal again.
func (b *Backlog) looked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signaled = false
}

// again puts the transactions that a failed recorder had under way before everything else.
func (b *Backlog) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signaled = false
	var first []pendingRecord
	for _, f := range b.flights {
		first = append(first, doubtful(f.group)...)
		b.changes += f.changes
	}
	b.waiting, b.flights = append(first, b.waiting...), nil
	b.apart.again()
}

// doubtful returns the records as ones that may have been made: their recorder failed before it knew. It copies them, since
// the failed recorder's transaction may still read its own.
func doubtful(group []pendingRecord) []pendingRecord {
	group = slices.Clone(group)
	for i := range group {
		group[i].unsure = true
	}
	return group
}

// besideMin is how many changes must wait before a transaction begins beside another: fewer are cheaper together.
const besideMin = 128

// depart takes what fits into one transaction, where one may begin now beside those under way, at most lanes in all; nil:
// none may, or nothing waits. What meets a transaction under way waits for its end, with all that came after it: an
// execution's changes are made in the order in which they were asked for.
func (b *Backlog) depart(lanes int) *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.flights) > 0 && (len(b.flights) >= lanes || b.changes < besideMin) {
		return nil
	}
	b.divert()
	f, n, bytes := &flight{}, 0, 0
	for n < len(b.waiting) && !b.meets(b.waiting[n].record) {
		p := &b.waiting[n]
		if n > 0 && (f.changes+len(p.record.Items) > groupMax || bytes+p.bytes > groupBytes) {
			break
		}
		f.changes, bytes = f.changes+len(p.record.Items), bytes+p.bytes
		n++
	}
	if n == 0 {
		return nil
	}
	f.group = slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.changes -= f.changes
	b.flights = append(b.flights, f)
	return f
}

// meets reports whether the record changes an execution that a transaction under way changes, too.
func (b *Backlog) meets(r *Record) bool {
	return slices.ContainsFunc(b.flights, func(f *flight) bool { return f.meets(r) })
}

// few reports whether less waits than is worth a transaction of its own.
func (b *Backlog) few() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes < besideMin
}

// landed forgets a transaction that has ended.
func (b *Backlog) landed(f *flight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(f)
}

func (b *Backlog) land(f *flight) {
	same := func(g *flight) bool { return g == f }
	if f.aside {
		b.apart.air = slices.DeleteFunc(b.apart.air, same)
		return
	}
	b.flights = slices.DeleteFunc(b.flights, same)
}
