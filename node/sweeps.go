package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// graces is how long a stop ladder takes at most.
func graces(g process.Graces) time.Duration {
	total := time.Duration(0)
	for _, d := range []struct{ set, otherwise time.Duration }{
		{g.Cancel, 5 * time.Second}, {g.Shutdown, time.Second}, {g.Terminate, 5 * time.Second},
	} {
		orElse(&d.set, d.otherwise)
		total += d.set
	}
	return total
}

// monitors are the tree's regular rounds. All their times stand in the rows.
func (n *Node) monitors() []supervisor.ChildSpec {
	monitor := func(name string, every time.Duration, do func(context.Context) error) supervisor.ChildSpec {
		return func() actors.Child {
			return actors.NewMonitor(actors.MonitorConfig{
				System: n.system, Name: name, Every: every, Jitter: 0.1, Do: do, Logger: n.logger.Named(name),
			})
		}
	}
	specs := []supervisor.ChildSpec{
		monitor("heartbeat", n.cfg.HeartbeatInterval, n.heartbeat),
		monitor("cancels", n.cfg.SweepInterval, n.bridges.repeatCancels),
		monitor("homeless", n.cfg.HeartbeatInterval, n.homelessRound),
		monitor("cordons", n.cfg.HeartbeatInterval, n.operator.Cordons.Read),
		monitor("retention", n.cfg.RetentionInterval, n.retentionRound),
	}
	if n.routing.leads() {
		specs = append(specs, monitor("routers", n.cfg.BeatEvery, n.routing.leadRound))
	}
	if n.cfg.full() { // more often than a new router waits before it fails anything for want of workers
		specs = append(specs, monitor("elsewhere", n.cfg.HeartbeatInterval/2, n.routing.lookElsewhere),
			monitor("queues", n.cfg.HeartbeatInterval, n.ended.round))
	}
	names, every := n.sweeper.monitors()
	for _, name := range names {
		specs = append(specs, monitor(name, every[name], func(ctx context.Context) error { return n.sweeper.round(ctx, name) }))
	}
	return specs
}

// record has changes made by the recorder, or, before the tree runs, by the store itself.
func (n *Node) record(ctx context.Context, pool string, items []actors.Item) ([]store.Result, error) {
	if n.root.Load() == nil {
		changes := make([]store.Change, len(items))
		for i := range items {
			changes[i] = items[i].Change
		}
		return n.store.Apply(ctx, changes)
	}
	return actors.Ask[*actors.Record, []store.Result](ctx, n.system, n.recorder,
		&actors.Record{Items: items, Pool: n.pools.pid(pool)})
}

// rescueOrphans gives back what dead incarnations had on their workers.
func (n *Node) rescueOrphans(ctx context.Context) error { return n.sweeper.round(ctx, "orphans") }

// homelessRound ends the work of the pools that nobody serves. A node that starts or drains knows too little for that.
func (n *Node) homelessRound(ctx context.Context) error {
	if !n.phase.started.Load() || n.phase.draining.Load() {
		return nil
	}
	return n.unserved.round(ctx)
}

// retentionShare is the most of the time between two rounds that one of them takes: past it the next round goes on.
const retentionShare = 3

// retentionRound deletes what is old, in batches, for as long as there is more and its share of the time lasts. What could not
// be deleted of one kind keeps nothing of the others.
func (n *Node) retentionRound(ctx context.Context) error {
	now, err := n.store.Now(ctx)
	if err != nil {
		return err
	}
	before := func(age time.Duration) time.Time {
		if age < 0 {
			return time.Time{}
		}
		return now.Add(-age)
	}
	purge := store.Purge{
		FinishedBefore: before(n.cfg.RetainExecutions), DeadLettersBefore: before(n.cfg.RetainDeadLetters),
		EventsBefore: before(n.cfg.RetainEvents), SessionsBefore: before(n.cfg.RetainSessions),
		NodesBefore: before(n.cfg.RetainNodes), Limit: n.cfg.RetentionBatch,
	}
	end := time.Now().Add(min(n.cfg.RetentionInterval/retentionShare, 20*time.Second))
	var failed error
	for more := true; more && time.Now().Before(end) && ctx.Err() == nil; {
		purged, err := n.store.Purge(ctx, purge)
		if err != nil {
			failed = err // the others go on
		}
		if more = purged.More; purged.Rows > 0 {
			n.logger.Debug("old rows deleted", "rows", purged.Rows)
		}
	}
	return failed
}
