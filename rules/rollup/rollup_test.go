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

var start = time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)

func TestAQuantileIsNearTheTrueOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(int64(2*time.Millisecond), int64(30*24*time.Hour)).Draw(t, "time"))
		var h rollup.Histogram
		h.Add(d)
		require.InEpsilon(t, float64(d), float64(h.Quantile(0.5)), 0.19)
	})
	var h rollup.Histogram
	require.Zero(t, h.Quantile(0.5))
	for range 95 {
		h.Add(10 * time.Millisecond)
	}
	for range 5 {
		h.Add(10 * time.Second)
	}
	require.InEpsilon(t, float64(10*time.Millisecond), float64(h.Quantile(0.95)), 0.19)
	require.InEpsilon(t, float64(10*time.Second), float64(h.Quantile(0.96)), 0.19)
	h.Add(-time.Second)
	h.Add(1000 * 24 * time.Hour)
	require.Positive(t, h.Quantile(1))
}

func TestAHistogramIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h, more rollup.Histogram
		for _, d := range rapid.SliceOf(rapid.Int64Range(0, int64(100*24*time.Hour))).Draw(t, "times") {
			h.Add(time.Duration(d))
		}
		require.Equal(t, h, rollup.Decode(h.Encode()))
		more.Merge(&h)
		require.Equal(t, h, more)
		_ = rollup.Decode(rapid.SliceOf(rapid.Byte()).Draw(t, "other bytes")) // it does not panic
	})
}

func TestMinutesAreTakenUntilTheStoreHasThem(t *testing.T) {
	t.Parallel()
	var m rollup.Minutes
	key := rollup.Key{Pool: "p", Action: "a", Version: "1", Status: messages.Failed, Code: "e"}
	m.Ended(&rollup.End{Key: key, At: start.Add(59 * time.Second), Wait: time.Second, Run: time.Minute})
	m.Ended(&rollup.End{Key: key, At: start.Add(time.Second), Wait: -1, Run: -1})
	m.Submitted(start.Add(61*time.Second), key, 3)
	rows := m.Take(start)
	require.Len(t, rows, 2)
	require.Equal(t, start, rows[0].Minute)
	require.Equal(t, int64(2), rows[0].N)
	require.Equal(t, uint32(1), sum(rows[0].Wait), "one never started")
	require.Equal(t, rollup.Key{Pool: "p", Action: "a", Version: "1"}, rows[1].Key)
	require.Equal(t, int64(3), rows[1].N)
	require.Empty(t, m.Take(start), "nothing has changed")
	m.Return(rows)
	require.Equal(t, rows, m.Take(start), "the store does not have them")
	m.Submitted(start.Add(61*time.Second), key, 1)
	rows = m.Take(start.Add(time.Hour))
	require.Len(t, rows, 1)
	require.Equal(t, int64(4), rows[0].N, "a row has all of its minute")
	require.Empty(t, m.Take(start.Add(time.Hour)))
	m.Return(rows)
	require.Empty(t, m.Take(start.Add(time.Hour)), "what is over and stored is forgotten")
	m.Submitted(start, key, 1)
	rows = m.Take(start.Add(time.Hour))
	require.Equal(t, start.Add(2*time.Minute), rows[0].Minute, "a row of a minute that is forgotten would replace what the store has")
	require.Equal(t, int64(1), rows[0].N)
}

func sum(h rollup.Histogram) (n uint32) {
	for _, c := range h {
		n += c
	}
	return n
}

func TestMinutesAreOfBoundedSize(t *testing.T) {
	t.Parallel()
	var m rollup.Minutes
	for i := range rollup.KeysMax + 100 {
		m.Submitted(start, rollup.Key{Action: fmt.Sprint(i)}, 1)
	}
	rows := m.Take(start)
	require.Len(t, rows, rollup.KeysMax+1)
	total := int64(0)
	for _, r := range rows {
		if total += r.N; r.Action == rollup.Other {
			require.Equal(t, int64(100), r.N)
		}
	}
	require.Equal(t, int64(rollup.KeysMax+100), total, "none is lost")
	for i := range 2 * rollup.EntriesMax {
		m.Submitted(start.Add(time.Duration(i/100)*time.Minute), rollup.Key{Action: fmt.Sprint(i % 100)}, 1)
	}
	require.LessOrEqual(t, len(m.Take(start)), rollup.EntriesMax)
	require.Positive(t, m.Dropped)
}

