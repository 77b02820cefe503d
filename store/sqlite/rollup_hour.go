package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/troupe-run/troupe/store"
)

// noteHours notes the hours of minutes. The version of an hour grows if a minute of it is late.
func (w *writer) noteHours(rows []store.Rollup) error {
	hours, first := store.RollupHours(rows)
	for i, hour := range hours {
		sql := "INSERT INTO rollup_fold (hour) VALUES (?) ON CONFLICT (hour) DO NOTHING"
		if first[i].Before(w.now.Add(-store.RollupLate)) {
			sql = "INSERT INTO rollup_fold (hour, version) VALUES (?, 1) ON CONFLICT (hour) DO UPDATE SET version = version + 1"
		}
		if err := w.exec(sql, micros(hour)); err != nil {
			return err
		}
	}
	return nil
}

// RollupFolds returns the hours that have counts.
func (s *Store) RollupFolds(ctx context.Context, q store.FoldQuery) (out []store.Fold, err error) {
	open := ""
	if q.Open {
		open = " AND folded <> version"
	}
	err = s.read(ctx, "read folds", func(c *conn) error {
		out = nil
		return c.query("SELECT hour, version, folded FROM rollup_fold WHERE hour >= ? AND hour < ?"+open+" ORDER BY hour LIMIT ?", func(row row) error {
			v := scanner{row: row}
			out = append(out, store.Fold{Hour: v.time(), Version: v.integer(), Folded: v.integer()})
			return v.err
		}, micros(q.From), endOf(q.To), int64(q.Size()))
	})
	return out, err
}

// endOf is the end of a time; zero: it has none.
func endOf(to time.Time) int64 {
	if to.IsZero() {
		return math.MaxInt64
	}
	return micros(to)
}

// FoldRollups stores the rows of an hour.
func (s *Store) FoldRollups(ctx context.Context, hour time.Time, version int64, rows []store.Rollup) error {
	if err := store.CheckFold(hour, rows); err != nil {
		return err
	}
	return s.write(ctx, "fold rollups", 1+len(rows), func(w *writer) error {
		n, err := w.c.exec("UPDATE rollup_fold SET folded = version WHERE hour = ? AND version = ?", micros(hour), version)
		if err != nil || n == 0 {
			return err
		}
		if err := w.exec("DELETE FROM rollup_hour WHERE hour = ?", micros(hour)); err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			if err := w.exec("INSERT INTO rollup_hour (hour, pool, action, version, status, code, n, wait, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
				micros(hour), r.Pool, r.Action, r.Version, int64(r.Status), r.Code, r.N, blob(r.Wait), blob(r.Run)); err != nil {
				return err
			}
		}
		return nil
	})
}

var readRollupHours = timedAndBare(`SELECT hour, pool, action, version, status, code, n, wait, run FROM rollup_hour
 WHERE (hour, pool, action, version, status, code) > (?, ?, ?, ?, ?, ?) AND hour < ?
 ORDER BY hour, pool, action, version, status, code LIMIT ?`)

// ReadRollupHours returns a page of the counts by the hour.
func (s *Store) ReadRollupHours(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	size, after, status := q.Size(), q.After, int64(-1) // before all
	if after == nil {
		after = &store.Rollup{Minute: q.From}
	} else {
		status = int64(after.Status)
	}
	var page store.RollupPage
	err := s.read(ctx, "read rollups of hours", func(c *conn) error {
		page = q.Page()
		return c.query(readRollupHours[q.Bare], func(row row) error {
			if len(page.Rows) == size {
				page.More = true
				return nil
			}
			v := scanner{row: row}
			scanCounts(&v, page.Add(v.time()))
			return v.err
		}, micros(after.Minute), after.Pool, after.Action, after.Version, status, after.Code, endOf(q.To), int64(size)+1)
	})
	return page, err
}
