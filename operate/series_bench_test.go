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

// BenchmarkSeriesOfAMonth reads 30 days in steps of hours, of 3 nodes that counted 20 keys each minute: by the minute, of which no more than
// seriesRows are read, and once its hours are folded. To fill the store takes a minute.
func BenchmarkSeriesOfAMonth(b *testing.B) {
	const days, keys = 30, 20
	c := newCluster(b)
	a := c.join("a", "shell", 1)
	now, err := c.store.Now(b.Context())
	require.NoError(b, err)
	fillMonth(b, c, now, days, keys)
	read := func(b *testing.B) {
		covered := time.Duration(0)
		for b.Loop() {
			s, err := a.Series(b.Context(), rollup.Query{From: now.AddDate(0, 0, -days), To: now, By: rollup.ByAction, Metric: rollup.MetricRun, Points: 600})
			require.NoError(b, err)
			covered = s.Until.Sub(s.From)
		}
		b.ReportMetric(covered.Hours()/24, "days")
	}
	b.Run("minutes", read)
	open, err := c.store.RollupFolds(b.Context(), store.FoldQuery{To: now.Add(-rollup.FoldAfter), Open: true})
	require.NoError(b, err)
	began := time.Now()
	for _, f := range open {
		require.NoError(b, FoldHour(b.Context(), c.store, f))
	}
	b.Logf("folded %d hours, each in %s", len(open), (time.Since(began) / time.Duration(len(open))).Round(time.Microsecond))
	b.Run("hours", read)
}

// fillMonth stores what 3 nodes counted.
func fillMonth(b *testing.B, c *cluster, now time.Time, days, keys int) {
	b.Helper()
	for range 3 {
		inc := messages.NewIncarnation()
		for at := now.AddDate(0, 0, -days).Truncate(time.Minute); at.Before(now); at = at.Add(50 * time.Minute) {
			var counted []rollup.Row
			for i := range 50 * keys {
				r := rollup.Row{Minute: at.Add(time.Duration(i/keys) * time.Minute), N: 40,
					Key: rollup.Key{Pool: "p", Action: fmt.Sprint("a", i%keys), Version: "1", Status: messages.Completed}}
				for n := range 40 {
					r.Wait.Add(time.Duration(n) * time.Millisecond)
					r.Run.Add(time.Duration(n) * time.Second)
				}
				counted = append(counted, r)
			}
			require.NoError(b, c.store.SaveRollups(b.Context(), StoredRows(inc, counted)))
		}
	}
}
