package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/alerts"
)

// A node says by itself what is wrong, as Prometheus would by its metrics, and that it is mended.
func TestANodeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	first, _ := pairOfPacks(t)
	writeFiles(t, first, files{"say.py": brokenCode})
	k := lab(t, func(c *node.Config) {
		c.Restart.BackoffMin, c.Restart.BackoffMax, c.Restart.BrokenAfter = time.Hour, time.Hour, 1
	}, first)
	var found api.Findings
	k.until("the broken pool is found", func() bool {
		found = k.Backend.Findings()
		return len(found.Findings) > 0
	})
	require.Len(t, found.Findings, 1)
	f := found.Findings[0]
	require.Equal(t, "pool_broken", f.Name)
	require.Equal(t, alerts.Critical, f.Severity)
	require.Equal(t, "first.own", f.Subject)
	require.Equal(t, "Pool first.own: its workers keep failing to start, on some node", f.Message)
	require.WithinRange(t, f.Since, time.Now().Add(-time.Minute), time.Now().Add(time.Second))
	require.Empty(t, found.Unreached)
	require.WithinRange(t, found.Since, time.Now().Add(-time.Minute), found.At)
	require.Contains(t, found.Partly, "workers_restarting", "it has not run for fifteen minutes")
	require.NotContains(t, found.Unknown, "store_away")
	require.NotContains(t, found.Unknown, "unhealthy_workers")

	writeFiles(t, first, files{"say.py": "def say(params):\n    return 1\n"})
	_, err := k.Node.Reload(t.Context(), "ann")
	require.NoError(t, err)
	k.until("nothing is wrong any more", func() bool {
		now := k.Backend.Findings()
		return now.At.After(found.At) && len(now.Findings) == 0
	})
}
