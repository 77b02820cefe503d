package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// saveRollupsSQL stores minutes, and notes their hours ($11, with the first minute of each in $12). The version of an hour grows if a minute
// of it is late; the row of another hour is not touched.
var saveRollupsSQL = `WITH r AS (INSERT INTO rollup (minute, incarnation, pool, action, version, status, code, n, wait, run)
 SELECT * FROM unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::bigint[], $9::bytea[], $10::bytea[])
 ON CONFLICT (minute, incarnation, pool, action, version, status, code) DO UPDATE SET n = excluded.n, wait = excluded.wait, run = excluded.run),
 h AS MATERIALIZED (SELECT hour, first < now() - interval '` + fmt.Sprint(store.RollupLate) + `' AS late FROM unnest($11::timestamptz[], $12::timestamptz[]) u (hour, first)),
 f AS (INSERT INTO rollup_fold (hour) SELECT hour FROM h WHERE NOT late ORDER BY hour ON CONFLICT (hour) DO NOTHING)
 INSERT INTO rollup_fold AS f (hour, version) SELECT hour, 1 FROM h WHERE late ORDER BY hour ON CONFLICT (hour) DO UPDATE SET version = f.version + 1`

// SaveRollups stores what a node counted.
func (s *rollupRows) SaveRollups(ctx context.Context, rows []store.Rollup) error {
	if err := store.CheckRollups(rows); err != nil || len(rows) == 0 {
		return err
	}
	n := len(rows)
	minutes, incs := make(column[pgtype.Timestamptz], n), make(column[pgtype.UUID], n)
	for i := range rows {
		minutes[i], incs[i] = timeOf(rows[i].Minute), uuidOf(rows[i].Incarnation)
	}
	hours, first := store.RollupHours(rows)
	_, err := s.exec(ctx, "save rollups", saveRollupsSQL, append(append([]any{minutes, incs}, countsOf(rows)...), timesOf(hours), timesOf(first))...)
	return err
}

// countsOf are the columns of rows from the pool on.
func countsOf(rows []store.Rollup) []any {
	n := len(rows)
	pools, actions, versions, codes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	statuses, counts, waits, runs := make([]int16, n), make([]int64, n), make([][]byte, n), make([][]byte, n)
	for i := range rows {
		r := &rows[i]
		pools[i], actions[i], versions[i], codes[i] = encodeText(r.Pool), encodeText(r.Action), encodeText(r.Version), encodeText(r.Code)
		statuses[i], counts[i], waits[i], runs[i] = int16(r.Status), r.N, r.Wait, r.Run
	}
	return []any{pools, actions, versions, statuses, codes, counts, waits, runs}
}

func timesOf(times []time.Time) column[pgtype.Timestamptz] {
	out := make(column[pgtype.Timestamptz], len(times))
	for i, t := range times {
		out[i] = timeOf(t)
	}
	return out
}

var readRollupsSQL = timedAndBare(`SELECT minute, incarnation, pool, action, version, status, code, n, wait, run FROM rollup
 WHERE (minute, incarnation, pool, action, version, status, code) > ($1::timestamptz, $2::uuid, $3::text, $4::text, $5::text, $6::smallint, $7::text)
 AND minute < $8 ORDER BY minute, incarnation, pool, action, version, status, code LIMIT $9`)

// ReadRollups returns a page of what nodes counted.
func (s *rollupRows) ReadRollups(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	size, from := q.Size(), boundOf(q.From, pgtype.NegativeInfinity)
	after := q.After
	if after == nil { // no row is of the zero incarnation
		after = &store.Rollup{}
	} else {
		from = timeOf(after.Minute)
	}
	page, known := q.Page(), texts{}
	err := s.query(ctx, "read rollups", func(v *scanner) {
		r := page.Add(v.time())
		v.id((*[16]byte)(&r.Incarnation))
		known.scanCounts(v, r)
	}, readRollupsSQL[q.Bare], from, pgtype.UUID{Bytes: after.Incarnation, Valid: true}, encodeText(after.Pool), encodeText(after.Action), encodeText(after.Version),
		int16(after.Status), encodeText(after.Code), boundOf(q.To, pgtype.Infinity), size+1)
	if len(page.Rows) > size {
		page.Rows, page.More = page.Rows[:size], true
	}
	return page, err
}

// timedAndBare are a statement with the histograms, and the same without them.
func timedAndBare(sql string) map[bool]string {
	return map[bool]string{false: sql, true: strings.Replace(sql, " n, wait, run FROM", " n, NULL::bytea, NULL::bytea FROM", 1)}
}

// texts are those of a page, by their bytes: rows have the same few pools, actions, versions and codes.
type texts map[string]string

func (t texts) of(b []byte) string {
	text, known := t[string(b)]
	if !known {
		text = decodeText(string(b))
		t[string(b)] = text
	}
	return text
}

// scanCounts reads the columns from the pool on.
func (t texts) scanCounts(v *scanner, r *store.Rollup) {
	r.Pool, r.Action, r.Version, r.Status, r.Code = t.of(v.raw()), t.of(v.raw()), t.of(v.raw()), messages.Status(v.integer()), t.of(v.raw())
	r.N, r.Wait, r.Run = v.integer(), v.bytes(), v.bytes()
}
