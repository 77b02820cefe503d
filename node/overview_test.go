package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

// An overview has of everything a little, and serves everybody for a second.
func TestAnOverviewIsPutTogether(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	k.run("t.noop", nil)
	require.NoError(t, k.Backend.CordonPool(t.Context(), "go", true, "ann"))
	k.submit("t.noop", nil)
	var v api.Overview
	k.until("what waits is shown", func() bool {
		v = k.Backend.Overview(t.Context(), time.Time{}, time.Time{})
		return v.Totals.Waiting == 1
	})
	require.Empty(t, v.Missing)
	require.True(t, v.Readiness.Ready)
	require.Len(t, v.Pools, 1)
	require.Equal(t, "go", v.Pools[0].Name)
	require.True(t, v.Pools[0].Cordoned)
	require.WithinRange(t, v.Pools[0].Oldest, time.Now().Add(-time.Minute), time.Now().Add(time.Second))
	require.NotNil(t, v.Pools[0].Rates)
	require.Len(t, v.Nodes, 1)
	require.Equal(t, v.Pools[0].Workers, v.Totals.Workers)
	require.Equal(t, 5*time.Minute, v.Counts.To.Sub(v.Counts.From))
	again := k.Backend.Overview(t.Context(), time.Time{}, time.Time{})
	require.Less(t, again.At.Sub(v.At), 2*time.Second)

	from := time.Now().UTC().Add(-3 * time.Hour).Truncate(time.Minute)
	past := k.Backend.Overview(t.Context(), from, from.Add(10*time.Minute))
	require.Empty(t, past.Missing)
	require.Equal(t, rollup.DigestRange{From: from, To: from.Add(10 * time.Minute), Before: from.Add(-10 * time.Minute)}, past.Counts.Range)
	require.Equal(t, 5*time.Minute, past.Counts.To.Sub(past.Counts.From), "its rates are of now")
	require.NotEmpty(t, past.Pools)
	last := k.Backend.Overview(t.Context(), time.Time{}, time.Time{}).Counts.Range
	require.Equal(t, time.Hour, last.To.Sub(last.From))
}

// While the store is away an overview says so, and still has the pools and nodes that live.
func TestAnOverviewWithoutTheStoreSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	k, s, _ := fullLab(t, map[string]messages.Handler{"noop": noop})
	k.run("t.noop", nil)
	s.away.Store(true)
	var v api.Overview
	k.until("it says what is missing", func() bool {
		v = k.Backend.Overview(t.Context(), time.Time{}, time.Time{})
		return len(v.Missing) == 2 && len(v.Pools) == 1
	})
	for _, m := range v.Missing {
		require.Contains(t, []string{"counts", "pools"}, m.Part)
		require.Contains(t, m.Why, "the store is away")
	}
	require.False(t, v.Readiness.Ready)
	require.Positive(t, v.Pools[0].Ready)
	require.Len(t, v.Nodes, 1)
	s.away.Store(false)
	k.until("it is whole again", func() bool { return len(k.Backend.Overview(t.Context(), time.Time{}, time.Time{}).Missing) == 0 })
}
