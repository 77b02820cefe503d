package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/rollup"
)

func TestAnOverviewIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.view = Overview{
		Readiness: Readiness{WaitsFor: []string{"store: away"}}, Missing: []MissingPart{{Part: "counts", Why: "the store is away"}},
		Pools: []PoolOverview{{Pool: view.Pool{Name: "go", Workers: 4, Waiting: 7}, Rates: &rollup.Rates{Ended: 2}}},
	}
	got := read[Overview](t, ask(t, New(Config{Backend: b}), "GET", "/api/v1/overview", ""), 200)
	require.Equal(t, "local", got.Me.Name, "who asks is not of the part that serves all")
	require.Equal(t, b.view.Missing, got.Missing)
	require.Equal(t, b.view.Pools, got.Pools)
	require.NotNil(t, got.Nodes)
}

func TestPoolsAreAddedUp(t *testing.T) {
	t.Parallel()
	require.Equal(t, Totals{Workers: 5, Busy: 1, Waiting: 9, More: true, Placed: 3, Running: 1}, NewTotals([]PoolOverview{
		{Pool: view.Pool{Workers: 4, Busy: 1, Waiting: 2, Placed: 3, Running: 1}}, {Pool: view.Pool{Workers: 1, Waiting: 7, More: true}},
	}))
}
