package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/store"
)

// Purge deletes one batch of each kind, at most p.Limit rows (1 to 10,000; 0: 1,000), and says how many rows went. The
// pages that it frees are used again; the file does not shrink.
func (s *Store) Purge(ctx context.Context, p store.Purge) (int, error) {
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	p.Limit = min(p.Limit, 10_000)
	var victims []victim
	err := s.read(ctx, "look for old executions", func(c *conn) (err error) {
		victims, err = ended(c, p.FinishedBefore, p.Limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	var n int
	err = s.write(ctx, "purge", p.Limit, func(w *writer) error {
		n = 0
		for _, v := range victims {
			gone, err := w.deleteExecution(v)
			if err != nil {
				return err
			}
			n += gone
		}
		if n > 0 {
			w.cache.dropEnded()
		}
		k, err := w.purgeOthers(p)
		n += k
		return err
	})
	if err != nil {
		return 0, err // n may still be the writer's
	}
	return n, nil
}

// victim is an ended execution that is old enough to go. An outcome never changes, so it may be chosen by a reader.
type victim struct {
	seq    int64
	labels []byte
}

// ended finds the oldest ended executions. What was requested after the moment cannot have ended before it, and
// requests lie in order of time, so the look stops there.
func ended(c *conn, before time.Time, limit int) ([]victim, error) {
	if before.IsZero() {
		return nil, nil
	}
	horizon, err := horizon(c, micros(before))
	if err != nil {
		return nil, err
	}
	var out []victim
	err = c.query(`SELECT e.seq, r.labels FROM execution e NOT INDEXED CROSS JOIN request r ON r.seq = e.seq
 WHERE e.seq <= ? AND e.status >= 6 AND e.finished_at < ? ORDER BY e.seq LIMIT ?`, func(row row) error {
		v := scanner{row: row}
		out = append(out, victim{seq: v.integer(), labels: v.bytes()})
		return v.err
	}, horizon, micros(before), int64(limit))
	return out, err
}

// horizon is the largest seq that was requested before the moment, by bisection.
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

// deleteExecution deletes an ended execution with all that belongs to it, and says how many executions that were.
func (w *writer) deleteExecution(v victim) (int, error) {
	n, err := w.c.exec("DELETE FROM execution WHERE seq = ? AND status >= 6", v.seq)
	if err != nil || n == 0 {
		return 0, err
	}
	// The highest seq given out is kept, so that none is given out twice.
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
		"DELETE FROM execution_event WHERE seq = ?", "DELETE FROM notice WHERE seq = ?",
	} {
		if err := w.exec(sql, v.seq); err != nil {
			return 0, err
		}
	}
	return int(n), nil
}

// purgeOthers deletes dead letters, worker events, sessions and nodes.
func (w *writer) purgeOthers(p store.Purge) (int, error) {
	total := 0
	steps := []struct {
		before time.Time
		sql    []string
	}{
		{p.DeadLettersBefore, []string{"DELETE FROM dead_letter WHERE id IN (SELECT id FROM dead_letter WHERE at < ?1 ORDER BY at LIMIT ?2)"}},
		{p.EventsBefore, []string{"DELETE FROM worker_event WHERE n IN (SELECT n FROM worker_event WHERE at < ?1 ORDER BY at LIMIT ?2)"}},
		{p.SessionsBefore, []string{
			"DELETE FROM session WHERE (pool, session) IN (SELECT pool, session FROM session WHERE worker_inc IS NULL AND touched_at < ?1 LIMIT ?2)",
			"DELETE FROM session_snapshot WHERE NOT EXISTS (SELECT 1 FROM session s WHERE s.pool = session_snapshot.pool AND s.session = session_snapshot.session) AND ?1 > 0 AND ?2 > 0",
		}},
		{p.NodesBefore, []string{
			"DELETE FROM node WHERE incarnation IN (SELECT incarnation FROM node WHERE state = 'dead' AND beat_at < ?1 LIMIT ?2)",
			"DELETE FROM worker WHERE incarnation NOT IN (SELECT incarnation FROM node) AND beat_at < ?1 AND ?2 > 0",
		}},
	}
	for _, step := range steps {
		if step.before.IsZero() {
			continue
		}
		for _, sql := range step.sql {
			n, err := w.c.exec(sql, micros(step.before), int64(p.Limit))
			if err != nil {
				return total, err
			}
			total += int(n)
		}
	}
	return total, nil
}
