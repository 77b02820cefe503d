package store

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Rollups is the store of what nodes counted by minute.
type Rollups interface {
	// SaveRollups stores the rows, all or none, at most RollupBatch of them. A row of the same minute, incarnation and key is replaced: each
	// has all that its node has counted of that minute. So the call may be repeated.
	SaveRollups(ctx context.Context, rows []Rollup) error
	// ReadRollups returns a page of rows by their minutes.
	ReadRollups(ctx context.Context, q RollupQuery) (RollupPage, error)
}

// Bounds of the rows.
const (
	RollupBatch   = 1000 // rows of one call
	RollupPageMax = 10_000
	RollupTimeMax = 1 << 10 // bytes of a histogram
)

// Rollup is what a node counted in a minute of a key.
type Rollup struct {
	Minute      time.Time
	Incarnation messages.Incarnation
	Pool        string
	Action      string
	Version     string
	Status      messages.Status // 0: submissions
	Code        string
	N           int64
	Wait, Run   []byte // histograms, as rules/rollup encodes them
}

// RollupQuery asks for rows whose minutes begin at From or later, and before To.
type RollupQuery struct {
	From, To time.Time
	After    *Rollup // the last row of the page before
	Limit    int     // 1 to RollupPageMax; 0: RollupPageMax
}

// RollupPage is a page, by minute, incarnation and key. More says that others follow its last row.
type RollupPage struct {
	Rows []Rollup
	More bool
}

// Size is the number of rows of a page.
func (q *RollupQuery) Size() int {
	if q.Limit <= 0 {
		return RollupPageMax
	}
	return min(q.Limit, RollupPageMax)
}

// CheckRollups returns why the rows cannot be stored, or nil.
func CheckRollups(rows []Rollup) error {
	if len(rows) > RollupBatch {
		return fmt.Errorf("save rollups: %w: %d rows, at most %d", ErrInvalid, len(rows), RollupBatch)
	}
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Incarnation.IsZero():
			return fmt.Errorf("save rollups: row %d: incarnation: %w: it is zero", i, ErrInvalid)
		case r.Minute.IsZero() || r.Minute.Unix()%60 != 0 || r.Minute.Nanosecond() != 0:
			return fmt.Errorf("save rollups: row %d: minute: %w: %s is no whole minute", i, ErrInvalid, r.Minute)
		case r.N < 0 || len(r.Wait) > RollupTimeMax || len(r.Run) > RollupTimeMax:
			return fmt.Errorf("save rollups: row %d: %w: a count or a histogram is out of its bounds", i, ErrInvalid)
		}
	}
	return nil
}
