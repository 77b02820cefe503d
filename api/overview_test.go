package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
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
	require.Zero(t, b.asked)
}

func TestAnOverviewIsOfItsRange(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	read[Overview](t, ask(t, h, "GET", "/api/v1/overview?from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z", ""), 200)
	require.Equal(t, [2]time.Time{at, at.Add(10 * time.Minute)}, b.asked)
	read[Overview](t, ask(t, h, "GET", "/api/v1/overview?to=2030-01-31T08:10:00Z", ""), 200)
	require.Equal(t, [2]time.Time{at.Add(-50 * time.Minute), at.Add(10 * time.Minute)}, b.asked, "an hour before its end")
	for query, why := range map[string]string{"from=x": "from must be a time", "from=2030-01-31T08:00:00Z&to=2030-06-30T08:00:00Z": "45 days"} {
		refused(t, ask(t, h, "GET", "/api/v1/overview?"+query, ""), 400, messages.CodeInvalidRequest, why)
	}
}

func TestPoolsAreAddedUp(t *testing.T) {
	t.Parallel()
	require.Equal(t, Totals{Workers: 5, Busy: 1, Waiting: 9, More: true, Placed: 3, Running: 1}, NewTotals([]PoolOverview{
		{Pool: view.Pool{Workers: 4, Busy: 1, Waiting: 2, Placed: 3, Running: 1}}, {Pool: view.Pool{Workers: 1, Waiting: 7, More: true}},
	}))
}
