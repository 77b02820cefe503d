package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// applyCall is one Apply on its way through a lane.
type applyCall struct {
	ctx     context.Context
	changes []store.Change
	out     []store.Result
	err     error
	done    chan struct{}
}

func (c *applyCall) context() context.Context { return c.ctx }
func (c *applyCall) finished() chan struct{}  { return c.done }
func (c *applyCall) fail(err error)           { c.err = err }

// Apply makes the changes in order. Those that only move their own row go together in one transaction, which is one
// round trip; what met something else, has a session, or comes to an execution twice follows in a second one.
func (s *Store) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	c := &applyCall{ctx: ctx, changes: changes, done: make(chan struct{})}
	if store.IsApart(ctx) {
		if s.closed() {
			return nil, fmt.Errorf("apply: %w", store.ErrClosed)
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		s.commitApplies(limited, []*applyCall{c})
	} else if err := s.applies.do(ctx, "apply", c); err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, s.mapError("apply", c.err)
	}
	return c.out, nil
}

// item is one change on its way.
type item struct {
	change store.Change
	id     messages.ExecutionID
	bad    error // why it cannot be stored, whatever the row says
	out    store.Result
	done   bool    // the change has taken effect
	found  *record // what stood there before, under its lock; nil: nothing
	at     time.Time
	lane   *laneState // of a placement with a session
}

// commitApplies makes the changes of a group of calls. Where something in it is to blame for its failure, each call is made
// by itself, so that what is wrong with one never fails another.
func (s *Store) commitApplies(ctx context.Context, group []*applyCall) {
	err := s.applyCalls(ctx, group)
	if err == nil || len(group) == 1 || !store.OfPart(s.mapError("apply", err)) {
		return
	}
	slow := 0
	for _, c := range group {
		if slow == slowCallsMax {
			return // the others keep the group's failure, which says that they may pass in parts
		}
		first := c.err
		c.err = nil
		if s.applySingly(ctx, c); unsureOf(first) {
			c.doubt()
		}
		if errors.Is(c.err, context.DeadlineExceeded) {
			slow++
		}
	}
}

// slowCallsMax is how many calls of a failed group may use up their time, one after the other, in its lane.
const slowCallsMax = 2

// applySingly makes one call of a group that failed. It has a time of its own: the group's may be used up.
func (s *Store) applySingly(ctx context.Context, c *applyCall) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_ = s.applyCalls(limited, []*applyCall{c})
}

// doubt fails a call that its group may have made, where a row that is held now hides whether it was.
func (c *applyCall) doubt() {
	for i := range c.out {
		if c.err == nil && c.out[i].Verdict == store.Blocked {
			c.err = &store.PartError{Err: fmt.Errorf("%w: %w", store.ErrUnavailable, c.out[i].Err), Unsure: true}
		}
	}
	if c.err != nil {
		c.err = &partlyError{c.err}
	}
}

func (s *Store) applyCalls(ctx context.Context, group []*applyCall) error {
	var items []*item
	for _, c := range group {
		for _, change := range c.changes {
			items = append(items, newItem(change))
		}
	}
	err := s.applyParts(ctx, items)
	if err != nil {
		err = partly(err, items)
	}
	s.tellEnds(items)
	for _, c := range group {
		if err != nil {
			c.err = err
			continue
		}
		c.out = make([]store.Result, len(c.changes))
		for i := range c.changes {
			c.out[i] = items[i].out
		}
		items = items[len(c.changes):]
	}
	return err
}

