package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// scrapesMax bounds the scrapes at a time; the others are answered with 503. Each asks the pools, the store and the broker
// for at most two seconds.
const scrapesMax = 4

// pools shows the pools of this node. A series stands at zero where there is nothing, so that an alert sees it.
func (c *liveCollector) pools(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	for name, d := range c.of.pools.DescribeAll(ctx) {
		states, grades, queued := map[lifecycle.State]int{}, map[health.Grade]int{}, 0
		for i := range d.Workers {
			w := &d.Workers[i]
			states[w.State]++
			grades[w.Grade]++
			queued += w.Report.QueueDepth
		}
		for _, state := range lifecycle.States() {
			gauge(c.workers, float64(states[state]), name, state.String())
		}
		for _, grade := range health.Grades() {
			gauge(c.grades, float64(grades[grade]), name, grade.String())
		}
		gauge(c.grades, float64(grades[health.Unknown]), name, health.Unknown.String())
		gauge(c.queued, float64(queued), name)
		gauge(c.broke, number(d.Broken != ""), name)
		for _, mode := range lead.Modes() {
			gauge(c.router, number(d.Lead.Mode == mode), name, mode.String())
		}
	}
	if taken := c.of.beats.last(); !taken.IsZero() {
		gauge(c.beatAge, time.Since(taken).Seconds())
	}
}

// openStatuses are those of executions that have not ended.
var openStatuses = []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling}

// depths shows how much has not ended, of each pool that this node serves or that work waits for.
func (c *liveCollector) depths(depths []store.Depth, gauge func(*prometheus.Desc, float64, ...string)) {
	type key struct {
		pool   string
		status messages.Status
	}
	all := map[key]store.Depth{}
	pools := map[string]struct{}{}
	for pool := range c.of.pools.all() {
		pools[pool] = struct{}{}
	}
	for _, d := range depths {
		pools[d.Pool] = struct{}{}
		status := d.Status
		if status == messages.Scheduling { // a router is placing it
			status = messages.Requested
		}
		sum := all[key{d.Pool, status}]
		sum.Count += d.Count
		sum.Oldest = store.OldestOf(sum.Oldest, d.Oldest)
		if !d.Placed.IsZero() {
			sum.Placed = d.Placed
		}
		all[key{d.Pool, status}] = sum
	}
	for pool := range pools {
		for _, status := range openStatuses {
			d := all[key{pool, status}]
			gauge(c.waiting, float64(d.Count), pool, status.String())
			gauge(c.oldest, c.age(d.Oldest), pool, status.String())
		}
		gauge(c.placed, c.age(all[key{pool, messages.Scheduled}].Placed), pool)
	}
}

// age is how long ago a time is that the store noted, in seconds; 0: there is none.
func (c *liveCollector) age(stored time.Time) float64 {
	if stored.IsZero() {
		return 0
	}
	return max(c.of.clock.Since(stored).Seconds(), 0)
}
