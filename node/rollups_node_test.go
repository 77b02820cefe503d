package node_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/rollup"
)

// What a node submitted and ended adds up after its restart, by what its rows say.
func TestANodeCountsWhatItSubmitsAndEnds(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings := handle(map[string]messages.Handler{"noop": noop})
	k := boot(t, data, settings, pack)
	const n = 7
	for range n {
		k.run("t.noop", nil)
	}
	require.NoError(t, k.Backend.CordonPool(t.Context(), "go", true, "ann"))
	waiting := k.submit("t.noop", nil)
	_, err := k.Backend.Cancel(t.Context(), waiting, "bob")
	require.NoError(t, err)
	require.NoError(t, k.stop())

	k = boot(t, data, settings, pack)
	now := time.Now()
	sum := func(by rollup.By, metric rollup.Metric) map[string]int64 {
		s, err := k.Backend.Series(t.Context(), rollup.Query{From: now.Add(-time.Hour), To: now.Add(time.Hour), By: by, Metric: metric, Points: 600})
		require.NoError(t, err)
		require.True(t, s.Until.Before(now.Add(time.Minute)), "it does not know the future")
		require.NotNil(t, s.KnownFrom)
		require.WithinDuration(t, now.Add(-7*24*time.Hour), *s.KnownFrom, time.Minute, "older counts are deleted")
		sums := map[string]int64{}
		for _, l := range s.Series {
			for _, n := range l.N {
				sums[l.Key] += n
			}
		}
		return sums
	}
	require.Equal(t, map[string]int64{"completed": n, "cancelled": 1}, sum(rollup.ByStatus, rollup.MetricEnded))
	require.Equal(t, map[string]int64{"go": n + 1}, sum(rollup.ByPool, rollup.MetricSubmitted))
	require.Equal(t, map[string]int64{"t.noop": n + 1}, sum(rollup.ByAction, rollup.MetricRun))

	l, err := k.Backend.Ledger(t.Context(), now.Add(-time.Hour), now)
	require.NoError(t, err)
	require.Equal(t, []int64{n + 1, n + 1, 0}, []int64{l.Accepted, l.Counted, l.Missing}, "%v", l.Notes)
	require.Equal(t, []rollup.StatusCount{{Status: messages.Completed, N: n}, {Status: messages.Cancelled, N: 1}}, l.Ended)
	require.True(t, l.AddsUp && len(l.Open) == 0)
}

// The runs of its workers are what a node remembers, and after its restart what its rows say.
func TestANodeRemembersTheRunsOfItsWorkers(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings := handle(map[string]messages.Handler{"noop": noop})
	k := boot(t, data, settings, pack)
	for range 7 {
		k.run("t.noop", nil)
	}
	all, err := k.Backend.Workers(t.Context(), "go", "")
	require.NoError(t, err)
	count := func(source string) (n int) {
		for _, w := range all.Workers {
			v, err := k.Backend.Runs(t.Context(), w.ID)
			require.NoError(t, err)
			for _, run := range v.Runs {
				require.Equal(t, []any{source, "t.noop", messages.Completed}, []any{v.Source, run.Action, run.Status})
				require.False(t, run.FinishedAt.Before(run.StartedAt))
			}
			n += len(v.Runs)
		}
		return n
	}
	require.Equal(t, 7, count(view.RunsMemory))
	require.NoError(t, k.stop())
	k = boot(t, data, settings, pack)
	require.Equal(t, 7, count(view.RunsList))
}

// ranTen leaves a store in which a node has run ten executions, with what a node needs to go on.
func ranTen(t *testing.T) (data, pack string, settings func(*node.Config)) {
	t.Helper()
	data, pack = t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings = handle(map[string]messages.Handler{"noop": noop})
	k := boot(t, data, settings, pack)
	for range 10 {
		k.run("t.noop", nil)
	}
	require.NoError(t, k.stop())
	return data, pack, settings
}

// An execution that a node has stored and the store has no more is missing.
func TestALedgerNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	data, pack, settings := ranTen(t)
	db, err := sql.Open("sqlite", filepath.Join(data, "troupe.db"))
	require.NoError(t, err)
	for _, statement := range []string{
		"DELETE FROM execution WHERE seq IN (SELECT seq FROM execution ORDER BY seq LIMIT 3)", "DELETE FROM request WHERE seq NOT IN (SELECT seq FROM execution)",
		"UPDATE request SET requested_at = requested_at - 600000000", "UPDATE rollup SET minute = minute - 600000000",
	} {
		_, err = db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	k := boot(t, data, settings, pack)
	l, err := k.Backend.Ledger(t.Context(), time.Now().Add(-time.Hour), time.Now())
	require.NoError(t, err)
	require.Equal(t, []int64{7, 10, 3}, []int64{l.Accepted, l.Counted, l.Missing})
	require.False(t, l.AddsUp)
}

// Executions that retention has deleted are in the ledger, which adds up as before.
func TestALedgerAddsUpAfterRetention(t *testing.T) {
	t.Parallel()
	data, pack, settings := ranTen(t)
	k := boot(t, data, func(c *node.Config) {
		settings(c)
		c.RetainExecutions, c.RetentionInterval, c.RetentionBatch = time.Millisecond, 50*time.Millisecond, 3
	}, pack)
	ledger := func() *rollup.Ledger {
		l, err := k.Backend.Ledger(t.Context(), time.Now().Add(-time.Hour), time.Now())
		require.NoError(t, err)
		return l
	}
	require.Eventually(t, func() bool { return ledger().Purged == 10 && ledger().Purging == 0 }, 20*time.Second, 50*time.Millisecond)
	l := ledger()
	require.Equal(t, []int64{10, 10, 0}, []int64{l.Accepted, l.Counted, l.Missing})
	require.Empty(t, l.Ended)
	require.Zero(t, l.PurgedFrom)
	require.True(t, l.AddsUp)
}
