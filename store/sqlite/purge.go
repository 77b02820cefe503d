package sqlite

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/store"
)

// One purge looks at stretchesMax stretches of stretchMax rows, whatever it finds. The next one continues after them.
const (
	stretchMax   = 20_000
	stretchesMax = 5
)

// purger holds the positions of the walks over tables without an index for old rows.
type purger struct {
	mu       sync.Mutex // one purge at a time
	after    int64      // executions
	pool     string     // sessions
	session  string
	snapshot int64
}

// Purge deletes one batch of each kind, at most p.Limit rows (1 to 10,000; 0: 1,000). The freed pages are reused; the
// file does not shrink. The error names a kind that failed; the others are deleted.
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	p.Limit = min(p.Limit, 10_000)
	s.purges.mu.Lock()
	defer s.purges.mu.Unlock()
	steps := []struct {
		before time.Time
		do     func(ctx context.Context, before time.Time, limit int) (store.Purged, error)
	}{
		{p.FinishedBefore, s.purgeExecutions},
		{p.SessionsBefore, s.purgeSessions},
		{p.SessionsBefore, s.purgeSnapshots},
		{p.DeadLettersBefore, s.purgeBy("purge dead letters", "DELETE FROM dead_letter WHERE id IN (SELECT id FROM dead_letter WHERE at < ?1 ORDER BY at LIMIT ?2)")},
		{p.EventsBefore, s.purgeBy("purge worker events", "DELETE FROM worker_event WHERE n IN (SELECT n FROM worker_event WHERE at < ?1 ORDER BY at LIMIT ?2)")},
		{p.JournalBefore, s.purgeBy("purge the journal", `DELETE FROM journal WHERE (incarnation, number) IN
 (SELECT incarnation, number FROM journal WHERE at < ?1 ORDER BY at LIMIT ?2)`)},
		{p.MinutesBefore, s.purgeBy("purge rollups", `DELETE FROM rollup WHERE (minute, incarnation, pool, action, version, status, code) IN
 (SELECT minute, incarnation, pool, action, version, status, code FROM rollup WHERE minute < ?1 ORDER BY minute LIMIT ?2)`)},
		{p.HoursBefore, s.purgeBy("purge rollups of hours", `DELETE FROM rollup_hour WHERE (hour, pool, action, version, status, code) IN
 (SELECT hour, pool, action, version, status, code FROM rollup_hour WHERE hour < ?1 ORDER BY hour LIMIT ?2)`,
			"DELETE FROM rollup_fold WHERE hour IN (SELECT hour FROM rollup_fold WHERE hour < ?1 ORDER BY hour LIMIT ?2)",
			"DELETE FROM purged WHERE minute IN (SELECT minute FROM purged WHERE minute < ?1 ORDER BY minute LIMIT ?2)")},
		{p.JournalBefore, s.purgeBy("purge keyframes", `DELETE FROM keyframe WHERE (incarnation, at) IN
 (SELECT incarnation, at FROM keyframe WHERE at < ?1 ORDER BY at LIMIT ?2)`)},
		{p.JournalBefore, s.purgeBy("purge operations", `DELETE FROM operation WHERE id IN
 (SELECT id FROM operation WHERE created_at < ?1 AND state NOT IN ('running', 'stopping') ORDER BY created_at LIMIT ?2)`)},
		{p.NodesBefore, s.purgeBy("purge nodes", "DELETE FROM node WHERE incarnation IN (SELECT incarnation FROM node WHERE state = 'dead' AND beat_at < ?1 LIMIT ?2)",
			"DELETE FROM worker WHERE incarnation NOT IN (SELECT incarnation FROM node) AND beat_at < ?1 AND ?2 > 0")},
	}
	var out store.Purged
	var errs []error
	for _, step := range steps {
		if step.before.IsZero() || ctx.Err() != nil {
			continue
		}
		done, err := step.do(ctx, step.before, p.Limit)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Rows, out.More = out.Rows+done.Rows, out.More || done.More
	}
	return out, errors.Join(append(errs, ctx.Err())...)
}

// purgeBy is a step whose old rows are found by an index, or in a small table. The rows of its first statement count.
func (s *Store) purgeBy(what string, sql ...string) func(context.Context, time.Time, int) (store.Purged, error) {
	return func(ctx context.Context, before time.Time, limit int) (store.Purged, error) {
		var out store.Purged // no result by name: a return would write it, and the writer may still use it when ctx has ended
		err := s.write(ctx, what, limit, func(w *writer) error {
			out = store.Purged{}
			for i, statement := range sql {
				n, err := w.c.exec(statement, micros(before), int64(limit))
				if err != nil {
					return err
				}
				if i == 0 {
					out = store.Purged{Rows: int(n), More: int(n) >= limit}
				}
			}
			return nil
		})
		if err != nil {
			return store.Purged{}, err
		}
		return out, nil
	}
}

