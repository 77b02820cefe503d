package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

func TestASeriesIsAskedForByItsQuery(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	path := "/api/v1/series"
	s := read[rollup.Series](t, ask(t, h, "GET", path+"?from=2030-01-31T08:00:00Z&to=2030-01-31T08:04:00Z&by=pool", ""), 200)
	require.Equal(t, 60, s.StepSeconds)
	require.Len(t, s.Series, 1)
	require.Equal(t, "go", s.Series[0].Key)
	require.Equal(t, []int64{0, 3, 0, 0}, s.Series[0].N)
	require.Empty(t, read[rollup.Series](t, ask(t, h, "GET", path+"?from=2030-01-31T08:00:00Z&to=2030-01-31T08:04:00Z&pool=python", ""), 200).Series)
	s = read[rollup.Series](t, ask(t, h, "GET", path+"?from=2030-01-31T08:00:00Z&to=2030-01-31T08:04:00Z&by=all&pool=go", ""), 200)
	require.Equal(t, rollup.All, s.Series[0].Key)
	s = read[rollup.Series](t, ask(t, h, "GET", path+"?from=2030-01-31T08:00:00Z&to=2030-01-31T08:04:00Z&by=pool&pool=python&pool=go", ""), 200)
	require.Len(t, s.Series, 1, "repeated, it is one of several")
	l := read[rollup.Ledger](t, ask(t, h, "GET", "/api/v1/ledger?from=2030-01-31T08:00:00Z&to=2030-01-31T08:04:00Z", ""), 200)
	require.Equal(t, []int64{7, 4, 9, 2}, []int64{l.Accepted, l.Purged, l.Counted, l.Missing})
	refused(t, ask(t, h, "GET", "/api/v1/ledger?to=x", ""), 400, messages.CodeInvalidRequest, "to must be")
	now := time.Now()
	q, err := seriesQuery(query{}, now)
	require.NoError(t, err)
	require.Equal(t, rollup.Query{From: now.UTC().Add(-time.Hour), To: now.UTC(), By: rollup.ByStatus, Metric: rollup.MetricEnded, Points: 60}, q)
	q, err = seriesQuery(query{map[string][]string{"metric": {"slots"}}}, now)
	require.NoError(t, err)
	require.Equal(t, rollup.ByState, q.By)
	q, err = seriesQuery(query{map[string][]string{"pool": {"go", "", "python"}, "action": {"a.b", "a.c"}}}, now)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"go", "python"}, {"a.b", "a.c"}}, [][]string{q.Pools, q.Actions})
	for text, why := range map[string]string{
		"from=x": "from must be a time", "to=x": "to must be", "from=2030-01-31T08:00:00Z&to=2030-01-31T08:00:00Z": "before to", "by=odd": "by must be status, action, pool, version, error or all, got",
		"metric=odd": "metric must be", "metric=busy&by=status": "by must be", "metric=busy&by=state": "by must be",
		"metric=slots&action=a.b": "slots is of pools", "pool=a" + strings.Repeat("&pool=b", 20): "pool may be given 20 times, and is 21",
		"action=a" + strings.Repeat("&action=b", 20): "action may be given 20 times", "points=0": "points", "points=601": "600", "from=2020-01-31T08:00:00Z&to=2030-01-31T08:00:00Z": "92 days",
	} {
		refused(t, ask(t, h, "GET", path+"?"+text, ""), 400, messages.CodeInvalidRequest, why)
	}
}
