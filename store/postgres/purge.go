package postgres

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/store"
)

// purgeSQL deletes ended executions with all that belongs to them. They are chosen in order of insertion below the
// horizon: what was requested after the moment cannot have ended before it.
const purgeSQL = `WITH v AS MATERIALIZED (SELECT e.id, e.seq FROM request r JOIN execution e ON e.id = r.id
  WHERE r.seq <= $1 AND e.status >= 6 AND e.finished_at < $2
  ORDER BY r.seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
 l AS (DELETE FROM execution_label l USING v, request r, LATERAL jsonb_each_text(r.labels) k
  WHERE r.seq = v.seq AND r.labels IS NOT NULL AND l.key = k.key AND l.value = k.value AND l.seq = v.seq),
 n AS (DELETE FROM notice n USING v WHERE n.id = v.id),
 o AS (DELETE FROM outcome o USING v WHERE o.seq = v.seq),
 w AS (DELETE FROM output w USING v WHERE w.seq = v.seq),
 x AS (DELETE FROM execution_event x USING v WHERE x.seq = v.seq),
 r AS (DELETE FROM request r USING v WHERE r.seq = v.seq)
 DELETE FROM execution e USING v WHERE e.id = v.id`

// purgeSteps delete the rest: what is older than $1, at most $2 rows. Rows of the steps that are not counted belong to
// rows that were.
var purgeSteps = []struct {
	before  func(p store.Purge) time.Time
	counted bool
	sql     string
}{
	{func(p store.Purge) time.Time { return p.DeadLettersBefore }, true,
		"DELETE FROM dead_letter WHERE id IN (SELECT id FROM dead_letter WHERE at < $1 ORDER BY at LIMIT $2)"},
	{func(p store.Purge) time.Time { return p.EventsBefore }, true,
		"DELETE FROM worker_event WHERE n IN (SELECT n FROM worker_event WHERE at < $1 ORDER BY at LIMIT $2)"},
	{func(p store.Purge) time.Time { return p.SessionsBefore }, true,
		"DELETE FROM session WHERE (pool, session) IN (SELECT pool, session FROM session WHERE worker_inc IS NULL AND touched_at < $1 LIMIT $2) AND worker_inc IS NULL AND touched_at < $1"},
	{func(p store.Purge) time.Time { return p.SessionsBefore }, false,
		`DELETE FROM session_snapshot k WHERE $1::timestamptz IS NOT NULL AND (k.pool, k.session) IN (SELECT pool, session FROM session_snapshot h
 WHERE NOT EXISTS (SELECT FROM session s WHERE s.pool = h.pool AND s.session = h.session) LIMIT $2)`},
	{func(p store.Purge) time.Time { return p.SessionsBefore }, false,
		`DELETE FROM lane k WHERE $1::timestamptz IS NOT NULL AND k.active = 0 AND k.head IS NULL AND (k.pool, k.session) IN (SELECT pool, session FROM lane h WHERE h.active = 0 AND h.head IS NULL
 AND NOT EXISTS (SELECT FROM session s WHERE s.pool = h.pool AND s.session = h.session) LIMIT $2)`},
	{func(p store.Purge) time.Time { return p.FinishedBefore }, false,
		"DELETE FROM submission WHERE id IN (SELECT id FROM submission WHERE state <> 'waiting' AND settled_at < $1 LIMIT $2)"},
	{func(p store.Purge) time.Time { return p.NodesBefore }, true,
		"DELETE FROM node WHERE incarnation IN (SELECT incarnation FROM node WHERE state = 'dead' AND beat_at < $1 LIMIT $2)"},
	{func(p store.Purge) time.Time { return p.NodesBefore }, false,
		`DELETE FROM worker WHERE (incarnation, pool, slot) IN (SELECT incarnation, pool, slot FROM worker w
 WHERE NOT EXISTS (SELECT FROM node n WHERE n.incarnation = w.incarnation) AND coalesce(w.last_heartbeat, '-infinity') < $1 LIMIT $2)`},
}

// Purge deletes one batch of each kind, at most p.Limit rows (1 to 10,000; 0: 1,000), and says how many rows went: ended
// executions, dead letters, worker events, sessions and nodes. What belongs to them goes with them. Settled submissions
// go by the age of executions.
func (s *Store) Purge(ctx context.Context, p store.Purge) (int, error) {
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	p.Limit = min(p.Limit, 10_000)
	total := 0
	if !p.FinishedBefore.IsZero() {
		horizon, err := s.horizon(ctx, p.FinishedBefore)
		if err != nil {
			return 0, err
		}
		n, err := s.exec(ctx, "purge executions", purgeSQL, horizon, p.FinishedBefore, p.Limit)
		if err != nil {
			return 0, err
		}
		total += n
	}
	for _, step := range purgeSteps {
		before := step.before(p)
		if before.IsZero() {
			continue
		}
		n, err := s.exec(ctx, "purge", step.sql, before, p.Limit)
		if err != nil {
			return total, err
		}
		if step.counted {
			total += n
		}
	}
	return total, nil
}

// horizon is a seq behind which nothing was requested before the moment, by bisection: seqs lie nearly in order of time,
// so that a few seconds are added for transactions that took their seq early.
func (s *Store) horizon(ctx context.Context, before time.Time) (int64, error) {
	var low, high int64
	err := s.query(ctx, "look for old executions", func(v *scanner) { high = v.integer() }, "SELECT max(seq) FROM request")
	before = before.Add(statementTimeout)
	for err == nil && low < high {
		mid := low + (high-low+1)/2
		var at time.Time
		err = s.query(ctx, "look for old executions", func(v *scanner) { at = v.time() },
			"SELECT requested_at FROM request WHERE seq >= $1 ORDER BY seq LIMIT 1", mid)
		if at.Before(before) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low, err
}
