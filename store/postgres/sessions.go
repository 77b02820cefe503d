package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const sessionColumns = `SELECT s.pool, s.session, s.epoch, s.worker_inc, s.worker_pool, s.worker_slot, s.finished_epoch, s.bound_at,
 s.touched_at, s.snapshot_epoch, s.started_epoch, s.runs, s.snapshot_runs FROM session s`

func (s *sessionRows) sessions(ctx context.Context, what, sql string, args ...any) ([]store.Session, error) {
	var found []store.Session
	err := s.query(ctx, what, func(v *scanner) {
		var out store.Session
		out.Pool, out.Session, out.Epoch = v.text(), v.text(), v.integer()
		v.id((*[16]byte)(&out.Worker.Incarnation))
		out.Worker.Pool, out.Worker.Slot = v.text(), messages.Slot(v.integer())
		if out.Worker.Incarnation.IsZero() {
			out.Worker = messages.WorkerKey{}
		}
		out.FinishedEpoch, out.BoundAt, out.TouchedAt, out.SnapshotEpoch = v.integer(), v.time(), v.time(), v.integer()
		out.StartedEpoch, out.Runs, out.SnapshotRuns = v.integer(), v.integer(), v.integer()
		found = append(found, out)
	}, sql, args...)
	return found, err
}

// boundAll and boundEnded start from the incarnations that live, or that are declared dead and not purged, which are few, and find the
// sessions bound to their workers.
const (
	boundPage = " ORDER BY s.worker_slot, s.session LIMIT $5"
	boundTo   = sessionColumns + ` WHERE s.worker_inc IS NOT NULL AND s.pool = $1 `
	boundAll  = `SELECT b.* FROM node n CROSS JOIN LATERAL (` + boundTo + `AND s.worker_inc = n.incarnation
  AND (s.worker_slot, s.session) > (CASE WHEN n.incarnation = $2 THEN $3::int ELSE -1 END, CASE WHEN n.incarnation = $2 THEN $4::text ELSE '' END)` + boundPage + `) b
` + boundLive + `n.incarnation >= $2 ORDER BY n.incarnation, b.worker_slot, b.session LIMIT $5`
	boundLive = " WHERE n.state <> 'dead' AND "
	boundOne  = boundTo + `AND s.worker_inc = $2 AND s.worker_slot = $3 AND s.session > $4` + boundPage
)

var boundEnded = strings.Replace(boundAll, boundLive, " WHERE n.state = 'dead' AND ", 1)

// BoundSessions implements store.Store.
func (s *sessionRows) BoundSessions(ctx context.Context, q store.BoundQuery) ([]store.Session, error) {
	if q.Limit <= 0 || q.Limit > store.BoundMax {
		q.Limit = store.BoundMax
	}
	sql, from := boundAll, q.After.Worker
	if q.Ended {
		sql = boundEnded
	}
	if !q.Worker.Incarnation.IsZero() {
		sql, from = boundOne, q.Worker
	} else if from.Incarnation.IsZero() {
		from.Slot = -1
	}
	inc := uuidOf(from.Incarnation)
	inc.Valid = true // the zero id is before all others
	return s.sessions(ctx, "load bound sessions", sql, encodeText(q.Pool), inc, int32(from.Slot), encodeText(q.After.Session), q.Limit)
}

// GetSession returns one session, or store.ErrNotFound.
func (s *sessionRows) GetSession(ctx context.Context, pool, session string) (store.Session, error) {
	found, err := s.sessions(ctx, "get session", sessionColumns+" WHERE s.pool = $1 AND s.session = $2", encodeText(pool), encodeText(session))
	if err != nil {
		return store.Session{}, err
	}
	if len(found) == 0 {
		return store.Session{}, fmt.Errorf("session %q of pool %q: %w", session, pool, store.ErrNotFound)
	}
	return found[0], nil
}

// ListSessions implements store.Store.
func (s *sessionRows) ListSessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error) {
	pool, name := f.Position(after)
	q := sessionQuery{f: &f, args: []any{encodeText(pool), encodeText(name), pageSize(limit)}}
	if len(f.Names) > 0 || len(f.NotPools) > 0 || len(f.Pools) > 1 {
		sql := q.byName()
		return s.sessions(ctx, "list sessions", sql, q.args...)
	}
	sql := sessionColumns + " WHERE (s.pool, s.session) > ($1, $2)" + q.bound()
	if f.Only() != "" {
		sql += " AND s.pool = $1"
	}
	return s.sessions(ctx, "list sessions", sql+" ORDER BY s.pool, s.session LIMIT $3", q.args...)
}

// sessionQuery is the statement of a list of sessions. Its first parameters are the position, $1 and $2, and the size of the page.
type sessionQuery struct {
	f    *store.SessionFilter
	args []any
}

func (q *sessionQuery) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

// bound is the condition on the bindings of sessions.
func (q *sessionQuery) bound() (sql string) {
	if q.f.Bound {
		sql += " AND s.worker_inc IS NOT NULL"
	}
	if q.f.Unbound {
		sql += " AND s.worker_inc IS NULL"
	}
	return sql
}

