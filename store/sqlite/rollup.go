package sqlite

import (
	"context"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const saveRollup = `INSERT INTO rollup (minute, incarnation, pool, action, version, status, code, n, wait, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
 ON CONFLICT (minute, incarnation, pool, action, version, status, code) DO UPDATE SET n = excluded.n, wait = excluded.wait, run = excluded.run`

// SaveRollups stores what a node counted.
func (s *Store) SaveRollups(ctx context.Context, rows []store.Rollup) error {
	if err := store.CheckRollups(rows); err != nil || len(rows) == 0 {
		return err
	}
	return s.write(ctx, "save rollups", len(rows), func(w *writer) error {
		for i := range rows {
			r := &rows[i]
			if err := w.exec(saveRollup, micros(r.Minute), r.Incarnation[:], r.Pool, r.Action, r.Version, int64(r.Status), r.Code, r.N,
				blob(r.Wait), blob(r.Run)); err != nil {
				return err
			}
		}
		return w.noteHours(rows)
	})
}

var readRollups = timedAndBare(`SELECT minute, incarnation, pool, action, version, status, code, n, wait, run FROM rollup
 WHERE (minute, incarnation, pool, action, version, status, code) > (?, ?, ?, ?, ?, ?, ?) AND minute < ?
 ORDER BY minute, incarnation, pool, action, version, status, code LIMIT ?`)

// ReadRollups returns a page of what nodes counted.
func (s *Store) ReadRollups(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	size, after := q.Size(), q.After
	if after == nil { // no row is of the zero incarnation
		after = &store.Rollup{Minute: q.From}
	}
	var page store.RollupPage
	err := s.read(ctx, "read rollups", func(c *conn) error {
		page = q.Page()
		return c.query(readRollups[q.Bare], func(row row) error {
			if len(page.Rows) == size {
				page.More = true
				return nil
			}
			v := scanner{row: row}
			r := page.Add(v.time())
			v.id((*[16]byte)(&r.Incarnation))
			scanCounts(&v, r)
			return v.err
		}, micros(after.Minute), after.Incarnation[:], after.Pool, after.Action, after.Version, int64(after.Status), after.Code, endOf(q.To), int64(size)+1)
	})
	return page, err
}

// timedAndBare are a statement with the histograms, and the same without them.
func timedAndBare(sql string) map[bool]string {
	return map[bool]string{false: sql, true: strings.Replace(sql, " n, wait, run FROM", " n, NULL, NULL FROM", 1)}
}

// scanCounts reads the columns from the pool on.
func scanCounts(v *scanner, r *store.Rollup) {
	r.Pool, r.Action, r.Version, r.Status, r.Code = v.interned(), v.interned(), v.interned(), messages.Status(v.integer()), v.interned()
	r.N, r.Wait, r.Run = v.integer(), v.bytes(), v.bytes()
}
