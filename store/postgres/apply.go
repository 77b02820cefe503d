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
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// applyCall is one call of Apply in a lane.
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

// Apply makes the changes in order. Changes that affect only their own row share one transaction, which is one round
// trip. A change that does not match, has a session, or is the second one of an execution follows in another
// transaction.
func (s *applier) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	c := &applyCall{ctx: ctx, changes: changes, done: make(chan struct{})}
	if store.WantsOwnTransaction(ctx) {
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

// item is one change of a call.
type item struct {
	change   store.Change
	id       messages.ExecutionID
	out      store.Result
	done     bool // the change has taken effect
	noEffect bool // it has a verdict other than Applied
}

// commitApplies makes the changes of a group of calls. If the group fails because of one part of it, each call is made
// alone, so that one call never makes another fail.
func (s *applier) commitApplies(ctx context.Context, group []*applyCall) {
	err := s.applyCalls(ctx, group)
	if err == nil || len(group) == 1 || !store.MayPassInParts(s.mapError("apply", err)) {
		return
	}
	slow := 0
	for _, c := range group {
		if slow == slowCallsMax {
			return // the others return the group's failure, which says that parts may succeed alone
		}
		first := c.err
		c.err = nil
		if s.applySingly(ctx, c); unsureOf(first) {
			c.markUnsure()
		}
		if errors.Is(c.err, context.DeadlineExceeded) {
			slow++
		}
	}
}

// slowCallsMax bounds how many calls of a failed group may time out in its lane, one after the other.
const slowCallsMax = 2

// applySingly makes one call of a failed group, with a timeout of its own: the group's may have ended.
func (s *applier) applySingly(ctx context.Context, c *applyCall) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_ = s.applyCalls(limited, []*applyCall{c})
}

// markUnsure fails a call that its group may have made, if a locked row now hides whether it was.
func (c *applyCall) markUnsure() {
	for i := range c.out {
		if c.err == nil && c.out[i].Verdict == store.Blocked {
			c.err = &store.PartError{Err: fmt.Errorf("%w: %w", store.ErrUnavailable, c.out[i].Err), Unsure: true}
		}
	}
	if c.err != nil {
		c.err = &partialError{c.err}
	}
}

func (s *applier) applyCalls(ctx context.Context, group []*applyCall) error {
	var items []*item
	for _, c := range group {
		for _, change := range c.changes {
			items = append(items, &item{change: change, id: change.Target()})
		}
	}
	err := s.applyParts(ctx, items)
	if err != nil {
		err = asPartial(err, items)
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

// applyParts makes changes in as few transactions as their bytes allow. Each has the timeout callTimeout.
func (s *applier) applyParts(ctx context.Context, items []*item) error {
	for part := range chunks(items, len(items), transactionBytes, itemSize, nil) {
		err := func() error {
			limited := ctx
			if len(part) < len(items) {
				var cancel context.CancelFunc
				limited, cancel = context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
				defer cancel()
			}
			return s.held.applyUnblocked(limited, part, func(rest []*item) error { return s.applyAll(limited, rest) })
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// tellEnds notifies other nodes of the outcomes among the changes that took effect.
func (s *applier) tellEnds(items []*item) {
	if !s.beats.others() {
		return
	}
	var ids []messages.ExecutionID
	for _, it := range items {
		if it.done && it.out.Status.Terminal() {
			ids = append(ids, it.id)
		}
	}
	s.notifier.finished(ids)
}

// applyAll makes the changes of a group: first those of the straight path, by the lean statements, then the rest, by
// store.Decide.
func (s *applier) applyAll(ctx context.Context, items []*item) error {
	plain, bound := s.fast(items)
	for _, fast := range [][]*item{plain, bound} {
		if len(fast) == 0 {
			continue
		}
		err := repeat(ctx, func() error { return s.applyFast(ctx, fast, len(bound) > 0 && fast[0] == bound[0]) })
		if err != nil && !dataError(err) {
			return err
		}
	}
	return s.applyDecided(ctx, open(items))
}

// fast selects the changes for the lean statements: changes of the straight path that are the only change of their
// execution. Changes of executions with a known session form a second group, as far as their order allows.
func (s *applier) fast(items []*item) (plain, bound []*item) {
	times, names := make(map[messages.ExecutionID]int, len(items)), map[messages.ExecutionID]sessionKey{}
	for _, it := range items {
		times[it.id]++
		if name := s.sessionOf(it); name != (sessionKey{}) {
			names[it.id] = name
		}
	}
	fits := func(it *item) bool { return times[it.id] == 1 && straight(it, names[it.id]) }
	if len(names) == 0 {
		for _, it := range items {
			if fits(it) {
				plain = append(plain, it)
			}
		}
		return plain, nil
	}
	round, _ := pick(items, names, fits)
	for _, it := range round {
		if names[it.id] == (sessionKey{}) {
			plain = append(plain, it)
		} else {
			bound = append(bound, it)
		}
	}
	return plain, bound
}

// sessionOf returns the session of the change's execution, if it is known here.
func (s *applier) sessionOf(it *item) sessionKey {
	if p, ok := it.change.(*store.Place); ok && p.Session != nil {
		return sessionKey{p.Session.Pool, p.Session.Session}
	}
	return s.known.of(it.id)
}

// straight reports whether a lean statement may make the change for an execution of this session, as far as that is
// known without the row.
func straight(it *item, name sessionKey) bool {
	switch c := it.change.(type) {
	case *store.Place:
		return (c.Session == nil) == (name == sessionKey{}) && !c.Worker.Incarnation.IsZero() && c.Generation == 0
	case *store.Claim:
		return c.PlacedBy.IsZero() || name == sessionKey{} && !c.Worker.Incarnation.IsZero()
	case *store.Finish:
		return store.CheckOutcome(&c.Outcome) == nil && (c.Retry == nil || !c.Retry.ID.IsZero() && store.Check(c.Retry) == nil && follows(c.Retry, name))
	}
	return false
}

// follows reports whether the retry belongs to the same session, or neither has one.
func follows(retry *messages.Execution, name sessionKey) bool {
	return retry.Session == name.session && (retry.Session == "" || retry.Pool == name.pool)
}

// repeatMax bounds the repetitions of a transaction that the server ended because of another one.
const repeatMax = 5

// repeat runs f again while the server ends its transaction because of another one.
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

// statementRows is the greatest number of rows that one statement changes.
const statementRows = 500

// applyFast makes changes of the straight path in one transaction. All are of executions with a session (bound), or
// none is. Changes that do not match are left undone.
func (s *applier) applyFast(ctx context.Context, items []*item, bound bool) error {
	batch := &pgx.Batch{}
	slices.SortFunc(items, func(a, b *item) int { return bytes.Compare(a.id[:], b.id[:]) })
	if !bound {
		s.write.queueChanges(batch, items, false)
		return undone(items, s.pool.SendBatch(ctx, batch).Close())
	}
	ids := make(column[pgtype.UUID], 0, len(items))
	for _, it := range items {
		ids = append(ids, uuidOf(it.id))
	}
	batch.Queue(lockByID, ids)
	batch.Queue(lockSessions, ids)
	s.write.queueChanges(batch, items, true)
	for _, it := range items {
		if c, ok := it.change.(*store.Finish); ok && c.Retry != nil {
			ids = append(ids, uuidOf(c.Retry.ID))
		}
	}
	batch.Queue(recountLanes, ids)
	return undone(items, s.pool.SendBatch(ctx, batch).Close())
}

// undone resets the answers to changes whose transaction failed. If the time ran out while the server answered, the
// transaction was too large.
func undone(items []*item, err error) error {
	if err == nil {
		return nil
	}
	answered := false
	for _, it := range items {
		answered = answered || it.done
		it.done, it.noEffect = false, false
	}
	if answered && errors.Is(err, context.DeadlineExceeded) {
		return &store.PartError{Err: fmt.Errorf("%w: %w", store.ErrUnavailable, err), Unsure: true} // perhaps during its commit
	}
	return err
}
