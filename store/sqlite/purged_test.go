package sqlite_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// What was purged is counted at its place in the minute. What was requested before the migration may have been deleted uncounted.
func TestCountsOfWhatWasPurged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "troupe.db")
	open := func() *sqlite.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		require.NoError(t, err)
		return s
	}
	s := open()
	const n = 180
	executions := make([]messages.Execution, n)
	changes := make([]store.Change, n)
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "p", Timeout: time.Minute}
		changes[i] = &store.Cancel{ID: executions[i].ID, By: "test"}
	}
	_, err := s.Submit(t.Context(), executions)
	require.NoError(t, err)
	_, err = s.Apply(t.Context(), changes)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	minute := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	sqlite.Tamper(t, path, "UPDATE request SET requested_at = "+micros(minute)+" + 1000000 * (seq - (SELECT min(seq) FROM request))")
	// As it was before the migration.
	for _, sql := range []string{"DROP TABLE purged", "DELETE FROM meta WHERE name = 'purged_from'", "DELETE FROM goose_db_version WHERE version_id = 25"} {
		sqlite.Tamper(t, path, sql)
	}
	began := time.Now()
	s = open()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for more := true; more; {
		purged, err := s.Purge(t.Context(), store.Purge{FinishedBefore: time.Now().Add(time.Hour), Limit: 50})
		require.NoError(t, err)
		more = purged.More
	}
	counted, err := s.CountPurged(t.Context(), minute.Add(time.Minute), minute.Add(2*time.Minute))
	require.NoError(t, err)
	require.WithinRange(t, counted.From, began.Add(-time.Millisecond), time.Now())
	counted.From = time.Time{}
	require.Equal(t, store.PurgedCount{N: 60, Before: 3, Behind: 1}, counted)
}

func micros(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }
