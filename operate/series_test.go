package operate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// fold folds all hours but those of the last two.
func (c *cluster) fold(now time.Time) {
	folds, err := c.store.RollupFolds(c.t.Context(), store.FoldQuery{To: now.Add(-rollup.FoldAfter), Open: true})
	require.NoError(c.t, err)
	for _, f := range folds {
		require.NoError(c.t, FoldHour(c.t.Context(), c.store, f))
	}
}

// count stores what three nodes counted, every 47 minutes of some days.
func (c *cluster) count(now time.Time, days int) {
	for node := range 3 {
		var counted []rollup.Row
		for at := now.AddDate(0, 0, -days); at.Before(now); at = at.Add(47 * time.Minute) {
			r := rollup.Row{Minute: at.Truncate(time.Minute), N: int64(1 + node), Key: rollup.Key{Pool: "p", Action: fmt.Sprint("a", at.Unix()/60%2), Version: "1", Status: messages.Completed}}
			r.Run.Add(time.Duration(1+at.Minute()) * time.Second)
			counted = append(counted, r)
		}
		rows := StoredRows(messages.NewIncarnation(), counted)
		for len(rows) > 0 {
			n := min(len(rows), store.RollupBatch)
			require.NoError(c.t, c.store.SaveRollups(c.t.Context(), rows[:n]))
			rows = rows[n:]
		}
	}
}

// A series says the same before its hours are folded, after that, and when a late minute has come. When the minutes are deleted it still says so.
func TestASeriesIsTheSameOnceItsHoursAreFolded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	c.count(now, 20)
	ask := func(from, to time.Duration, points int) *rollup.Series {
		s, err := a.Series(t.Context(), rollup.Query{From: now.Add(-from), To: now.Add(-to), By: rollup.ByAction, Metric: rollup.MetricRun, Points: points})
		require.NoError(t, err)
		return s
	}
	const day = 24 * time.Hour
	all := func() (lines [][]*rollup.Line) { // in steps of hours, but for the last
		for _, of := range [][2]time.Duration{{20 * day, 0}, {9 * day, 0}, {8 * day, 100 * time.Minute}, {15 * day, 6*day + 7*time.Minute}, {time.Hour, 0}} {
			lines = append(lines, ask(of[0], of[1], 240).Series)
		}
		return lines
	}
	before := all()
	c.fold(now)
	open, err := c.store.RollupFolds(t.Context(), store.FoldQuery{Open: true})
	require.NoError(t, err)
	require.LessOrEqual(t, len(open), 4, "the last hours are not folded yet")
	require.Equal(t, before, all())
	late := store.Rollup{Minute: now.Add(-3 * day).Truncate(time.Minute), Incarnation: messages.NewIncarnation(), Pool: "p", Action: "late", Version: "1", Status: messages.Completed, N: 1}
	require.NoError(t, c.store.SaveRollups(t.Context(), []store.Rollup{late}))
	after := all()
	require.NotEqual(t, before, after, "the minutes of that hour are read")
	c.fold(now)
	require.Equal(t, after, all())

	week := now.Add(-7 * day)
	_, err = c.store.Purge(t.Context(), store.Purge{MinutesBefore: week.Truncate(time.Hour), Limit: 10_000})
	require.NoError(t, err)
	a.cfg.Counted, a.cfg.Hours = 7*day, 90*day
	require.Equal(t, after, all())
	old := ask(15*day, 14*day, 600)
	require.Equal(t, 3600, old.StepSeconds, "there are no minutes of that time")
	require.Len(t, old.Series, 2)
	require.WithinDuration(t, now.Add(-90*day), *old.KnownFrom, time.Minute)
	require.Equal(t, now.Add(-14*day).Truncate(time.Hour), old.Until, "what its last hour had up to the end is not known")
	require.WithinDuration(t, week, *ask(day, 0, 600).KnownFrom, time.Minute, "of shorter steps")
}

func TestASeriesIsBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	begin := now.Truncate(time.Hour).Add(-2 * seriesSpans * time.Hour)
	for i := range seriesSpans {
		hour := begin.Add(time.Duration(2*i) * time.Hour)
		require.NoError(t, c.store.SaveRollups(t.Context(), []store.Rollup{{Minute: hour, Incarnation: messages.NewIncarnation(), Pool: "p", Action: "a", N: 1}}))
	}
	c.fold(now)
	s, err := a.Series(t.Context(), rollup.Query{From: begin, To: now, By: rollup.ByAll, Metric: rollup.MetricSubmitted, Points: 600})
	require.NoError(t, err)
	require.Equal(t, begin.Add(seriesSpans*time.Hour), s.Until, "each other hour has no counts")
}
