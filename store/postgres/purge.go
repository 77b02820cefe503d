package postgres

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/store"
)

// Each step deletes old rows of one kind, so that one that fails does not stop the others. If a table has no index for
// its step, the step walks the primary key: one call looks at no more than stretchMax rows, and the next call continues
// after them.

// stretchMax bounds the rows that a step looks at in one statement. After a failure the next statement looks at half as
// many.
const stretchMax = 20_000

// stretchMin is the lower bound of that.
const stretchMin = 50

// purgeSQL deletes ended executions with all their rows, after the cursor $1 and up to the horizon $2: an execution
// requested after that time cannot have ended before it. It counts them by when they were requested, the minutes in order, because another
// node may count in the same ones. It returns how many it looked at, up to where, and how many it deleted.
var purgeSQL = store.Statement(`WITH w AS MATERIALIZED (SELECT seq, id, requested_at FROM request WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3),
 v AS MATERIALIZED (SELECT e.id, e.seq, w.requested_at AS at FROM w JOIN execution e ON e.id = w.id
  WHERE e.status >= {completed} AND e.finished_at < $4 ORDER BY w.seq LIMIT $5 FOR UPDATE OF e SKIP LOCKED),
 l AS (DELETE FROM execution_label l USING v, request r, LATERAL jsonb_each_text(r.labels) k
  WHERE r.seq = v.seq AND r.labels IS NOT NULL AND l.key = k.key AND l.value = k.value AND l.seq = v.seq),
 o AS (DELETE FROM outcome o USING v WHERE o.seq = v.seq),
 p AS (DELETE FROM output w USING v WHERE w.seq = v.seq),
 x AS (DELETE FROM execution_event x USING v WHERE x.seq = v.seq),
 h AS (DELETE FROM webhook h USING v WHERE h.id = v.id),
 r AS (DELETE FROM request r USING v WHERE r.seq = v.seq),
 e AS (DELETE FROM execution e USING v WHERE e.id = v.id),
 c AS (INSERT INTO purged AS c (minute, n, edge, tail) SELECT m.minute, count(*), count(*) FILTER (WHERE at < m.minute + $6::interval),
   count(*) FILTER (WHERE at >= m.minute + interval '1 minute' - $7::interval)
   FROM v, date_bin('1 minute', at, '2000-01-01') m (minute) GROUP BY m.minute ORDER BY m.minute
  ON CONFLICT (minute) DO UPDATE SET n = c.n + excluded.n, edge = c.edge + excluded.edge, tail = c.tail + excluded.tail)
 SELECT (SELECT count(*) FROM w), (SELECT max(seq) FROM w), count(*), max(seq) FROM v`)

// For sessions after the cursor ($1, $2) that have not been used for long, purgeLanesSQL locks the lanes, as every
// submission to a session does. So purgeSessionsSQL, a later statement of the same transaction, sees whether an
// execution of the session waits or runs. If so the session stays, because it may have state to lose. A binding to an
// ended incarnation does not count. It looks at no more than 1,000 of a session's executions, of all pools. A session
// with more stays until some of them are purged. So no session delays those after it.
var (
	idleSessions = `WITH w AS MATERIALIZED (SELECT pool, session, worker_inc, touched_at FROM session
  WHERE (pool, session) > ($1, $2) ORDER BY pool, session LIMIT $3),
 i AS MATERIALIZED (SELECT w.pool, w.session FROM w WHERE w.touched_at < $4
  AND (w.worker_inc IS NULL OR NOT EXISTS (SELECT FROM node n WHERE n.incarnation = w.worker_inc AND n.state <> 'dead'))
  ORDER BY w.pool, w.session LIMIT $5)`
	purgeLanesSQL = idleSessions + ` SELECT 1 FROM i JOIN lane l ON l.pool = i.pool AND l.session = i.session
  ORDER BY i.pool, i.session FOR UPDATE OF l`
	purgeSessionsSQL = idleSessions + store.Statement(`,
 v AS MATERIALIZED (SELECT i.pool, i.session FROM i CROSS JOIN LATERAL
  (SELECT count(*) AS kept, coalesce(bool_or(e.pool = i.pool AND e.status < {completed}), false) AS used
   FROM (SELECT x.pool, x.status FROM execution x WHERE x.session = i.session ORDER BY x.seq LIMIT 1001) e) k
  WHERE k.kept <= 1000 AND NOT k.used),
 k AS (DELETE FROM session_snapshot k USING v WHERE k.pool = v.pool AND k.session = v.session),
 ta AS (DELETE FROM session_try t USING v WHERE t.pool = v.pool AND t.session = v.session),
 aa AS (DELETE FROM session_aside a USING v WHERE a.pool = v.pool AND a.session = v.session),
 l AS (DELETE FROM lane l USING v WHERE l.pool = v.pool AND l.session = v.session AND l.active = 0 AND l.head IS NULL),
 s AS (DELETE FROM session s USING v WHERE s.pool = v.pool AND s.session = v.session AND s.touched_at < $4 RETURNING 1)
`) + walkedTo + `, (SELECT count(*) FROM s)` + walkedFrom

	// walkedTo returns how many rows were looked at and up to where, and how many were taken and up to where.
	walkedTo   = ` SELECT (SELECT count(*) FROM w), lw.pool, lw.session, (SELECT count(*) FROM i), li.pool, li.session`
	walkedFrom = ` FROM (SELECT) one LEFT JOIN LATERAL (SELECT pool, session FROM w ORDER BY pool DESC, session DESC LIMIT 1) lw ON true
 LEFT JOIN LATERAL (SELECT pool, session FROM i ORDER BY pool DESC, session DESC LIMIT 1) li ON true`
)

// Lanes and snapshots without a session: the session was never bound, or an older version deleted it.
var (
	purgeLanesAloneSQL = `WITH w AS MATERIALIZED (SELECT pool, session, active, head FROM lane
  WHERE (pool, session) > ($1, $2) ORDER BY pool, session LIMIT $3),
 i AS MATERIALIZED (SELECT pool, session FROM w WHERE active = 0 AND head IS NULL
  AND NOT EXISTS (SELECT FROM session s WHERE s.pool = w.pool AND s.session = w.session) ORDER BY pool, session LIMIT $5),
 v AS MATERIALIZED (SELECT l.pool, l.session FROM i JOIN lane l ON l.pool = i.pool AND l.session = i.session
  WHERE l.active = 0 AND l.head IS NULL FOR UPDATE OF l SKIP LOCKED),
 s AS (DELETE FROM lane l USING v WHERE l.pool = v.pool AND l.session = v.session AND $4::timestamptz IS NOT NULL RETURNING 1)` +
		walkedTo + `, (SELECT count(*) FROM s)` + walkedFrom
	purgeSnapshotsSQL = `WITH w AS MATERIALIZED (SELECT pool, session FROM session_snapshot
  WHERE (pool, session) > ($1, $2) ORDER BY pool, session LIMIT $3),
 i AS MATERIALIZED (SELECT pool, session FROM w
  WHERE NOT EXISTS (SELECT FROM session s WHERE s.pool = w.pool AND s.session = w.session) ORDER BY pool, session LIMIT $5),
 s AS (DELETE FROM session_snapshot k USING i WHERE k.pool = i.pool AND k.session = i.session AND $4::timestamptz IS NOT NULL RETURNING 1)` +
		walkedTo + `, (SELECT count(*) FROM s)` + walkedFrom
)

// purgeInboxSQL deletes settled submissions after the cursor.
const purgeInboxSQL = `WITH w AS MATERIALIZED (SELECT id, state, settled_at FROM submission WHERE id > $1 ORDER BY id LIMIT $2),
 i AS MATERIALIZED (SELECT id FROM w WHERE state <> 'waiting' AND settled_at < $3 ORDER BY id LIMIT $4),
 s AS (DELETE FROM submission d USING i WHERE d.id = i.id)
 SELECT (SELECT count(*) FROM w), (SELECT id FROM w ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM i), (SELECT id FROM i ORDER BY id DESC LIMIT 1)`

