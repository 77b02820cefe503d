package actors

import (
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// groupMax bounds the changes of one transaction.
const groupMax = 4096

// askersMax bounds the records that may wait before callers from outside the tree are turned away. What actors ask for
// is bounded by themselves: each waits for its answer.
const askersMax = 20_000

var errBacklog = fmt.Errorf("too many changes wait for the store: %w", store.ErrUnavailable)

// pendingRecord is a record that waits, with who is to hear of it.
type pendingRecord struct {
	record *Record
	answer *ChangeQuestion
}

// Backlog is what a recorder has been asked for and has not told the end of. It outlives the actor: a recorder that
// fails is followed by one that goes on where it was. Changes that were made already say so when they are repeated.
type Backlog struct {
	mu       sync.Mutex
	waiting  []pendingRecord
	changes  int       // of those that wait
	flights  []*flight // the transactions under way, the oldest first
	signaled bool      // a look is in the mailbox
}

// flight is one transaction under way.
type flight struct {
	group   []pendingRecord
	changes int
	targets map[messages.ExecutionID]struct{} // of its changes; nil: nobody has asked yet
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.answer != nil && len(b.waiting) >= askersMax {
		p.answer.Reply(nil, errBacklog)
		return nil, true
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
		first = append(first, f.group...)
		b.changes += f.changes
	}
	b.waiting, b.flights = append(first, b.waiting...), nil
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
	f, n := &flight{}, 0
	for n < len(b.waiting) && (n == 0 || f.changes+len(b.waiting[n].record.Items) <= groupMax) && !b.meets(b.waiting[n].record) {
		f.changes += len(b.waiting[n].record.Items)
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
	b.flights = slices.DeleteFunc(b.flights, func(g *flight) bool { return g == f })
}
