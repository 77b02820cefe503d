package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The lean statements of executions with a session. Their transaction has locked the session's lane and row.

// boundSQL places executions with a session.
var boundSQL = store.Statement(`WITH i AS MATERIALIZED (
 SELECT i.*, e.session FROM unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::text[], $7::uuid[], $8::interval[], $9::text[],
   $10::text[], $11::text[], $12::bigint[], $13::boolean[], $14::boolean[], $15::boolean[])
   AS i (n, id, attempt, inc, slot, worker, placed_by, within, pool, in_pool, in_session, epoch, bind, lost, hit)
 JOIN execution e ON e.id = i.id JOIN request r ON r.seq = e.seq
 LEFT JOIN lane l ON l.pool = e.pool AND l.session = e.session LEFT JOIN session s ON s.pool = e.pool AND s.session = e.session
 WHERE e.status IN ({requested}, {scheduling}) AND e.attempt = i.attempt AND e.pool = i.pool AND e.session = i.in_session AND e.pool = i.in_pool
  AND (coalesce(r.affinity, '') NOT LIKE 'strict%' OR l.active = 0)
  AND CASE WHEN i.bind THEN i.epoch > coalesce(s.epoch, 0) WHEN r.affinity = 'hint' AND NOT i.hit THEN true
   ELSE s.epoch = i.epoch AND s.worker_inc = i.inc AND s.worker_pool = i.pool AND s.worker_slot = i.slot END),
 b AS (INSERT INTO session (pool, session, epoch, worker_inc, worker_pool, worker_slot, bound_at, touched_at)
  SELECT pool, session, epoch, inc, pool, slot, now(), now() FROM i WHERE bind
  ON CONFLICT (pool, session) DO UPDATE SET epoch = excluded.epoch, worker_inc = excluded.worker_inc, worker_pool = excluded.worker_pool,
   worker_slot = excluded.worker_slot, bound_at = now(), touched_at = now(), bound_runs = session.runs) `) +
	placeSet + store.Statement(`session_epoch = i.epoch, session_lost = i.lost, session_hit = i.hit
 FROM i WHERE e.id = i.id AND e.status IN ({requested}, {scheduling}) AND e.attempt = i.attempt RETURNING i.n, e.attempt, now()`)

func (s *statements) queueBound(batch *pgx.Batch, c *changes, part []int) {
	bind, lost, hit := make([]bool, len(part)), make([]bool, len(part)), make([]bool, len(part))
	pools, sessions, epochs := make(column[pgtype.Text], len(part)), make(column[pgtype.Text], len(part)), make([]int64, len(part))
	for k, i := range part {
		u := c.items[i].change.(*store.Place).Session
		bind[k], lost[k], hit[k] = u.Bind, u.Lost, u.Hit
		pools[k], sessions[k], epochs[k] = textOf(u.Pool), textOf(u.Session), u.Epoch
		s.known.add(c.items[i].id, sessionKey{u.Pool, u.Session})
	}
	args := append(c.placeArgs(part), pools, sessions, epochs, bind, lost, hit)
	batch.Queue(boundSQL, args...).Query(c.placed)
}

// claimBound rejects the claim of a run with a session's state if its binding has ended since the placement: the
// process that had the state is gone, and the run would not be told.
const claimBound = ` AND (NOT e.session_hit OR e.session_epoch = 0 OR EXISTS (SELECT 1 FROM session s WHERE s.pool = e.pool
 AND s.session = e.session AND s.epoch = e.session_epoch AND s.worker_inc = e.worker_inc AND s.worker_slot = e.worker_slot))`

// startedSQL records that a run with the session's state may begin. It has an effect once for a session.
var startedSQL = store.Statement(`UPDATE session s SET started_epoch = e.session_epoch FROM execution e WHERE e.id = ANY($1) AND e.status = {running}
 AND e.last_change = {claim} AND e.session_hit AND e.session_epoch > 0 AND s.pool = e.pool AND s.session = e.session AND s.started_epoch = 0`)

// leaving are the statuses of runs that left their session's state with the worker.
var leaving = func() (out []int16) {
	for _, s := range messages.Statuses() {
		if store.LeavesState(s) {
			out = append(out, int16(s))
		}
	}
	return out
}()
