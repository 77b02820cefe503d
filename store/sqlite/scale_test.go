package sqlite_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// Executions that ended after many with run_at far ahead are purged, and the work of one purge is bounded.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 120,000 rows: not with -short")
	}
	t.Parallel()
	retentionBehindTheWaiting(t, 120_000)
}

// TestWholeScale is the same with a million rows: make chaos.
func TestWholeScale(t *testing.T) {
	if os.Getenv("TROUPE_CHAOS") != "whole" {
		t.Skip("a million rows: make chaos, or TROUPE_CHAOS=whole")
	}
	retentionBehindTheWaiting(t, 1_000_000)
}

func retentionBehindTheWaiting(t *testing.T, rows int) {
	s := open(t, sqlite.Config{})
	far := time.Now().Add(365 * 24 * time.Hour)
	waits := noop(1)
	waits[0].RunAt = far
	_, err := s.Submit(t.Context(), waits)
	require.NoError(t, err)
	sqlite.Repeat(t, s, rows-1)
	ended := noop(25)
	ended = append(ended, inSessions(5, func(i int) string { return fmt.Sprint("s", i) })...)
	_, err = s.Submit(t.Context(), ended)
	require.NoError(t, err)
	for _, e := range ended {
		_, err := s.Apply(t.Context(), []store.Change{&store.Cancel{ID: e.ID}})
		require.NoError(t, err)
	}
	old := store.Purge{FinishedBefore: time.Now().Add(time.Hour), SessionsBefore: time.Now().Add(time.Hour), Limit: 1000}
	total, calls, most := 0, 0, 0
	sqlite.Steps(t, s)
	for more := true; more; calls++ {
		done, err := s.Purge(t.Context(), old)
		require.NoError(t, err)
		total, more = total+done.Rows, done.More
		most = max(most, sqlite.Steps(t, s))
	}
	require.Equal(t, len(ended), total)
	require.LessOrEqual(t, calls, rows/100_000+2, "a call passes five stretches of 20,000")
	require.Less(t, most, 100_000*40, "instructions of one call, whatever waits")

	depths, err := s.Depths(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{store.DepthMax}, []int{depths[0].Count})
	require.True(t, depths[0].More)
	require.Less(t, sqlite.Steps(t, s), store.DepthMax*20, "no more than that is counted")
	page, err := s.List(t.Context(), store.Filter{Pools: []string{"none"}, Statuses: []messages.Status{messages.Requested}})
	require.NoError(t, err)
	require.Empty(t, page.Executions)
	require.Less(t, sqlite.Steps(t, s), 1000)
}

// A search of sessions by the beginning of their names reads no more than it finds, in one pool and in all.
func TestSessionsByPrefixAtScale(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{})
	sqlite.Tamper(t, s.Path(), `INSERT INTO session (pool, session, epoch, worker_slot, finished_epoch, bound_at, touched_at, snapshot_epoch)
 WITH RECURSIVE i (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < 60000) SELECT 'p' || (n % 3), 'user-' || n, 1, 0, 0, 0, 0, 0 FROM i`)
	sqlite.Steps(t, s)
	for name, c := range map[string]struct {
		f     store.SessionFilter
		after string
		found int
	}{
		"of all": {store.SessionFilter{Names: store.NameRanges([]string{"user-7777"}, nil)}, "", 1}, "of a pool": {store.SessionFilter{Pools: []string{"p1"}, Names: store.NameRanges([]string{"user-7"}, nil)}, "", 5},
		"most": {store.SessionFilter{Names: store.NameRanges([]string{"u"}, nil)}, "", 5}, "most, far behind": {store.SessionFilter{Names: store.NameRanges([]string{"u"}, nil)}, "p1/user-9", 5}, "none": {store.SessionFilter{Names: store.NameRanges([]string{"x"}, nil)}, "", 0},
		"all but most": {store.SessionFilter{NotPools: []string{"p0"}, Names: store.NameRanges(nil, []string{"user-1", "user-2", "user-3"})}, "", 5},
	} {
		page, err := s.ListSessions(t.Context(), c.f, c.after, 5)
		require.NoError(t, err, name)
		require.Len(t, page, c.found, name)
		require.Less(t, sqlite.Steps(t, s), 1000, name)
	}
}
