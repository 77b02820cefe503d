package rollup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

// A series of hours is the same whether it is made of minutes alone, or of hours and of the minutes that are in none.
func TestHoursAndMinutesAreMinutesAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		rows := rapid.SliceOfN(rapid.Custom(drawnRow(begin)), 0, 200).Draw(t, "rows")
		q := rollup.Query{
			From: begin.Add(time.Duration(rapid.IntRange(-90, 300).Draw(t, "from")) * time.Minute), By: rapid.SampledFrom(rollup.Fields()).Draw(t, "by"),
			Metric: rapid.SampledFrom(rollup.Metrics()[:4]).Draw(t, "metric"), Points: rapid.IntRange(1, 30).Draw(t, "points"), Least: time.Hour,
		}
		q.To = q.From.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "length")) * time.Minute)
		var folds []rollup.Fold
		hours := map[int64]*rollup.Hour{}
		for _, hour := range rapid.SliceOfDistinct(rapid.IntRange(0, 20), func(n int) int { return n }).Draw(t, "folded") {
			f := rollup.Fold{Hour: begin.Add(time.Duration(hour) * time.Hour), Made: true, Whole: rapid.Bool().Draw(t, "whole")}
			folds, hours[f.Hour.Unix()] = append(folds, f), rollup.NewHour(f.Hour)
		}
		alone := rollup.NewSeries(q)
		for i := range rows {
			if r := &rows[i]; r.Minute.Before(q.To) {
				alone.Add(r)
			}
			if h := hours[rows[i].Minute.Truncate(time.Hour).Unix()]; h != nil {
				h.Add(&rows[i])
			}
		}
		both := rollup.NewSeries(q)
		spans := rollup.Spans(both.From, q.To, folds, rollup.Kept{})
		end := both.From
		for _, span := range spans {
			require.Equal(t, end, span.From, "each time once")
			end = span.To
			addSpan(both, span, rows, hours)
		}
		require.Equal(t, q.To, end)
		require.Equal(t, alone.Done().Series, both.Done().Series)
	})
}

// drawnRow draws a minute of the 20 hours from a time on.
func drawnRow(begin time.Time) func(*rapid.T) rollup.Row {
	return func(t *rapid.T) rollup.Row {
		r := rollup.Row{Minute: begin.Add(time.Duration(rapid.IntRange(0, 1199).Draw(t, "minute")) * time.Minute), Key: rollup.Key{
			Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), Action: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "action"), Version: "1",
			Status: rapid.SampledFrom([]messages.Status{rollup.Submitted, messages.Completed, messages.Failed}).Draw(t, "status"),
		}, N: rapid.Int64Range(1, 5).Draw(t, "n")}
		for range r.N {
			r.Wait.Add(time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "wait")) * time.Millisecond)
			r.Run.Add(time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "run")) * time.Millisecond)
		}
		return r
	}
}

// addSpan adds what is stored of a time.
func addSpan(s *rollup.Series, span rollup.Span, rows []rollup.Row, hours map[int64]*rollup.Hour) {
	within := func(at time.Time) bool { return !at.Before(span.From) && at.Before(span.To) }
	if !span.Hours {
		for i := range rows {
			if within(rows[i].Minute) {
				s.Add(&rows[i])
			}
		}
		return
	}
	for at, h := range hours {
		if within(time.Unix(at, 0)) {
			for _, r := range h.Rows() {
				s.Add(&r)
			}
		}
	}
}

func TestWhereCountsAreRead(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	hour := func(n float64) time.Time { return begin.Add(time.Duration(n * float64(time.Hour))) }
	whole := func(n float64) rollup.Fold { return rollup.Fold{Hour: hour(n), Made: true, Whole: true} }
	late := func(n float64) rollup.Fold { return rollup.Fold{Hour: hour(n), Made: true} }
	for name, c := range map[string]struct {
		from, to float64
		folds    []rollup.Fold
		kept     rollup.Kept
		want     []rollup.Span
	}{
		"nothing is folded": {0, 3, []rollup.Fold{{Hour: hour(1)}}, rollup.Kept{}, []rollup.Span{{From: hour(0), To: hour(3)}}},
		"the newest are not folded": {0, 4.5, []rollup.Fold{whole(0), whole(1)}, rollup.Kept{},
			[]rollup.Span{{From: hour(0), To: hour(2), Hours: true}, {From: hour(2), To: hour(4.5)}}},
		"a part of an hour": {0, 1.5, []rollup.Fold{whole(0), whole(1)}, rollup.Kept{},
			[]rollup.Span{{From: hour(0), To: hour(1), Hours: true}, {From: hour(1), To: hour(1.5)}}},
		"a late minute": {0, 2, []rollup.Fold{late(0), whole(1)}, rollup.Kept{},
			[]rollup.Span{{From: hour(0), To: hour(1)}, {From: hour(1), To: hour(2), Hours: true}}},
		"a late minute that is deleted": {0, 2, []rollup.Fold{late(0), whole(1)}, rollup.Kept{Minutes: hour(1)}, []rollup.Span{{From: hour(0), To: hour(2), Hours: true}}},
		"hours that are deleted":        {0, 2, []rollup.Fold{whole(0), whole(1)}, rollup.Kept{Hours: hour(3)}, []rollup.Span{{From: hour(0), To: hour(2)}}},
		"a gap":                         {0, 3, []rollup.Fold{whole(0), whole(2)}, rollup.Kept{}, []rollup.Span{{From: hour(0), To: hour(1), Hours: true}, {From: hour(1), To: hour(2)}, {From: hour(2), To: hour(3), Hours: true}}},
	} {
		require.Equal(t, c.want, rollup.Spans(hour(c.from), hour(c.to), c.folds, c.kept), name)
	}
	kept := rollup.Kept{Minutes: hour(5), Hours: hour(1)}
	require.Equal(t, hour(5), kept.From(30*time.Minute))
	require.Equal(t, hour(1), kept.From(time.Hour))
	kept.Minutes = time.Time{}
	require.True(t, kept.From(time.Hour).IsZero(), "minutes are kept for ever")
}

func TestAnHourIsOfBoundedSize(t *testing.T) {
	t.Parallel()
	h, total := rollup.NewHour(start.Truncate(time.Hour)), int64(0)
	for i := range 2 * rollup.HourKeysMax {
		h.Add(&rollup.Row{Minute: start, Key: rollup.Key{Action: fmt.Sprint(i), Status: messages.Status(i % 11)}, N: 1})
	}
	rows := h.Rows()
	require.LessOrEqual(t, len(rows), rollup.HourKeysMax)
	for _, r := range rows {
		total += r.N
		require.Equal(t, start.Truncate(time.Hour), r.Minute)
	}
	require.Equal(t, int64(2*rollup.HourKeysMax), total, "none is lost")
}
