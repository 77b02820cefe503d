package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/operate"
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
type monitors struct {
	*base
	beats    *beats
	bridges  *bridges
	operator *operate.Operator
	routing  *routing
	sweeper  *sweeper
	unserved *unservedPools
	findings *alerting
	bulk     *operations
	past     *keyframes
}

func (m *monitors) specs() []supervisor.ChildSpec {
	monitor := func(name string, every time.Duration, do func(context.Context) error) supervisor.ChildSpec {
		return func() actors.Child {
			return actors.NewMonitor(actors.MonitorConfig{
				System: m.system, Name: name, Every: every, Jitter: 0.1, Do: do, Logger: m.logger.Named(name),
			})
		}
	}
	specs := []supervisor.ChildSpec{
		monitor("heartbeat", m.cfg.HeartbeatInterval, m.beats.write),
		monitor("cancels", m.cfg.SweepInterval, m.bridges.repeatCancels),
		monitor("homeless", m.cfg.HeartbeatInterval, m.homelessRound),
		monitor("cordons", m.cfg.HeartbeatInterval, m.operator.Cordons.Read),
		monitor("journal", flushEvery, m.journal.flush),
		monitor("rollups", rollupCollect, m.rollups.round),
		monitor("folds", foldsEvery, (&folds{m.base}).round),
		monitor("recounts", recountsEvery, (&recounts{base: m.base}).round),
		monitor("keyframes", keyframeTick, m.past.round),
		monitor("findings", findingsTick, m.findings.round),
		monitor("operations", operationsEvery, m.bulk.round),
		monitor("retention", m.cfg.RetentionInterval, m.retentionRound),
	}
	if m.routing.leads() {
		specs = append(specs, monitor("routers", m.cfg.BeatEvery, m.routing.leadRound))
	}
	ended := &endedQueues{
		store: m.store, broker: m.broker.adapter, settings: m.cfg.Broker, runtimes: m.cfg.Runtimes, logger: m.logger,
	}
	if m.cfg.full() { // more often than a new router waits before it fails anything for want of workers
		specs = append(specs, monitor("elsewhere", m.cfg.HeartbeatInterval/2, m.routing.lookElsewhere),
			monitor("queues", m.cfg.HeartbeatInterval, ended.round))
	}
	names, every := m.sweeper.monitors()
	for _, name := range names {
		specs = append(specs, monitor(name, every[name], func(ctx context.Context) error { return m.sweeper.round(ctx, name) }))
	}
	return specs
}

// homelessRound ends the work of the pools that nobody serves. A node that starts or drains knows too little for that.
func (m *monitors) homelessRound(ctx context.Context) error {
	if !m.phase.started.Load() || m.phase.draining.Load() {
		return nil
	}
	return m.unserved.round(ctx)
}

// retentionShare is the most of the time between two rounds that one of them takes: past it the next round goes on.
const retentionShare = 3

// retentionRound deletes what is old, in batches, for as long as there is more and its share of the time lasts. What could not
// be deleted of one kind keeps nothing of the others.
func (m *monitors) retentionRound(ctx context.Context) error {
	now, err := m.store.Now(ctx)
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
		FinishedBefore: before(m.cfg.RetainExecutions), DeadLettersBefore: before(m.cfg.RetainDeadLetters),
		EventsBefore: before(m.cfg.RetainEvents), JournalBefore: before(m.cfg.RetainJournal),
		MinutesBefore: before(m.cfg.minutesKept()).Truncate(time.Hour), HoursBefore: before(m.cfg.RetainCounts), SessionsBefore: before(m.cfg.RetainSessions),
		NodesBefore: before(m.cfg.RetainNodes), Limit: m.cfg.RetentionBatch,
	}
	end := time.Now().Add(min(m.cfg.RetentionInterval/retentionShare, 20*time.Second))
	var failed error
	for more := true; more && time.Now().Before(end) && ctx.Err() == nil; {
		purged, err := m.store.Purge(ctx, purge)
		if err != nil {
			failed = err // the others go on
		}
		if more = purged.More; purged.Rows > 0 {
			m.logger.Debug("old rows deleted", "rows", purged.Rows)
		}
	}
	return failed
}
