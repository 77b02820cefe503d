package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const sessionColumns = `SELECT s.pool, s.session, s.epoch, s.worker_inc, s.worker_pool, s.worker_slot, s.finished_epoch, s.bound_at,
 s.touched_at, s.snapshot_epoch, s.started_epoch, s.runs, s.snapshot_runs FROM session s`

func scanSession(row row, out *store.Session) error {
	v := scanner{row: row}
	out.Pool, out.Session, out.Epoch = v.text(), v.text(), v.integer()
	v.id((*[16]byte)(&out.Worker.Incarnation))
	out.Worker.Pool, out.Worker.Slot = v.text(), messages.Slot(v.integer())
	if out.Worker.Incarnation.IsZero() {
		out.Worker = messages.WorkerKey{}
	}
	out.FinishedEpoch, out.BoundAt, out.TouchedAt, out.SnapshotEpoch = v.integer(), v.time(), v.time(), v.integer()
	out.StartedEpoch, out.Runs, out.SnapshotRuns = v.integer(), v.integer(), v.integer()
	return v.err
}

func readSessions(c *conn, sql string, args ...any) ([]store.Session, error) {
	var out []store.Session
	err := c.query(sql, func(row row) error {
		var s store.Session
		err := scanSession(row, &s)
		out = append(out, s)
		return err
	}, args...)
	return out, err
}

// factsFor reads the execution's session if the decision needs it; nil: it does not.
func (w *writer) factsFor(c store.Change, r *record) (*store.Facts, error) {
	if !store.NeedsSession(&r.Row, c) {
		return nil, nil
	}
	found, err := readSessions(w.c, sessionColumns+" WHERE s.pool = ? AND s.session = ?", r.Pool, r.Session)
	if err != nil {
		return nil, err
	}
	w.facts = store.Facts{}
	if len(found) > 0 {
		w.facts.Held = found[0]
	}
	if r.Status >= messages.Scheduled || !r.Strict() {
		return &w.facts, nil
	}
	other, err := w.c.number("SELECT seq FROM busy WHERE pool = ? AND session = ? LIMIT 1", r.Pool, r.Session)
	w.facts.Busy = other != 0
	return &w.facts, err
}

// session writes the change's effect on the execution's session.
func (w *writer) session(d *store.Decision) error {
	n := &d.Next
	switch d.Session {
	case store.SessionBound:
		return w.exec(`INSERT INTO session (pool, session, epoch, worker_inc, worker_pool, worker_slot, finished_epoch, bound_at, touched_at, snapshot_epoch)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?7, 0)
 ON CONFLICT (pool, session) DO UPDATE SET epoch = ?3, worker_inc = ?4, worker_pool = ?5, worker_slot = ?6, bound_at = ?7,
 touched_at = ?7, bound_runs = runs`,
			n.Pool, n.Session, n.SessionEpoch, n.Worker.Incarnation[:], n.Worker.Pool, int64(n.Worker.Slot), micros(w.now))
	case store.SessionStarted:
		return w.exec("UPDATE session SET started_epoch = ? WHERE pool = ? AND session = ? AND started_epoch = 0", n.SessionEpoch, n.Pool, n.Session)
	case store.SessionFinished:
		return w.sessionFinished(n)
	}
	return nil
}

func (w *writer) sessionFinished(n *store.Row) error {
	sql := "UPDATE session SET finished_epoch = max(finished_epoch, ?), runs = runs + ?, touched_at = ? WHERE pool = ? AND session = ?"
	args := []any{n.SessionEpoch, flags(store.LeavesState(n.Status)), micros(w.now), n.Pool, n.Session}
	if n.Affinity == messages.AffinityHint {
		sql += " AND worker_inc = ? AND worker_pool = ? AND worker_slot = ?"
		args = append(args, n.Worker.Incarnation[:], n.Worker.Pool, int64(n.Worker.Slot))
	}
	return w.exec(sql, args...)
}

// The bound sessions of one incarnation (?2), after a position if that is in it, and of one worker.
const (
	boundTo = sessionColumns + ` INDEXED BY session_bound WHERE s.worker_inc IS NOT NULL AND s.pool = ?1 AND s.worker_inc = ?2 `
	boundBy = boundTo + "AND (s.worker_slot, s.session) > (?3, ?4) ORDER BY s.worker_slot, s.session LIMIT ?5"
	boundOn = boundTo + "AND s.worker_slot = ?3 AND s.session > ?4 ORDER BY s.session LIMIT ?5"
)

