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
//
// It returns the pools of which a worker could begin now what is due: it is ready, of a grade that is given work, and not cordoned.
func (c *liveCollector) pools(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) (ready map[string]bool) {
	ready = map[string]bool{}
	for name, d := range c.of.pools.DescribeAll(ctx) {
		states, grades, queued := map[lifecycle.State]int{}, map[health.Grade]int{}, 0
		for i := range d.Workers {
			w := &d.Workers[i]
			states[w.State]++
			grades[w.Grade]++
			usable := w.Grade == health.Healthy || w.Grade == health.Degraded
			ready[name] = ready[name] || w.State == lifecycle.Ready && usable && !w.Cordoned && !d.Cordoned
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
		unattached, _, _ := d.Unattached()
		gauge(c.unattached, float64(unattached), name)
		for _, mode := range lead.Modes() {
			gauge(c.router, number(d.Lead.Mode == mode), name, mode.String())
		}
	}
	if taken := c.of.beats.last(); !taken.IsZero() {
		gauge(c.beatAge, time.Since(taken).Seconds())
	}
	return ready
}

// openStatuses are those of executions that have not ended.
var openStatuses = []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling}

// depths shows how much has not ended, of each pool that this node serves or that work waits for.
func (c *liveCollector) depths(depths []store.Depth, ready map[string]bool, gauge func(*prometheus.Desc, float64, ...string)) {
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
		sum.Since = store.OldestOf(sum.Since, d.Since)
		all[key{d.Pool, status}] = sum
	}
	for pool := range pools {
		for _, status := range openStatuses {
			d := all[key{pool, status}]
			gauge(c.waiting, float64(d.Count), pool, status.String())
			gauge(c.oldest, c.age(d.Oldest), pool, status.String())
		}
		placed := c.age(all[key{pool, messages.Scheduled}].Since)
		gauge(c.placed, placed, pool)
		if ready[pool] {
			placed = max(placed, c.age(all[key{pool, messages.Requested}].Since))
		}
		gauge(c.stale, placed, pool)
	}
}

// age is how long ago a time is that the store noted, in seconds; 0: there is none.
func (c *liveCollector) age(stored time.Time) float64 {
	if stored.IsZero() {
		return 0
	}
	return max(c.of.clock.Since(stored).Seconds(), 0)
}

// states counts the stored states that were set aside, of each pool that this node serves or that has any.
func (c *liveCollector) states(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	list, err := c.of.store.AsideStates(ctx, asideMax)
	if err != nil {
		return
	}
	counts := map[string]int{}
	for pool := range c.of.pools.all() {
		counts[pool] = 0
	}
	for i := range list {
		counts[list[i].Pool]++
	}
	for pool, n := range counts {
		gauge(c.aside, float64(n), pool)
	}
}
