package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

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
	return undone(items, s.pool.SendBatch(ctx, batch).Close())
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
