package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// Nodes that purge at the same time count each execution once, at its place in the minute.
func TestNodesThatPurgeCountEachExecutionOnce(t *testing.T) {
	t.Parallel()
	const n = 600
	d := newBench(t)
	one := d.open(t, postgres.Config{})
	two := d.open(t, postgres.Config{Schema: one.Schema()})
	submitted, err := one.Submit(t.Context(), noop(n))
	require.NoError(t, err)
	var cancels []store.Change
	for _, e := range submitted {
		cancels = append(cancels, &store.Cancel{ID: e.Execution.ID, By: "test"})
	}
	_, err = one.Apply(t.Context(), cancels)
	require.NoError(t, err)
	minute := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	_, err = d.connect(t, one.Schema()).Exec(t.Context(), `UPDATE request SET requested_at = $1::timestamptz + seq * interval '1 second' - (SELECT min(seq) FROM request) * interval '1 second'`, minute)
	require.NoError(t, err)

	purged := make(chan int)
	for _, s := range []*postgres.Store{one, two} {
		go func() {
			rows := 0
			defer func() { purged <- rows }()
			for range n {
				done, err := s.Purge(t.Context(), store.Purge{FinishedBefore: time.Now().Add(time.Hour), Limit: 7})
				if rows += done.Rows; err != nil || !done.More {
					return
				}
			}
		}()
	}
	require.Equal(t, n, <-purged+<-purged)
	count := func(from, to int) store.PurgedCount {
		counted, err := one.CountPurged(t.Context(), minute.Add(time.Duration(from)*time.Minute), minute.Add(time.Duration(to)*time.Minute))
		require.NoError(t, err)
		return counted
	}
	require.Equal(t, store.PurgedCount{N: n}, count(0, n/60))
	require.Equal(t, store.PurgedCount{N: 180, Before: 3, Behind: 1}, count(2, 5))
	require.Equal(t, store.PurgedCount{Before: 3}, count(n/60, n/60))
}

// What was requested before the migration may have been deleted uncounted. A new schema has nothing of that kind.
func TestWhatWasPurgedBeforeTheMigrationIsUnknown(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "before"}
	require.NoError(t, postgres.MigrateTo(t.Context(), cfg, 30))
	c := d.connect(t, "before")
	_, err := c.Exec(t.Context(), "INSERT INTO rollup_hour VALUES ('2026-03-01 03:00Z', 'p', 'a', '1', 0, '', 7)")
	require.NoError(t, err)
	var began time.Time
	require.NoError(t, c.QueryRow(t.Context(), "SELECT now()").Scan(&began))
	s := d.open(t, cfg)
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	counted, err := s.CountPurged(t.Context(), now.Truncate(time.Minute), now.Truncate(time.Minute))
	require.NoError(t, err)
	require.False(t, counted.From.Before(began) || counted.From.After(now), "%s", counted.From)
}