// BoundSessions implements store.Store. One incarnation lives.
func (s *Store) BoundSessions(ctx context.Context, q store.BoundQuery) ([]store.Session, error) {
	if q.Limit <= 0 || q.Limit > store.BoundMax {
		q.Limit = store.BoundMax
	}
	var out []store.Session
	err := s.read(ctx, "load bound sessions", func(c *conn) (err error) {
		out = nil
		if w := q.Worker; !w.Incarnation.IsZero() {
			out, err = readSessions(c, boundOn, q.Pool, w.Incarnation[:], int64(w.Slot), q.After.Session, int64(q.Limit))
			return err
		}
		incarnations, err := incarnationsBy(c, q.Ended)
		for _, inc := range incarnations {
			if err != nil || len(out) >= q.Limit {
				return err
			}
			slot, name := int64(-1), ""
			switch order := bytes.Compare(inc[:], q.After.Worker.Incarnation[:]); {
			case order < 0:
				continue
			case order == 0:
				slot, name = int64(q.After.Worker.Slot), q.After.Session
			}
			var more []store.Session
			more, err = readSessions(c, boundBy, q.Pool, inc[:], slot, name, int64(q.Limit-len(out)))
			out = append(out, more...)
		}
		return err
	})
	return out, err
}

// incarnationsBy returns the incarnations that are declared dead, or the others.
func incarnationsBy(c *conn, dead bool) (all []messages.Incarnation, err error) {
	err = c.query("SELECT incarnation FROM node WHERE (state = 'dead') = ? ORDER BY incarnation", func(row row) error {
		v := scanner{row: row}
		var inc messages.Incarnation
		v.id((*[16]byte)(&inc))
		all = append(all, inc)
		return v.err
	}, flags(dead))
	return all, err
}

// GetSession returns one session, or store.ErrNotFound.
func (s *Store) GetSession(ctx context.Context, pool, session string) (store.Session, error) {
	var found []store.Session
	err := s.read(ctx, "get session", func(c *conn) (err error) {
		found, err = readSessions(c, sessionColumns+" WHERE s.pool = ? AND s.session = ?", pool, session)
		return err
	})
	if err != nil {
		return store.Session{}, err
	}
	if len(found) == 0 {
		return store.Session{}, fmt.Errorf("session %q of pool %q: %w", session, pool, store.ErrNotFound)
	}
	return found[0], nil
}

// ListSessions implements store.Store.
func (s *Store) ListSessions(ctx context.Context, f store.SessionFilter, after string, limit int) (out []store.Session, err error) {
	limit = pageSize(limit)
	err = s.read(ctx, "list sessions", func(c *conn) (err error) {
		if len(f.Names) == 0 && len(f.NotPools) == 0 && len(f.Pools) < 2 {
			out, err = listSessions(c, &f, after, limit)
		} else {
			out, err = sessionsByName(c, &f, after, limit)
		}
		return err
	})
	return out, err
}

// boundOnly is the condition of a filter on the bindings of sessions.
func boundOnly(f *store.SessionFilter) (sql string) {
	if f.Bound {
		sql += " AND s.worker_inc IS NOT NULL"
	}
	if f.Unbound {
		sql += " AND s.worker_inc IS NULL"
	}
	return sql
}

func listSessions(c *conn, f *store.SessionFilter, after string, limit int) ([]store.Session, error) {
	pool, name := f.Position(after)
	sql, args := sessionColumns+" WHERE (s.pool, s.session) > (?, ?)", []any{pool, name}
	if f.Only() != "" {
		sql, args = sql+" AND s.pool = ?", append(args, pool)
	}
	if after == "" && f.Only() != "" {
		sql, args = sessionColumns+" WHERE s.pool = ?", []any{pool}
	}
	return readSessions(c, sql+boundOnly(f)+" ORDER BY s.pool, s.session LIMIT ?", append(args, int64(limit))...)
}

// sessionsByName reads ranges of the primary key in each pool, one after the other.
func sessionsByName(c *conn, f *store.SessionFilter, after string, limit int) (out []store.Session, err error) {
	pool, name := f.Position(after)
	for {
		if f.Only() == "" {
			next, err := readBlob(c, "SELECT min(pool) FROM session WHERE pool >= ?", pool)
			if err != nil || next == nil {
				return out, err
			}
			if string(next) != pool {
				pool, name = string(next), ""
			}
		}
		if f.HasPool(pool) {
			page, err := sessionsOfPool(c, f, pool, name, limit-len(out))
			if out = append(out, page...); err != nil || len(out) == limit {
				return out, err
			}
		}
		if f.Only() != "" {
			return out, nil
		}
		pool, name = pool+"\x00", "" // behind it
	}
}

