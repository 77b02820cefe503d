package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const saveRollupsSQL = `INSERT INTO rollup (minute, incarnation, pool, action, version, status, code, n, wait, run)
 SELECT * FROM unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::bigint[], $9::bytea[], $10::bytea[])
 ON CONFLICT (minute, incarnation, pool, action, version, status, code) DO UPDATE SET n = excluded.n, wait = excluded.wait, run = excluded.run`

// SaveRollups stores what a node counted.
func (s *rollupRows) SaveRollups(ctx context.Context, rows []store.Rollup) error {
	if err := store.CheckRollups(rows); err != nil || len(rows) == 0 {
		return err
	}
	n := len(rows)
	minutes, incs := make(column[pgtype.Timestamptz], n), make(column[pgtype.UUID], n)
	pools, actions, versions, codes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	statuses, counts, waits, runs := make([]int16, n), make([]int64, n), make([][]byte, n), make([][]byte, n)
	for i := range rows {
		r := &rows[i]
		minutes[i], incs[i], statuses[i], counts[i] = timeOf(r.Minute), uuidOf(r.Incarnation), int16(r.Status), r.N
		pools[i], actions[i], versions[i], codes[i] = encodeText(r.Pool), encodeText(r.Action), encodeText(r.Version), encodeText(r.Code)
		waits[i], runs[i] = r.Wait, r.Run
	}
	_, err := s.exec(ctx, "save rollups", saveRollupsSQL, minutes, incs, pools, actions, versions, statuses, codes, counts, waits, runs)
	return err
}

const readRollupsSQL = `SELECT minute, incarnation, pool, action, version, status, code, n, wait, run FROM rollup
 WHERE (minute, incarnation, pool, action, version, status, code) > ($1::timestamptz, $2::uuid, $3::text, $4::text, $5::text, $6::smallint, $7::text)
 AND minute < $8 ORDER BY minute, incarnation, pool, action, version, status, code LIMIT $9`

// ReadRollups returns a page of what nodes counted.
func (s *rollupRows) ReadRollups(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	size, from := q.Size(), boundOf(q.From, pgtype.NegativeInfinity)
	after := q.After
	if after == nil { // no row is of the zero incarnation
		after = &store.Rollup{}
	} else {
		from = timeOf(after.Minute)
	}
	var page store.RollupPage
	err := s.query(ctx, "read rollups", func(v *scanner) {
		r := store.Rollup{Minute: v.time()}
		v.id((*[16]byte)(&r.Incarnation))
		r.Pool, r.Action, r.Version, r.Status, r.Code = v.text(), v.text(), v.text(), messages.Status(v.integer()), v.text()
		r.N, r.Wait, r.Run = v.integer(), v.bytes(), v.bytes()
		page.Rows = append(page.Rows, r)
	}, readRollupsSQL, from, pgtype.UUID{Bytes: after.Incarnation, Valid: true}, encodeText(after.Pool), encodeText(after.Action), encodeText(after.Version),
		int16(after.Status), encodeText(after.Code), boundOf(q.To, pgtype.Infinity), size+1)
	if len(page.Rows) > size {
		page.Rows, page.More = page.Rows[:size], true
	}
	return page, err
}
