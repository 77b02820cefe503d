package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/store"
)

// RollupFolds returns the hours that have counts.
func (s *rollupRows) RollupFolds(ctx context.Context, q store.FoldQuery) (out []store.Fold, err error) {
	open := ""
	if q.Open {
		open = " AND folded <> version"
	}
	err = s.query(ctx, "read folds", func(v *scanner) {
		out = append(out, store.Fold{Hour: v.time(), Version: v.integer(), Folded: v.integer()})
	}, "SELECT hour, version, folded FROM rollup_fold WHERE hour >= $1 AND hour < $2"+open+" ORDER BY hour LIMIT $3",
		boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity), q.Size())
	return out, err
}

// The statements of a fold. If the first one finds the version, it holds the row until the end of the transaction, so a late minute is stored
// either before, and then the version is another one, or after it. What follows has no effect if the version is another one.
const (
	foldSQL      = "UPDATE rollup_fold SET folded = version WHERE hour = $1 AND version = $2"
	isFolded     = "EXISTS (SELECT FROM rollup_fold WHERE hour = $1 AND version = $2 AND folded = $2)"
	clearHourSQL = "DELETE FROM rollup_hour WHERE hour = $1 AND " + isFolded
	saveHourSQL  = `INSERT INTO rollup_hour (hour, pool, action, version, status, code, n, wait, run)
 SELECT $1, u.* FROM unnest($3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::bigint[], $9::bytea[], $10::bytea[]) u WHERE ` + isFolded
)

// FoldRollups stores the rows of an hour.
func (s *rollupRows) FoldRollups(ctx context.Context, hour time.Time, version int64, rows []store.Rollup) error {
	if err := store.CheckFold(hour, rows); err != nil {
		return err
	}
	return s.inTransaction(ctx, "fold rollups", func(b *pgx.Batch) {
		key := []any{timeOf(hour), version}
		b.Queue(foldSQL, key...)
		b.Queue(clearHourSQL, key...)
		b.Queue(saveHourSQL, append(key, countsOf(rows)...)...)
	})
}

var readHoursSQL = timedAndBare(`SELECT hour, pool, action, version, status, code, n, wait, run FROM rollup_hour
 WHERE (hour, pool, action, version, status, code) > ($1::timestamptz, $2::text, $3::text, $4::text, $5::smallint, $6::text)
 AND hour < $7 ORDER BY hour, pool, action, version, status, code LIMIT $8`)

// ReadRollupHours returns a page of the counts by the hour.
func (s *rollupRows) ReadRollupHours(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	size, from, after, status := q.Size(), boundOf(q.From, pgtype.NegativeInfinity), q.After, int16(-1) // before all
	if after == nil {
		after = &store.Rollup{}
	} else {
		from, status = timeOf(after.Minute), int16(after.Status)
	}
	page, known := q.Page(), texts{}
	err := s.query(ctx, "read rollups of hours", func(v *scanner) {
		known.scanCounts(v, page.Add(v.time()))
	}, readHoursSQL[q.Bare], from, encodeText(after.Pool), encodeText(after.Action), encodeText(after.Version), status, encodeText(after.Code),
		boundOf(q.To, pgtype.Infinity), size+1)
	if len(page.Rows) > size {
		page.Rows, page.More = page.Rows[:size], true
	}
	return page, err
}