func TestASeriesSumsItsRows(t *testing.T) {
	t.Parallel()
	row := func(minute int, pool, action string, status messages.Status, n int64) *rollup.Row {
		r := &rollup.Row{Minute: start.Add(time.Duration(minute) * time.Minute), Key: rollup.Key{Pool: pool, Action: action, Version: "1", Status: status}, N: n}
		for range n {
			r.Run.Add(time.Duration(minute+1) * time.Second)
		}
		return r
	}
	rows := []*rollup.Row{
		row(0, "p", "a", messages.Completed, 5), row(0, "p", "b", messages.Failed, 1), row(1, "q", "a", messages.Completed, 7),
		row(1, "q", "a", rollup.Submitted, 9), row(9, "p", "a", messages.Completed, 2), row(10, "p", "a", messages.Completed, 100), row(-1, "p", "a", messages.Completed, 100),
	}
	of := func(q rollup.Query) map[string][]int64 {
		q.From, q.To = start, start.Add(10*time.Minute)
		s := rollup.NewSeries(q)
		for _, r := range rows {
			s.Add(r)
		}
		got := map[string][]int64{}
		for _, l := range s.Done().Series {
			got[l.Key] = l.N
		}
		return got
	}
	require.Equal(t, map[string][]int64{"completed": {5, 7, 0, 0, 0, 0, 0, 0, 0, 2}, "failed": {1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		of(rollup.Query{By: rollup.ByStatus, Metric: rollup.MetricEnded, Points: 100}))
	require.Equal(t, map[string][]int64{"p": {6, 0, 0, 0, 0, 0, 0, 0, 0, 2}, "q": {0, 7, 0, 0, 0, 0, 0, 0, 0, 0}}, of(rollup.Query{By: rollup.ByPool, Metric: rollup.MetricEnded, Points: 10}))
	require.Equal(t, map[string][]int64{"a@1": {0, 9, 0, 0, 0, 0, 0, 0, 0, 0}}, of(rollup.Query{By: rollup.ByVersion, Metric: rollup.MetricSubmitted, Points: 10}))
	require.Equal(t, map[string][]int64{rollup.All: {6, 7, 0, 0, 0, 0, 0, 0, 0, 2}}, of(rollup.Query{By: rollup.ByAll, Metric: rollup.MetricEnded, Points: 10}))
	require.Equal(t, map[string][]int64{"completed": {5, 0, 0, 0, 0, 0, 0, 0, 0, 2}}, of(rollup.Query{By: rollup.ByStatus, Metric: rollup.MetricEnded, Points: 10, Pools: []string{"p"}, Actions: []string{"a"}}))
	require.Equal(t, map[string][]int64{rollup.All: {0, 7, 0, 0, 0, 0, 0, 0, 0, 0}}, of(rollup.Query{By: rollup.ByAll, Metric: rollup.MetricEnded, Points: 10, Pools: []string{"q"}}))
	require.Equal(t, map[string][]int64{"p": {5, 0, 0, 0, 0, 0, 0, 0, 0, 2}, "q": {0, 7, 0, 0, 0, 0, 0, 0, 0, 0}},
		of(rollup.Query{By: rollup.ByPool, Metric: rollup.MetricEnded, Points: 10, Pools: []string{"p", "none", "q"}, Actions: []string{"a"}}))
	require.Equal(t, map[string][]int64{"a": {5, 0, 0, 0, 0, 0, 0, 0, 0, 2}, "b": {1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		of(rollup.Query{By: rollup.ByAction, Metric: rollup.MetricEnded, Points: 10, Pools: []string{"p"}, Actions: []string{"a", "b"}}), "the filters are and-ed")
	s := rollup.NewSeries(rollup.Query{From: start, To: start.Add(10 * time.Minute), By: rollup.ByAction, Metric: rollup.MetricRun, Points: 10})
	for _, r := range rows {
		s.Add(r)
	}
	line := s.Done().Series[0]
	require.Equal(t, "a", line.Key, "the largest first")
	require.InEpsilon(t, 2000, line.P95[1], 0.19)
	require.Zero(t, line.P95[2])
}

func TestAStepIsAsLongAsThePointsNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		span   time.Duration
		points int
		want   time.Duration
	}{{time.Hour, 60, time.Minute}, {time.Hour, 59, 2 * time.Minute}, {24 * time.Hour, 600, 5 * time.Minute}, {7 * 24 * time.Hour, 600, 30 * time.Minute}, {365 * 24 * time.Hour, 1, 7 * 24 * time.Hour}} {
		q := rollup.Query{From: start.Truncate(time.Hour), To: start.Truncate(time.Hour).Add(c.span), Points: c.points}
		require.Equal(t, c.want, q.Step(), c)
	}
	many := rollup.NewSeries(rollup.Query{From: start, To: start.Add(time.Minute), By: rollup.ByAction, Metric: rollup.MetricEnded, Points: 1})
	for i := range 200 {
		many.Add(&rollup.Row{Minute: start, Key: rollup.Key{Action: fmt.Sprint(i), Status: messages.Completed}, N: 1})
	}
	lines := many.Done().Series
	require.Len(t, lines, rollup.LinesMax)
	require.Equal(t, []int64{151}, lines[rollup.LinesMax-1].N)
	require.Equal(t, rollup.Other, lines[rollup.LinesMax-1].Key)
}