// The kinds with an index: older than $1, at most $2 rows.
const (
	purgeLettersSQL   = "DELETE FROM dead_letter WHERE id IN (SELECT id FROM dead_letter WHERE at < $1 ORDER BY at LIMIT $2)"
	purgeEventsSQL    = "DELETE FROM worker_event WHERE n IN (SELECT n FROM worker_event WHERE at < $1 ORDER BY at LIMIT $2)"
	purgeRollupsSQL   = "DELETE FROM rollup WHERE ctid = ANY(ARRAY(SELECT ctid FROM rollup WHERE minute < $1 ORDER BY minute LIMIT $2))"
	purgeHoursSQL     = "DELETE FROM rollup_hour WHERE ctid = ANY(ARRAY(SELECT ctid FROM rollup_hour WHERE hour < $1 ORDER BY hour LIMIT $2))"
	purgeFoldsSQL     = "DELETE FROM rollup_fold WHERE hour IN (SELECT hour FROM rollup_fold WHERE hour < $1 ORDER BY hour LIMIT $2)"
	purgeKeyframesSQL = "DELETE FROM keyframe WHERE (incarnation, at) IN (SELECT incarnation, at FROM keyframe WHERE at < $1 ORDER BY at LIMIT $2)"
	purgeCountsSQL    = "DELETE FROM purged WHERE ctid = ANY(ARRAY(SELECT ctid FROM purged WHERE minute < $1 ORDER BY minute LIMIT $2 FOR UPDATE SKIP LOCKED))"
	// Of operations, what was never started is purged too.
	purgeOperationsSQL = "DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE created_at < $1 AND state NOT IN ('running', 'stopping') ORDER BY created_at LIMIT $2)"
	purgeJournalSQL    = "DELETE FROM journal WHERE (incarnation, number) IN (SELECT incarnation, number FROM journal WHERE at < $1 ORDER BY at LIMIT $2)"
	purgeNodesSQL      = "DELETE FROM node WHERE incarnation IN (SELECT incarnation FROM node WHERE state = 'dead' AND beat_at < $1 LIMIT $2)"
	// If no node can publish, the outbox keeps only notices of executions that still exist. Its first rows are the oldest.
	purgeNoticesSQL = `DELETE FROM outbox o USING (SELECT xid, n, at FROM outbox WHERE xid >= coalesce((SELECT pg_snapshot_xmin(told) FROM outbox_teller), '0')
  ORDER BY xid, n LIMIT $2) k WHERE k.at < $1 AND o.xid = k.xid AND o.n = k.n`
	// Workers are deleted after their nodes, of which there are few.
	purgeWorkersSQL = `DELETE FROM worker WHERE (incarnation, pool, slot) IN (SELECT incarnation, pool, slot FROM worker w
 WHERE NOT EXISTS (SELECT FROM node n WHERE n.incarnation = w.incarnation) AND coalesce(w.last_heartbeat, '-infinity') < $1 LIMIT $2)`
)

// Purge deletes one batch of each kind, at most p.Limit rows (1 to 10,000; 0: 1,000): ended executions, dead letters,
// worker events, sessions and nodes, with the rows that belong to them. Settled submissions are deleted by the age of
// executions. The error names a kind that failed; the others are deleted.
func (s *retention) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	p.Limit = min(p.Limit, 10_000)
	s.purges.mu.Lock()
	defer s.purges.mu.Unlock()
	var out store.Purged
	var errs []error
	for _, step := range s.purges.steps(p) {
		if step.before.IsZero() || ctx.Err() != nil {
			continue
		}
		done, err := step.do(ctx, s.core, step.before, p.Limit)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if step.counted {
			out.Rows += done.Rows
		}
		out.More = out.More || done.More
	}
	return out, errors.Join(append(errs, ctx.Err())...)
}
