package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// decideMax bounds how often a change is decided again because its row changed before it was written. Each time another
// change took effect.
const decideMax = 32

// foundRow is an execution as it was read, with the other facts for the decision.
type foundRow struct {
	store.Row
	facts store.Facts
	live  bool // whether the incarnation of the worker, or of the one that claims it, has a live lease
	at    time.Time
}

// liveNodes selects the incarnations with a live lease.
const liveNodes = `ARRAY(SELECT nd.incarnation FROM node nd WHERE nd.state <> 'dead' AND nd.lease_until > statement_timestamp())`

const foundRowsSQL = "SELECT " + recordColumns + ", CASE WHEN e.id = ANY($2) THEN r.parameters END, coalesce(e.result, o.result), coalesce(e.error, o.error), now()," +
	" l.active, s.epoch, s.worker_inc, s.worker_pool, s.worker_slot," +
	" coalesce(coalesce(e.worker_inc, (SELECT c.inc FROM unnest($2::uuid[], $3::uuid[]) AS c (id, inc) WHERE c.id = e.id LIMIT 1)) = ANY (" + liveNodes + "), false)" + recordFrom +
	` LEFT JOIN lane l ON l.pool = e.pool AND l.session = e.session LEFT JOIN session s ON s.pool = e.pool AND s.session = e.session WHERE e.id = ANY($1)`

// applyDecided makes the changes that the lean statements do not. It reads the rows without a lock, asks store.Decide,
// and writes by a compare-and-set. It repeats this for rows that changed meanwhile. So a process that freezes in
// between holds no lock.
func (s *applier) applyDecided(ctx context.Context, items []*item) error {
	for misses := 0; len(items) > 0; {
		rows, err := s.readRows(ctx, items)
		if err != nil {
			return err
		}
		round, rest := pick(items, sessionsOf(rows), func(*item) bool { return true })
		if err := s.applyRound(ctx, round, rows); err != nil {
			return err
		}
		missed := open(round)
		if misses++; len(missed) < len(round) {
			misses = 0
		}
		items = slices.Concat(missed, rest)
		if misses == decideMax {
			giveUp(items)
			return nil
		}
	}
	return nil
}

// open returns the changes without an answer.
func open(items []*item) (out []*item) {
	for _, it := range items {
		if !it.done && !it.noEffect {
			out = append(out, it)
		}
	}
	return out
}

// giveUp answers changes whose rows changed on every try.
func giveUp(items []*item) {
	for _, it := range items {
		it.noEffect = true
		it.out = store.Result{Verdict: store.Blocked, Err: fmt.Errorf("%s execution %s: %w: others changed it %d times while it was decided; it is repeated",
			it.change.Name(), it.id, store.ErrBlocked, decideMax)}
	}
}

// readRows reads the executions of the changes, without a lock.
func (s *applier) readRows(ctx context.Context, items []*item) (map[messages.ExecutionID]*foundRow, error) {
	ids := make([]messages.ExecutionID, 0, len(items))
	var claims []messages.ExecutionID
	var claimers column[pgtype.UUID]
	for _, it := range items {
		ids = append(ids, it.id)
		if c, ok := it.change.(*store.Claim); ok {
			claims, claimers = append(claims, it.id), append(claimers, uuidOf(c.Worker.Incarnation))
		}
	}
	rows := make(map[messages.ExecutionID]*foundRow, len(items))
	found, err := s.pool.Query(ctx, foundRowsSQL, idsOf(ids), idsOf(claims), claimers)
	if err != nil {
		return nil, err
	}
	err = each(found, func(sc *scanner) {
		var r record
		scanWhole(sc, &r)
		v := &foundRow{Row: r.Row, at: sc.time()}
		v.facts.Busy, v.facts.Held.Epoch = sc.integer() > 0, sc.integer()
		sc.id((*[16]byte)(&v.facts.Held.Worker.Incarnation))
		v.facts.Held.Worker.Pool, v.facts.Held.Worker.Slot = sc.text(), messages.Slot(sc.integer())
		if v.facts.Held.Worker.Incarnation.IsZero() {
			v.facts.Held.Worker = messages.WorkerKey{}
		}
		v.live = sc.boolean()
		v.facts.Fenced = !v.live
		rows[v.ID] = v
	})
	return rows, err
}

// sessionsOf returns the sessions of the executions that have one.
func sessionsOf(rows map[messages.ExecutionID]*foundRow) map[messages.ExecutionID]sessionKey {
	names := map[messages.ExecutionID]sessionKey{}
	for id, row := range rows {
		if row.Session != "" {
			names[id] = sessionKey{row.Pool, row.Session}
		}
	}
	return names
}

