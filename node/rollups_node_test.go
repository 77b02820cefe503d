package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
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
}