// applyParts makes changes in as few transactions as their bytes allow. Each has callTimeout.
func (s *Store) applyParts(ctx context.Context, items []*item) error {
	for part := range chunks(items, len(items), transactionBytes, itemSize, nil) {
		err := func() error {
			limited := ctx
			if len(part) < len(items) {
				var cancel context.CancelFunc
				limited, cancel = context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
				defer cancel()
			}
			return s.aroundBlocked(limited, part, func(rest []*item) error { return s.applyAll(limited, rest) })
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// tellEnds tells other nodes of the outcomes among changes that were made.
func (s *Store) tellEnds(items []*item) {
	if !s.beats.others() {
		return
	}
	var ids []messages.ExecutionID
	for _, it := range items {
		if it.done && it.out.Status.Terminal() {
			ids = append(ids, it.id)
		}
	}
	s.herald.finished(ids)
}

// newItem checks what can be checked without the row.
func newItem(c store.Change) *item {
	it := &item{change: c}
	switch c := c.(type) {
	case *store.Place:
		if c.Worker.Incarnation.IsZero() {
			it.bad = fmt.Errorf("worker %s has no incarnation: %w", c.WorkerID, store.ErrInvalid)
		}
	case *store.Finish:
		it.bad = checkOutcome(&c.Outcome, c.Retry)
	case *store.End:
		it.bad = checkOutcome(&c.Outcome, c.Retry)
	case *store.TakeBack, *store.Claim, *store.Cancel, *store.Rescue:
	default:
		it.bad = fmt.Errorf("unknown change %T: %w", c, store.ErrInvalid)
	}
	it.id = c.Target()
	return it
}

func checkOutcome(o *messages.Outcome, retry *messages.Execution) error {
	if err := store.CheckOutcome(o); err != nil || retry == nil {
		return err
	}
	if err := store.Check(retry); err != nil {
		return fmt.Errorf("its retry: %w", err)
	}
	return nil
}

// applyAll makes the changes of a group, those that can go together first.
func (s *Store) applyAll(ctx context.Context, items []*item) error {
	fast, slow := s.split(items)
	if len(fast) > 0 {
		err := repeat(ctx, func() error { return s.applyFast(ctx, fast) })
		if err != nil && !dataError(err) {
			return err
		}
		missed, err := s.passOver(ctx, slices.DeleteFunc(fast, func(it *item) bool { return it.done }))
		if err != nil {
			return err
		}
		slow = append(slow, missed...)
	}
	return s.applyCareful(ctx, slow)
}

// split chooses what may go the fast way: changes of the straight path, each the only one of its execution, none of
// which has a session as far as is known here.
func (s *Store) split(items []*item) (fast, slow []*item) {
	times := make(map[messages.ExecutionID]int, len(items))
	for _, it := range items {
		times[it.id]++
	}
	for _, it := range items {
		if times[it.id] == 1 && it.bad == nil && s.straight(it) {
			fast = append(fast, it)
		} else {
			slow = append(slow, it)
		}
	}
	return fast, slow
}

func (s *Store) straight(it *item) bool {
	switch c := it.change.(type) {
	case *store.Place:
		return c.Session == nil
	case *store.Claim:
		return !s.known.has(it.id)
	case *store.Finish:
		return c.Retry == nil && !s.known.has(it.id)
	}
	return false
}

// repeatMax bounds how often a transaction is made again that the server ended for the sake of another.
const repeatMax = 5

// repeat runs f again while the server ended it for the sake of another transaction.
func repeat(ctx context.Context, f func() error) error {
	for n := 0; ; n++ {
		err := f()
		if err == nil || !conflicting(err) || n == repeatMax {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(rand.IntN(10<<n)) * time.Millisecond):
		}
	}
}

// statementRows is how many rows one statement changes.
const statementRows = 500

// applyFast makes changes of the straight path in one transaction. Those that meet something else are left undone.
func (s *Store) applyFast(ctx context.Context, items []*item) error {
	batch := &pgx.Batch{}
	slices.SortFunc(items, func(a, b *item) int { return bytes.Compare(a.id[:], b.id[:]) })
	s.queueChanges(batch, items, false)
	return undone(items, s.pool.SendBatch(ctx, batch).Close())
}

// undone takes back what was answered of changes whose transaction failed. One that ran out of its time while the server
// answered it is too much for one transaction.
func undone(items []*item, err error) error {
	if err == nil {
		return nil
	}
	answered := false
	for _, it := range items {
		answered = answered || it.done
		it.done = false
	}
	if answered && errors.Is(err, context.DeadlineExceeded) {
		return &store.PartError{Err: fmt.Errorf("%w: %w", store.ErrUnavailable, err), Unsure: true} // perhaps in its commit
	}
	return err
}
