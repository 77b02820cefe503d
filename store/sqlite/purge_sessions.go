package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/store"
)

// idle is the condition that a session was not used since ?3 and may be deleted: it is bound to no live incarnation,
// and none of its executions waits or runs, because that one may have to be told of lost state. It looks at no more
// than 1,000 of the session's executions, of all pools. A session with more stays until some of them are purged. So no
// session delays those after it.
var idle = store.Statement(`touched_at < ?3 AND (worker_inc IS NULL OR NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = worker_inc AND n.state <> 'dead'))
 AND (SELECT count(*) + 1001 * coalesce(max(e.pool = s.pool AND e.status < {completed}), 0) FROM
  (SELECT x.pool, x.status FROM execution x INDEXED BY execution_session WHERE x.session = s.session LIMIT 1001) e) <= 1000`)

var (
	sessionStretch = "SELECT pool, session, worker_inc, touched_at FROM session WHERE (pool, session) > (?1, ?2) ORDER BY pool, session LIMIT ?4"
	idleSessions   = "SELECT pool, session, " + idle + " FROM (" + sessionStretch + ") s"
	deleteSession  = "DELETE FROM session AS s WHERE pool = ?1 AND session = ?2 AND " + idle
)

// purgeSessions walks the sessions by name, one stretch in one call.
func (s *Store) purgeSessions(ctx context.Context, before time.Time, limit int) (store.Purged, error) {
	var old [][2]string
	stretch := min(4*limit, stretchMax)
	last, looked, full := [2]string{s.purges.pool, s.purges.session}, 0, false
	err := s.read(ctx, "look for idle sessions", func(c *conn) error {
		return c.query(idleSessions, func(row row) error {
			v := scanner{row: row}
			name := [2]string{v.text(), v.text()}
			looked++
			switch idle := v.boolean(); {
			case full:
			case idle && len(old) >= limit:
				full = true
			default:
				if idle {
					old = append(old, name)
				}
				last = name
			}
			return v.err
		}, last[0], last[1], micros(before), int64(stretch))
	})
	if err != nil {
		return store.Purged{}, err
	}
	n, err := s.deleteSessions(ctx, old, before)
	if err != nil {
		return store.Purged{}, err
	}
	more := full || looked >= stretch
	if !more {
		last = [2]string{}
	}
	s.purges.pool, s.purges.session = last[0], last[1]
	return store.Purged{Rows: n, More: more}, nil
}

func (s *Store) deleteSessions(ctx context.Context, names [][2]string, before time.Time) (int, error) {
	if len(names) == 0 {
		return 0, nil
	}
	var total int
	err := s.write(ctx, "purge sessions", len(names), func(w *writer) error {
		total = 0
		for _, name := range names {
			n, err := w.c.exec(deleteSession, name[0], name[1], micros(before))
			if err != nil {
				return err
			}
			for _, table := range []string{"session_snapshot", "session_try", "session_aside"} {
				if n > 0 && err == nil {
					err = w.exec("DELETE FROM "+table+" WHERE pool = ? AND session = ?", name[0], name[1])
				}
			}
			if total += int(n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err // the writer may still use total
	}
	return total, nil
}

// purgeSnapshots deletes snapshots without a session, left by an older version: one stretch in one call.
func (s *Store) purgeSnapshots(ctx context.Context, _ time.Time, limit int) (store.Purged, error) {
	var alone []int64
	next := int64(0)
	err := s.read(ctx, "look for old snapshots", func(c *conn) error {
		looked := 0
		err := c.query(`SELECT k.n, NOT EXISTS (SELECT 1 FROM session s WHERE s.pool = k.pool AND s.session = k.session)
 FROM (SELECT rowid AS n, pool, session FROM session_snapshot WHERE rowid > ?1 ORDER BY rowid LIMIT ?2) k`, func(row row) error {
			v := scanner{row: row}
			looked++
			if next = v.integer(); v.boolean() {
				alone = append(alone, next)
			}
			return v.err
		}, s.purges.snapshot, int64(limit))
		if looked < limit {
			next = 0
		}
		return err
	})
	if err == nil && len(alone) > 0 {
		err = s.write(ctx, "purge snapshots", len(alone), func(w *writer) error {
			for _, n := range alone {
				if err := w.exec(`DELETE FROM session_snapshot WHERE rowid = ?1
 AND NOT EXISTS (SELECT 1 FROM session s WHERE s.pool = session_snapshot.pool AND s.session = session_snapshot.session)`, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		s.purges.snapshot = next
	}
	return store.Purged{}, err
}