// byName reads ranges of the index session_name in each pool.
func (q *sessionQuery) byName() string {
	ranges, parts := q.f.Names, []string(nil)
	if len(ranges) == 0 {
		ranges = []store.NameRange{{}}
	}
	for _, r := range ranges {
		from, end := q.arg(encodeText(r.From))+"::text", ""
		if r.To != "" {
			end = ` AND s.session COLLATE "C" < ` + q.arg(encodeText(r.To))
		}
		parts = append(parts, "("+sessionColumns+` WHERE s.pool = p.pool
 AND s.session COLLATE "C" >= CASE WHEN p.pool = $1 THEN greatest($2::text COLLATE "C", `+from+`) ELSE `+from+` END
 AND (p.pool > $1 OR s.session <> $2)`+end+q.bound()+` ORDER BY s.session COLLATE "C" LIMIT $3)`)
	}
	return q.pools() + "SELECT s.* FROM p CROSS JOIN LATERAL (" + strings.Join(parts, " UNION ALL ") + `) s
 ORDER BY s.pool, s.session COLLATE "C" LIMIT $3`
}

// pools are those that the list is of, from that of the position on: p.
func (q *sessionQuery) pools() string {
	switch {
	case q.f.Only() != "" && len(q.f.NotPools) == 0:
		return "WITH p (pool) AS (VALUES ($1::text)) "
	case len(q.f.Pools) > 0:
		wanted := slices.DeleteFunc(slices.Clone(q.f.Pools), func(pool string) bool { return !q.f.HasPool(pool) })
		slices.Sort(wanted)
		return "WITH p (pool) AS (SELECT u.pool FROM unnest(" + q.arg(encodeTexts(slices.Compact(wanted))) + "::text[]) AS u (pool) WHERE u.pool >= $1) "
	}
	return `WITH RECURSIVE all_pools (pool) AS ((SELECT s.pool FROM session s WHERE s.pool >= $1 ORDER BY s.pool LIMIT 1)
 UNION ALL SELECT (SELECT s.pool FROM session s WHERE s.pool > a.pool ORDER BY s.pool LIMIT 1) FROM all_pools a WHERE a.pool IS NOT NULL),
 p (pool) AS (SELECT a.pool FROM all_pools a WHERE a.pool <> ALL(` + q.arg(append([]string{}, encodeTexts(q.f.NotPools)...)) + "::text[])) "
}

// Unbind ends those of the bindings that have not changed.
func (s *sessionRows) Unbind(ctx context.Context, bindings []store.Binding) (int, error) {
	pools, sessions, epochs := make([]string, len(bindings)), make([]string, len(bindings)), make([]int64, len(bindings))
	incs, on, slots := make(column[pgtype.UUID], len(bindings)), make([]string, len(bindings)), make([]int32, len(bindings))
	for i, b := range bindings {
		pools[i], sessions[i], epochs[i] = encodeText(b.Pool), encodeText(b.Session), b.Epoch
		incs[i], on[i], slots[i] = uuidOf(b.Worker.Incarnation), encodeText(b.Worker.Pool), int32(b.Worker.Slot)
	}
	return s.exec(ctx, "unbind sessions", `UPDATE session s SET worker_inc = NULL, worker_pool = NULL, worker_slot = 0
 FROM (SELECT h.pool, h.session, i.epoch, i.inc, i.worker_pool, i.slot FROM session h
   JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::int[]) AS i (pool, session, epoch, inc, worker_pool, slot)
   ON h.pool = i.pool AND h.session = i.session AND h.epoch = i.epoch ORDER BY 1, 2 FOR UPDATE OF h) d
 WHERE s.pool = d.pool AND s.session = d.session AND s.epoch = d.epoch AND s.worker_inc = d.inc AND s.worker_pool = d.worker_pool
  AND s.worker_slot = d.slot`, pools, sessions, epochs, incs, on, slots)
}

// SaveSnapshot stores a session's state with its epoch and the runs that it includes. A snapshot that is older than the
// stored one, or of another epoch than the session's, is ignored. ErrNotFound: the session does not exist.
func (s *sessionRows) SaveSnapshot(ctx context.Context, ref store.SessionRef, state json.RawMessage) error {
	found := false
	if state == nil {
		state = json.RawMessage{}
	}
	err := s.query(ctx, "save snapshot", func(*scanner) { found = true }, `WITH u AS (UPDATE session
  SET snapshot_epoch = $3, snapshot_runs = least(bound_runs + $5, runs) WHERE pool = $1 AND session = $2 AND epoch = $3
   AND (snapshot_epoch, snapshot_runs) <= ($3, least(bound_runs + $5, runs)) RETURNING pool, session),
 i AS (INSERT INTO session_snapshot (pool, session, epoch, state) SELECT pool, session, $3, $4 FROM u
  ON CONFLICT (pool, session) DO UPDATE SET epoch = excluded.epoch, state = excluded.state)
 SELECT 1 FROM session WHERE pool = $1 AND session = $2`, encodeText(ref.Pool), encodeText(ref.Session), ref.Epoch, []byte(state), ref.Runs)
	if err == nil && !found {
		err = fmt.Errorf("session %q of pool %q: %w", ref.Session, ref.Pool, store.ErrNotFound)
	}
	return err
}

// Snapshot returns the stored state and its epoch.
func (s *sessionRows) Snapshot(ctx context.Context, pool, session string) (json.RawMessage, int64, error) {
	var state []byte
	var epoch int64
	found := false
	err := s.query(ctx, "read snapshot", func(v *scanner) { found, state, epoch = true, v.bytes(), v.integer() },
		"SELECT state, epoch FROM session_snapshot WHERE pool = $1 AND session = $2", encodeText(pool), encodeText(session))
	if err == nil && !found {
		err = fmt.Errorf("snapshot of session %q of pool %q: %w", session, pool, store.ErrNotFound)
	}
	return state, epoch, err
}