// oldExecution is an ended execution that is old enough to delete. An outcome never changes, so a reader may select it.
type oldExecution struct {
	seq, requested int64
	labels         []byte
}

func (s *Store) purgeExecutions(ctx context.Context, before time.Time, limit int) (store.Purged, error) {
	var old []oldExecution
	var next int64
	err := s.read(ctx, "look for old executions", func(c *conn) (err error) {
		old, next, err = ended(c, s.purges.after, before, limit)
		return err
	})
	if err != nil || len(old) == 0 {
		if err == nil {
			s.purges.after = next
		}
		return store.Purged{More: next > 0}, err
	}
	var n int
	err = s.write(ctx, "purge executions", limit, func(w *writer) error {
		n = 0
		var gone purgedMinutes
		for _, v := range old {
			deleted, err := w.deleteExecution(v)
			if err != nil {
				return err
			}
			if deleted > 0 {
				n += deleted
				gone.add(v.requested)
			}
		}
		if n > 0 {
			w.cache.dropEnded()
		}
		return gone.save(w)
	})
	if err != nil {
		return store.Purged{}, err // the writer may still use n
	}
	s.purges.after = next
	return store.Purged{Rows: n, More: next > 0}, nil
}

// endedSQL looks at one stretch after a seq. The last row says where it ended.
var endedSQL = store.Statement(`SELECT e.seq, r.requested_at, r.labels, e.status >= {completed} AND e.finished_at < ?3 FROM (SELECT seq, status, finished_at FROM execution NOT INDEXED
 WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?4) e CROSS JOIN request r ON r.seq = e.seq`)

// ended finds the oldest ended executions after a seq, and returns where the next look continues; 0: at the start,
// because this one reached the end. An execution requested after before cannot have ended before it, and requests are
// in order of time.
func ended(c *conn, after int64, before time.Time, limit int) (out []oldExecution, next int64, err error) {
	horizon, err := horizon(c, micros(before))
	if err != nil {
		return nil, 0, err
	}
	for range stretchesMax {
		looked, full := 0, false
		err = c.query(endedSQL, func(row row) error {
			v := scanner{row: row}
			seq, requested, labels, old := v.integer(), v.integer(), v.bytes(), v.boolean()
			looked++
			switch {
			case full:
			case old && len(out) >= limit:
				full = true
			default:
				if old {
					out = append(out, oldExecution{seq: seq, requested: requested, labels: labels})
				}
				after = seq
			}
			return v.err
		}, after, horizon, micros(before), int64(stretchMax))
		switch {
		case err != nil:
			return nil, 0, err
		case full:
			return out, after, nil
		case looked < stretchMax:
			return out, 0, nil
		}
	}
	return out, after, nil
}

// horizon returns the largest seq that was requested before the given time, by bisection.
func horizon(c *conn, before int64) (int64, error) {
	low, high := int64(0), int64(0)
	high, err := c.number("SELECT max(seq) FROM request")
	for err == nil && low < high {
		mid := low + (high-low+1)/2
		at, e := c.number("SELECT requested_at FROM request WHERE seq >= ? ORDER BY seq LIMIT 1", mid)
		err = e
		if at < before {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low, err
}

var deleteEnded = store.Statement("DELETE FROM execution WHERE seq = ? AND status >= {completed}")

// deleteExecution deletes an ended execution with all its rows, and returns how many executions it deleted.
func (w *writer) deleteExecution(v oldExecution) (int, error) {
	n, err := w.c.exec(deleteEnded, v.seq)
	if err != nil || n == 0 {
		return 0, err
	}
	// The highest assigned seq is stored, so that no seq is assigned twice.
	if err := w.exec("INSERT OR REPLACE INTO meta (name, value) VALUES ('seq', ?)", w.seq); err != nil {
		return 0, err
	}
	if len(v.labels) > 0 {
		if err := w.exec("DELETE FROM execution_label WHERE (key, value, seq) IN (SELECT key, value, ?2 FROM json_each(CAST(?1 AS TEXT)))", v.labels, v.seq); err != nil {
			return 0, err
		}
	}
	for _, sql := range []string{
		"DELETE FROM request WHERE seq = ?", "DELETE FROM outcome WHERE seq = ?", "DELETE FROM output WHERE seq = ?",
		"DELETE FROM execution_event WHERE seq = ?", "DELETE FROM notice WHERE seq = ?", "DELETE FROM webhook WHERE seq = ?",
	} {
		if err := w.exec(sql, v.seq); err != nil {
			return 0, err
		}
	}
	return int(n), nil
}