// sessionsOfPool reads the ranges of one pool, behind a name.
func sessionsOfPool(c *conn, f *store.SessionFilter, pool, name string, limit int) (out []store.Session, err error) {
	ranges := f.Names
	if len(ranges) == 0 {
		ranges = []store.NameRange{{}}
	}
	for _, r := range ranges {
		sql, args := sessionColumns+" WHERE s.pool = ? AND s.session >= ?", []any{pool, r.From}
		if name != "" && name >= r.From {
			sql, args = sessionColumns+" WHERE s.pool = ? AND s.session > ?", []any{pool, name}
		}
		if r.To != "" {
			sql, args = sql+" AND s.session < ?", append(args, r.To)
		}
		page, err := readSessions(c, sql+boundOnly(f)+" ORDER BY s.session LIMIT ?", append(args, int64(limit-len(out)))...)
		if out = append(out, page...); err != nil || len(out) == limit {
			return out, err
		}
	}
	return out, nil
}

// Unbind ends those of the bindings that have not changed.
func (s *Store) Unbind(ctx context.Context, bindings []store.Binding) (int, error) {
	var n int
	err := s.write(ctx, "unbind sessions", len(bindings), func(w *writer) error {
		n = 0
		for _, b := range bindings {
			k, err := w.c.exec("UPDATE session SET worker_inc = NULL, worker_pool = NULL, worker_slot = 0 WHERE pool = ? AND session = ? AND epoch = ? AND worker_inc = ? AND worker_pool = ? AND worker_slot = ?",
				b.Pool, b.Session, b.Epoch, b.Worker.Incarnation[:], b.Worker.Pool, int64(b.Worker.Slot))
			if err != nil {
				return err
			}
			n += int(k)
		}
		return nil
	})
	if err != nil {
		return 0, err // the writer may still use n
	}
	return n, nil
}

// SaveSnapshot stores a session's state with its epoch and the runs that it includes. A snapshot that is older than the
// stored one, or of another epoch than the session's, is ignored. ErrNotFound: the session does not exist.
func (s *Store) SaveSnapshot(ctx context.Context, ref store.SessionRef, state json.RawMessage) error {
	return s.write(ctx, "save snapshot", 1, func(w *writer) error {
		has, err := w.c.number("SELECT 1 FROM session WHERE pool = ? AND session = ?", ref.Pool, ref.Session)
		if err != nil {
			return err
		}
		if has == 0 {
			return ofCall(fmt.Errorf("session %q of pool %q: %w", ref.Session, ref.Pool, store.ErrNotFound))
		}
		n, err := w.c.exec(`UPDATE session SET snapshot_epoch = ?1, snapshot_runs = min(bound_runs + ?4, runs)
 WHERE pool = ?2 AND session = ?3 AND epoch = ?1 AND (snapshot_epoch, snapshot_runs) <= (?1, min(bound_runs + ?4, runs))`,
			ref.Epoch, ref.Pool, ref.Session, ref.Runs)
		if err != nil || n == 0 {
			return err
		}
		return w.exec("INSERT OR REPLACE INTO session_snapshot (pool, session, epoch, state) VALUES (?, ?, ?, ?)",
			ref.Pool, ref.Session, ref.Epoch, notNil(state))
	})
}

// Snapshot returns the stored state and its epoch.
func (s *Store) Snapshot(ctx context.Context, pool, session string) (json.RawMessage, int64, error) {
	var state []byte
	var epoch int64
	found := false
	err := s.read(ctx, "read snapshot", func(c *conn) error {
		err := c.query("SELECT state, epoch FROM session_snapshot WHERE pool = ? AND session = ?", func(row row) error {
			v := scanner{row: row}
			found, state, epoch = true, v.bytes(), v.integer()
			return v.err
		}, pool, session)
		if err == nil && !found {
			err = fmt.Errorf("snapshot of session %q of pool %q: %w", session, pool, store.ErrNotFound)
		}
		return err
	})
	return state, epoch, err
}

func notNil[T ~[]byte](b T) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// pageSize bounds a page: 1 to 1000; 100 if limit is 0.
func pageSize(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}
