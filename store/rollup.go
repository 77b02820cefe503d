package store

import (
	"context"
	"fmt"
	"slices"
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
	// RollupFolds returns the hours that have counts, in order, at most RollupFoldsMax of them.
	RollupFolds(ctx context.Context, q FoldQuery) ([]Fold, error)
	// FoldRollups stores the rows of an hour, at most RollupHourMax of them, in place of those that it had, and that they have its minutes
	// of a version. If the hour has another version by now it changes nothing: minutes were stored after that version was read, and the
	// hour is still to be folded. So the call may be repeated.
	FoldRollups(ctx context.Context, hour time.Time, version int64, rows []Rollup) error
	// ReadRollupHours returns a page of the rows of hours, as ReadRollups does of minutes.
	ReadRollupHours(ctx context.Context, q RollupQuery) (RollupPage, error)
}

// Bounds of the rows.
const (
	RollupBatch   = 1000 // rows of one call
	RollupPageMax = 10_000
	RollupTimeMax = 1 << 10 // bytes of a histogram

	RollupHourMax  = 5000 // rows of an hour
	RollupFoldsMax = 5000
	// RollupLate is the age from which on a minute is late: when one is stored, the version of its hour grows. So an hour that has been over
	// for longer, and for as long as a statement may take, has all its minutes at a version.
	RollupLate = time.Hour
)

// Fold says whether an hour that has counts was folded: its minutes were added up to the rows of the hour.
type Fold struct {
	Hour    time.Time
	Version int64 // grows when a late minute of it is stored
	Folded  int64 // the version whose minutes its rows have; -1: none
}

// FoldQuery asks for hours that begin at From or later, and before To.
type FoldQuery struct {
	From, To time.Time
	Open     bool // only those that are not folded at their version
	Limit    int  // 1 to RollupFoldsMax; 0: RollupFoldsMax
}

// Size is the number of hours of an answer.
func (q *FoldQuery) Size() int {
	if q.Limit <= 0 {
		return RollupFoldsMax
	}
	return min(q.Limit, RollupFoldsMax)
}

// Rollup is what a node counted in a minute of a key, or all of them in an hour.
type Rollup struct {
	Minute      time.Time            // when it begins; of an hour, when that begins
	Incarnation messages.Incarnation // zero: an hour's
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
	Bare     bool    // without their histograms, for who needs numbers alone
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

// Page is an empty page with room for its rows. One that continues another has its whole room at once: it mostly has as many rows.
func (q *RollupQuery) Page() RollupPage {
	if q.After == nil {
		return RollupPage{}
	}
	return RollupPage{Rows: make([]Rollup, 0, q.Size()+1)}
}

// Add adds a row of a minute, or of an hour, for the columns that follow.
func (p *RollupPage) Add(begins time.Time) *Rollup {
	p.Rows = append(p.Rows, Rollup{Minute: begins})
	return &p.Rows[len(p.Rows)-1]
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
		case !begins(r.Minute, time.Minute):
			return fmt.Errorf("save rollups: row %d: minute: %w: %s is no whole minute", i, ErrInvalid, r.Minute)
		case !r.bounded():
			return fmt.Errorf("save rollups: row %d: %w: a count or a histogram is out of its bounds", i, ErrInvalid)
		}
	}
	return nil
}

// CheckFold returns why the rows of an hour cannot be stored, or nil.
func CheckFold(hour time.Time, rows []Rollup) error {
	if !begins(hour, time.Hour) {
		return fmt.Errorf("fold rollups: %w: %s is no whole hour", ErrInvalid, hour)
	}
	if len(rows) > RollupHourMax {
		return fmt.Errorf("fold rollups: %w: %d rows, at most %d", ErrInvalid, len(rows), RollupHourMax)
	}
	for i := range rows {
		switch r := &rows[i]; {
		case !r.Minute.Equal(hour) || !r.Incarnation.IsZero():
			return fmt.Errorf("fold rollups: row %d: %w: it is not of the hour %s", i, ErrInvalid, hour)
		case !r.bounded():
			return fmt.Errorf("fold rollups: row %d: %w: a count or a histogram is out of its bounds", i, ErrInvalid)
		}
	}
	return nil
}

func begins(t time.Time, length time.Duration) bool {
	return !t.IsZero() && t.Equal(t.Truncate(length))
}

func (r *Rollup) bounded() bool {
	return r.N >= 0 && len(r.Wait) <= RollupTimeMax && len(r.Run) <= RollupTimeMax
}

// RollupHours returns the hours of minutes, in order, each with the first of its minutes.
func RollupHours(rows []Rollup) (hours, first []time.Time) {
	for i := range rows {
		minute := rows[i].Minute
		at, found := slices.BinarySearchFunc(hours, minute.Truncate(time.Hour), time.Time.Compare)
		switch {
		case !found:
			hours, first = slices.Insert(hours, at, minute.Truncate(time.Hour)), slices.Insert(first, at, minute)
		case minute.Before(first[at]):
			first[at] = minute
		}
	}
	return hours, first
}