// pick takes the changes that fit and can share a transaction, in their order: one of each execution. A placement in a
// session shares it with no other change of that session, because it must see the changes before it. Names are the
// sessions of executions that have one.
func pick(items []*item, names map[messages.ExecutionID]sessionKey, fits func(*item) bool) (round, rest []*item) {
	const shared, closed = 1, 2
	used, sessions := make(map[messages.ExecutionID]bool, len(items)), map[sessionKey]int{}
	for _, it := range items {
		name, has := names[it.id]
		_, place := it.change.(*store.Place)
		state := sessions[name]
		if used[it.id] || !fits(it) || has && (state == closed || place && state == shared) {
			rest = append(rest, it)
			state = closed
		} else {
			round = append(round, it)
			state = shared
			if place {
				state = closed
			}
		}
		used[it.id] = true
		if has {
			sessions[name] = state
		}
	}
	return round, rest
}

// applyRound decides and writes changes of different executions. If one of them cannot be stored, it divides them until
// that one is alone.
func (s *applier) applyRound(ctx context.Context, round []*item, rows map[messages.ExecutionID]*foundRow) error {
	if len(round) == 0 {
		return nil
	}
	err := repeat(ctx, func() error { return s.writeRound(ctx, round, rows) })
	switch {
	case err == nil || !dataError(err):
		return err
	case len(round) == 1:
		it := round[0]
		it.noEffect, it.out = true, store.Result{Verdict: store.Refused, Status: rows[it.id].Status, Attempt: rows[it.id].Attempt, At: rows[it.id].at,
			Err: fmt.Errorf("%s execution %s: %w", it.change.Name(), it.id, err)}
		return nil
	}
	half := len(round) / 2
	if err := s.applyRound(ctx, round[:half], rows); err != nil {
		return err
	}
	return s.applyRound(ctx, round[half:], rows)
}

// writeRound decides the changes and writes them in one transaction, without a pause in it. Changes whose rows changed
// meanwhile stay open.
func (s *applier) writeRound(ctx context.Context, round []*item, rows map[messages.ExecutionID]*foundRow) error {
	batch, w := &pgx.Batch{}, &writes{s: s.write}
	for _, it := range round {
		row := rows[it.id]
		if row == nil {
			it.noEffect, it.out = true, store.Result{Verdict: store.Missing}
			continue
		}
		d := store.Decide(&row.Row, &row.facts, it.change, row.at)
		if d.Verdict == store.Applied {
			w.add(it, row, &d)
			continue
		}
		it.answer(&d, row.at)
		if d.Event.Kind == store.StaleWrite && s.keepsStale(it) {
			queueStale(batch, row.Seq, &d.Event)
		}
	}
	w.queue(batch)
	if batch.Len() == 0 {
		return nil
	}
	return undone(round, s.pool.SendBatch(ctx, batch).Close())
}

// answer sets the result of the change.
func (it *item) answer(d *store.Decision, at time.Time) {
	it.done, it.noEffect = d.Verdict == store.Applied, d.Verdict != store.Applied
	it.out = store.Result{Verdict: d.Verdict, Status: d.Next.Status, Attempt: d.Next.Attempt, At: at, Err: d.Err}
	if d.Carry {
		e := d.Next.Execution
		e.Error = store.DecodeError(store.EncodeError(e.Error))
		it.out.Execution = &e
	}
}

// keepsStale reports whether a stale change is stored as an event. If several routers look at one pool, most placements
// that fail are of executions that another router placed. They are stored only if all events are.
func (s *applier) keepsStale(it *item) bool {
	p, ok := it.change.(*store.Place)
	return !ok || p.Session != nil || s.cfg.EventsAll
}

const staleSQL = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker)
 SELECT $1::bigint, $2::timestamptz, $3::int, $4::text, $5::smallint, $5, $6::text, $7::text
 WHERE (SELECT count(*) FROM (SELECT 1 FROM execution_event WHERE seq = $1 AND kind = $4 LIMIT $8) f) < $8`

func queueStale(batch *pgx.Batch, seq int64, v *store.Event) {
	batch.Queue(staleSQL, seq, timeOf(v.At), int32(v.Attempt), v.Kind, int16(v.From), textOf(v.Reason), textOf(v.Worker), int64(store.StaleWritesMax))
}
