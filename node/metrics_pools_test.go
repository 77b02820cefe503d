package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Every pool that the node serves has each series, at zero where there is nothing; the oldest scheduled one is as old as its
// placement.
func TestDepthsKeepTheirSeries(t *testing.T) {
	t.Parallel()
	of := &sources{base: &base{pools: &pools{by: map[string]*poolHandle{"idle": {}, "go": {}}}}}
	c := newLiveCollector(of)
	names := map[*prometheus.Desc]string{c.waiting: "waiting", c.oldest: "oldest", c.placed: "placed", c.stale: "stale"}
	seen := map[string]float64{}
	now := time.Now()
	c.depths([]store.Depth{
		{Pool: "go", Status: messages.Requested, Count: 2, Oldest: now.Add(-time.Hour), Since: now.Add(-30 * time.Minute)},
		{Pool: "go", Status: messages.Scheduling, Count: 1, Oldest: now.Add(-2 * time.Hour)},
		{Pool: "go", Status: messages.Scheduled, Count: 3, Oldest: now.Add(-time.Hour), Since: now.Add(-time.Minute)},
		{Pool: "later", Status: messages.Requested, Count: 2, Oldest: now.Add(-time.Hour), Since: now.Add(-30 * time.Minute)},
		{Pool: "later", Status: messages.Scheduling, Count: 1},
		{Pool: "gone", Status: messages.Running, Count: 1, Oldest: now.Add(-time.Minute)},
	}, map[string]bool{"go": true, "idle": true}, func(d *prometheus.Desc, v float64, labels ...string) { seen[names[d]+fmt.Sprint(labels)] = v })
	require.Len(t, seen, 4*(4+4+2))
	for name, want := range map[string]float64{
		"waiting[go requested]": 3, "waiting[go scheduled]": 3, "waiting[go running]": 0, "waiting[idle scheduled]": 0, "waiting[gone running]": 1,
		"placed[go]": 60, "placed[idle]": 0, "placed[gone]": 0, "oldest[go requested]": 7200, "oldest[go scheduled]": 3600, "oldest[idle requested]": 0,
		"oldest[later requested]": 3600,
		"stale[go]":               1800, "stale[later]": 0, "stale[idle]": 0, // no worker of pool "later" is ready
	} {
		got, there := seen[name]
		require.True(t, there, name)
		require.InDelta(t, want, got, 30, name)
	}
}
