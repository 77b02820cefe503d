package store

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Ledger counts executions, for people who ask whether any is missing.
type Ledger interface {
	// CountRequested counts the executions that were requested in a time by minute and status, the oldest first, until it has met a bound of
	// the query.
	CountRequested(ctx context.Context, q CountQuery) (Counted, error)
	// CountPurged says how many executions Purge has deleted of those that were requested at from or later and before to, both whole minutes.
	CountPurged(ctx context.Context, from, to time.Time) (PurgedCount, error)
}

// PurgedCount counts the executions of a time that Purge has deleted.
type PurgedCount struct {
	N      int64
	Before int64 // requested within CountTail before the time
	Behind int64 // requested within CountEdge behind the time
	// From is from when on all is counted: what was requested before may have been deleted by an older version. Zero: all is counted.
	From time.Time
}

// Bounds of one count.
const (
	CountMax   = 200_000 // executions
	CountSlice = 2000    // executions that are counted between two looks at the clock
	// CountEdge is the beginning of a minute of which MinuteCount.Edge counts, and CountTail the end of one, as PurgedCount.Before counts it.
	CountEdge = time.Second
	CountTail = 3 * time.Second
)

// CountQuery asks for the executions that were requested at From or later and before To.
type CountQuery struct {
	From, To time.Time
	Most     int           // executions that are looked at, 1 to CountMax; 0: CountMax
	Within   time.Duration // no slice begins later; 0: no such bound. At least one is counted.
}

// Size is the number of executions that are looked at.
func (q *CountQuery) Size() int {
	if q.Most <= 0 {
		return CountMax
	}
	return min(q.Most, CountMax)
}

// Counted are executions by minute and status.
type Counted struct {
	Minutes []MinuteCount // in no order; each minute and status once
	// Until, where a bound was met: all that was requested before it is counted. Zero: all of the time was counted.
	Until time.Time
}

// MinuteCount counts the executions of a status that were requested in a minute.
type MinuteCount struct {
	Minute    time.Time // when it begins
	Status    messages.Status
	N         int64
	Edge      int64 // of them, requested within CountEdge of the minute's beginning
	Retries   int64 // of them, made as the retry of another one
	Repeated  int64 // of them, interrupted at least once by the end of a worker
	TakenBack int64 // of them, taken back from a worker that did not claim, and not claimed since
	StateLost int64 // of them, told that their session's state was lost
}

func (m *MinuteCount) add(o *MinuteCount) {
	m.N, m.Edge, m.Retries = m.N+o.N, m.Edge+o.Edge, m.Retries+o.Retries
	m.Repeated, m.TakenBack, m.StateLost = m.Repeated+o.Repeated, m.TakenBack+o.TakenBack, m.StateLost+o.StateLost
}

// Count adds up what slices have counted. Its zero value can be used.
type Count struct {
	of map[minuteStatus]*MinuteCount
}

type minuteStatus struct {
	minute int64 // microseconds
	status messages.Status
}

// Add adds what a slice has of a minute and status.
func (c *Count) Add(m *MinuteCount) {
	key := minuteStatus{m.Minute.UnixMicro(), m.Status}
	if known := c.of[key]; known != nil {
		known.add(m)
		return
	}
	if c.of == nil {
		c.of = map[minuteStatus]*MinuteCount{}
	}
	sum := *m
	c.of[key] = &sum
}

// CountedSlice is how far a slice came.
type CountedSlice struct {
	Looked int       // executions that were looked at, whether they are counted or not
	Last   int64     // seq of the last one
	Latest time.Time // when the latest of them was requested
}

// Slices counts what lies between two seqs, slice by slice. What has a greater seq than another execution was requested no more than
// disorder before that.
func (q *CountQuery) Slices(above, last int64, disorder time.Duration, slice func(c *Count, above int64, size int) (CountedSlice, error)) (Counted, error) {
	var c Count
	began := time.Now()
	for left := q.Size(); above < last; {
		size := min(CountSlice, left)
		s, err := slice(&c, above, size)
		if err != nil {
			return Counted{}, err
		}
		if s.Looked < size || s.Last >= last {
			break
		}
		if above, left = s.Last, left-size; left == 0 || q.Within > 0 && time.Since(began) > q.Within {
			return c.done(s.Latest.Add(-disorder)), nil
		}
	}
	return c.done(time.Time{}), nil
}

func (c *Count) done(until time.Time) Counted {
	counted := Counted{Until: until}
	for _, m := range c.of {
		counted.Minutes = append(counted.Minutes, *m)
	}
	return counted
}
