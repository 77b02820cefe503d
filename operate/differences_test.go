package operate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// failed is what a node counted of failures in a minute.
func failed(at time.Time, code messages.Code, n int64) rollup.Row {
	return rollup.Row{Minute: at.Truncate(time.Minute), N: n, Key: rollup.Key{Pool: "p", Action: "a.b", Version: "1", Status: messages.Failed, Code: code}}
}

// compared is a node, with what is recorded of it an hour ago and two hours ago.
func compared(t *testing.T) (*cluster, *node, time.Time) {
	t.Helper()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	within, before := now.Add(-30*time.Minute), now.Add(-90*time.Minute)
	require.NoError(t, c.store.SaveRollups(t.Context(), StoredRows(a.cfg.Incarnation, []rollup.Row{failed(before, "boom", 20), failed(within, "boom", 21), failed(within, "new", 2)})))
	inc := a.cfg.Incarnation
	require.NoError(t, c.store.AppendJournal(t.Context(), []messages.JournalEntry{
		{Incarnation: inc, Number: 1, At: within, Kind: messages.JournalOperator, Subject: "a", What: "reload"},
		{Incarnation: inc, Number: 2, At: before, Kind: messages.JournalPool, Subject: "shell", What: "condition", Reason: "ready"},
		{Incarnation: inc, Number: 3, At: within, Kind: messages.JournalPool, Subject: "shell", What: "condition", Reason: "pool_broken"},
		{Incarnation: inc, Number: 4, At: within.Add(10 * time.Minute), Kind: messages.JournalPool, Subject: "shell", What: "condition", Reason: "ready"},
		{Incarnation: inc, Number: 5, At: within, Kind: messages.JournalNode, Subject: inc.String(), What: "late"},
	}))
	require.NoError(t, c.store.RecordTransitions(t.Context(), []store.WorkerEvent{{
		Key: messages.WorkerKey{Incarnation: inc, Pool: "shell"}, Generation: 3, At: within, From: "ready", To: "degraded", Reason: "health_check_failed",
	}}, []string{"unhealthy"}))
	return c, a, now
}

func texts(d *differences.Differences) (list []string) {
	for _, f := range d.Found {
		list = append(list, f.Text)
	}
	return list
}

func TestDifferencesAreOfAllThatIsRecorded(t *testing.T) {
	t.Parallel()
	_, a, now := compared(t)
	d, err := a.Differences(t.Context(), now.Add(-time.Hour), now)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"a.b failed with new", "pool shell: pool broken", "node a: late", "operators' command reload", "worker a/shell/0 was in trouble",
	}, texts(d), "and not what failed as often before")
	require.Equal(t, "a.b failed with new", d.Found[0].Text)
	require.Empty(t, d.Notes)
	for _, f := range d.Found {
		if f.Of == differences.Pool {
			require.InDelta(t, 600, f.Value, 1, "seconds")
		}
	}
}

// What is deleted of the range before is not compared, and a note says so.
func TestDifferencesSayWhatIsNotKept(t *testing.T) {
	t.Parallel()
	_, a, now := compared(t)
	a.cfg.Counted, a.cfg.Hours, a.cfg.Recorded, a.cfg.Transitions = 90*time.Minute, 90*time.Minute, 100*time.Minute, 110*time.Minute
	d, err := a.Differences(t.Context(), now.Add(-time.Hour), now)
	require.NoError(t, err)
	require.Empty(t, d.Found)
	require.Len(t, d.Notes, 5)
	for i, what := range []string{"executions are not compared", "commands are not compared", "sessions are not compared", "workers are not compared", "pools are not compared"} {
		require.Contains(t, d.Notes[i], what)
	}

	// Counts by the minute are deleted, those by the hour are not: whole hours are compared.
	c, a, now := compared(t)
	hour := now.Truncate(time.Hour)
	for i := range 3 { // the last one of the range, and two before it
		at := hour.Add(-time.Duration(10*(i+1)) * time.Hour)
		require.NoError(t, c.store.SaveRollups(t.Context(), StoredRows(messages.NewIncarnation(), []rollup.Row{failed(at.Add(10*time.Minute), "folded", 7)})))
	}
	c.fold(now)
	a.cfg.Counted, a.cfg.Hours = 6*time.Hour, 90*24*time.Hour
	_, err = c.store.Purge(t.Context(), store.Purge{MinutesBefore: now.Add(-6 * time.Hour).Truncate(time.Hour), Limit: 10_000})
	require.NoError(t, err)
	d, err = a.Differences(t.Context(), hour.Add(-15*time.Hour), hour)
	require.NoError(t, err)
	require.Equal(t, []time.Time{hour.Add(-30 * time.Hour), hour.Add(-15 * time.Hour), hour}, []time.Time{d.Before, d.From, d.To})
	i := 0
	for ; i < len(d.Found) && d.Found[i].Code != "folded"; i++ {
	}
	require.Less(t, i, len(d.Found), texts(d))
	require.InDelta(t, 14, d.Found[i].Before, 0)
}
