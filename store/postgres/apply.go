package postgres

import (
	"bytes"
	"context"
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
	if err := s.applies.do(ctx, "apply", c); err != nil {
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

func (s *Store) commitApplies(ctx context.Context, group []*applyCall) {
	var items []*item
	for _, c := range group {
		for _, change := range c.changes {
			items = append(items, newItem(change))
		}
	}
	err := s.applyAll(ctx, items)
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
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		for _, it := range items {
			it.done = false
		}
		return err
	}
	return nil
}

// applyCareful makes the rest, with every row locked and read before it is changed, so that what is not changed can be
// judged. When something in it cannot be stored, the changes are divided until that change stands alone.
func (s *Store) applyCareful(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	err := repeat(ctx, func() error { return s.careful(ctx, items) })
	switch {
	case err == nil:
		return s.judgeAll(ctx, items)
	case !dataError(err):
		return err
	case len(items) == 1:
		items[0].bad = err
		return s.applyCareful2(ctx, items)
	}
	half := len(items) / 2
	if err := s.applyCareful(ctx, items[:half]); err != nil {
		return err
	}
	return s.applyCareful(ctx, items[half:])
}

// applyCareful2 looks at the row of a change that cannot be stored, which says what to answer.
func (s *Store) applyCareful2(ctx context.Context, items []*item) error {
	if err := repeat(ctx, func() error { return s.careful(ctx, items) }); err != nil {
		return err
	}
	return s.judgeAll(ctx, items)
}

// careful makes the changes in one transaction, in as many rounds as an execution or a session has changes here.
func (s *Store) careful(ctx context.Context, items []*item) error {
	batch := &pgx.Batch{}
	ids := make([]messages.ExecutionID, len(items))
	for i, it := range items {
		it.done, it.found, it.lane = false, nil, nil
		ids[i] = it.id
	}
	batch.Queue(lockByID, idsOf(ids))
	batch.Queue(lockSessions, idsOf(ids))
	inOrder := rounds(items)
	if len(inOrder) > 1 {
		batch.Queue(lockRows, idsOf(ids)) // each round locks its own in order, all of them together would not
	}
	for _, round := range inOrder {
		slices.SortFunc(round, func(a, b *item) int { return bytes.Compare(a.id[:], b.id[:]) })
		s.queueRound(batch, round)
	}
	return s.pool.SendBatch(ctx, batch).Close()
}

const lockRows = "SELECT 1 FROM execution WHERE id = ANY($1) ORDER BY id FOR UPDATE"

// rounds divides changes so that each execution has one a round, and that a placement with a session sees all that
// came before it.
func rounds(items []*item) [][]*item {
	var out [][]*item
	next := map[messages.ExecutionID]int{}
	floor := 0 // no later change goes to an earlier round
	kind, sessions := "", map[string]bool{}
	for _, it := range items {
		p, ok := it.change.(*store.Place)
		bound := ok && p.Session != nil
		if bound {
			key := p.Session.Pool + "/" + p.Session.Session
			if kind != "place" || sessions[key] {
				floor, sessions = len(out), map[string]bool{}
			}
			sessions[key] = true
		} else if kind == "place" && !ok && len(sessions) > 0 {
			floor, sessions = len(out), map[string]bool{}
		}
		kind = it.change.Name()
		at := max(floor, next[it.id])
		next[it.id] = at + 1
		for len(out) <= at {
			out = append(out, nil)
		}
		out[at] = append(out[at], it)
	}
	return slices.DeleteFunc(out, func(r []*item) bool { return len(r) == 0 })
}

const (
	foundSQL = "SELECT " + recordColumns + ", CASE WHEN e.id = ANY($2) THEN r.parameters END, coalesce(e.result, o.result), coalesce(e.error, o.error), now()" +
		recordFrom + " WHERE e.id = ANY($1) ORDER BY e.id FOR UPDATE OF e"
	laneSQL = `SELECT e.id, l.active, s.epoch, s.worker_inc, s.worker_pool, s.worker_slot FROM execution e
 LEFT JOIN lane l ON l.pool = e.pool AND l.session = e.session LEFT JOIN session s ON s.pool = e.pool AND s.session = e.session
 WHERE e.id = ANY($1)`
)

// laneState is where a session stood before a placement.
type laneState struct {
	active int
	held   store.Session
}

// queueRound reads and locks the round's rows, changes them, and settles their sessions.
func (s *Store) queueRound(batch *pgx.Batch, round []*item) {
	byID := make(map[messages.ExecutionID]*item, len(round))
	var ids, claims, places []messages.ExecutionID
	var fit []*item
	for _, it := range round {
		byID[it.id] = it
		ids = append(ids, it.id)
		switch c := it.change.(type) {
		case *store.Claim:
			claims = append(claims, it.id)
		case *store.Place:
			if c.Session != nil {
				places = append(places, it.id)
			}
		}
		if it.bad == nil {
			fit = append(fit, it)
		}
	}
	batch.Queue(foundSQL, idsOf(ids), idsOf(claims)).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			r := &record{}
			scanWhole(sc, r)
			it := byID[r.ID]
			it.found, it.at = r, sc.time()
		})
	})
	if len(places) > 0 {
		batch.Queue(laneSQL, idsOf(places)).Query(func(rows pgx.Rows) error { return each(rows, func(sc *scanner) { scanLane(sc, byID) }) })
	}
	s.queueChanges(batch, fit, true)
	batch.Queue(settleLanes, idsOf(append(ids, retriesOf(fit)...)))
}

func scanLane(s *scanner, byID map[messages.ExecutionID]*item) {
	var id messages.ExecutionID
	s.id((*[16]byte)(&id))
	l := &laneState{active: int(s.integer())}
	l.held.Epoch = s.integer()
	s.id((*[16]byte)(&l.held.Worker.Incarnation))
	l.held.Worker.Pool, l.held.Worker.Slot = s.text(), messages.Slot(s.integer())
	byID[id].lane = l
}

func retriesOf(items []*item) []messages.ExecutionID {
	var out []messages.ExecutionID
	for _, it := range items {
		switch c := it.change.(type) {
		case *store.Finish:
			if c.Retry != nil {
				out = append(out, c.Retry.ID)
			}
		case *store.End:
			if c.Retry != nil {
				out = append(out, c.Retry.ID)
			}
		}
	}
	return out
}
