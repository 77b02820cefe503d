package node

import (
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor"
)

// poolConfigs says what a pool of the packs becomes on this node: its configuration, that of its workers, and the programs they run.
type poolConfigs struct {
	*base
	catalog  *catalog
	member   *member
	metrics  *metrics
	routing  *routing
	servers  *watcher
	operator *operate.Operator
	feeds    *actors.Feeds
	short    *shortages // of what starting programs takes
	env      []string   // what every program inherits
}

// newJudge makes a configuration of workers that only decides about retries, for the sweeps and bridges.
func newJudge(b *base, c *catalog) *actors.WorkerConfig {
	return &actors.WorkerConfig{Clock: &b.clock, Action: c.action, Retry: b.cfg.Retry, RetryRules: b.cfg.RetryRules, RetryDisabled: b.cfg.RetryDisabled}
}

// pool is the configuration of one pool of the set.
func (c *poolConfigs) pool(set *pack.Set, p *pack.Pool) supervisor.PoolConfig {
	c.metrics.pool(p.Name)
	interval := orValue(p.Health.Interval, c.cfg.HealthCheckInterval)
	return supervisor.PoolConfig{
		System: c.system, Store: c.store, Clock: &c.clock, Broker: c.broker, Settings: c.cfg.Broker, Recorder: c.recorder,
		Delivery: c.delivery, Logger: c.logger.Named("pool").With("pool", p.Name), Name: p.Name, Runtime: c.spec(p),
		Node: c.member.label, Incarnation: c.incarnation, Workers: p.Min, WorkersMax: p.Max, Worker: c.worker(set, p),
		Roster: roster.Config{
			StaleAfter: health.Limit(c.cfg.HeartbeatInterval, c.cfg.StalenessMultiplier), StaleTimes: c.cfg.StalenessMultiplier,
			SteadyAfter: c.cfg.HeartbeatInterval, ClaimTimeout: c.cfg.ClaimTimeout, SessionTimeout: c.cfg.SessionTimeout,
			ClaimSweepOff: c.cfg.ClaimSweepOff,
			SessionSweep:  c.cfg.SessionSweep, QueueDepthDegraded: c.cfg.Thresholds.QueueDepthDegraded,
			WindowMax: windowOf(p.Recycle.MaxExecutions), Claims: c.claims(p.Name),
		},
		Restart: c.cfg.Restart,
		Recycle: supervisor.Recycle{MaxAge: p.Recycle.MaxAge, MaxMemory: p.Recycle.MaxMemory},
		Direct:  c.cfg.handsOver(p.Name), ClaimTimeout: c.cfg.ClaimTimeout, HealthInterval: interval, HealthEnabled: !c.cfg.HealthDisabled,
		EchoEvery: c.cfg.EchoInterval, BeatEvery: c.cfg.HeartbeatInterval, Fingerprint: p.Fingerprint,
		Serves: serves(set, p), Peers: c.routing.poolPeers(),
		Hooks: c.hooks(), Journal: c.journal.add, Halted: func() roster.Reason { return c.servers.Halted(p.Name) },
		Cordoned: func() (pool, node bool) { return c.operator.Cordons.Of(p.Name) },
	}
}

// claims is this node, where what is offered to its routers is claimed as it is stored; zero: it is stored as placed.
func (c *poolConfigs) claims(pool string) (own messages.Incarnation) {
	if c.cfg.handsOver(pool) {
		own = c.incarnation
	}
	return own
}

// windowOf bounds what is placed ahead of a worker that runs so many executions at most: what is left when it has run them
// is taken back. 0: the default.
func windowOf(executionsMax int) int {
	if executionsMax <= 0 {
		return 0
	}
	return max(1, min(placement.WindowMax, executionsMax/10))
}

func orValue[T comparable](value, otherwise T) T {
	orElse(&value, otherwise)
	return value
}

// worker is the configuration of the pool's workers.
func (c *poolConfigs) worker(set *pack.Set, p *pack.Pool) actors.WorkerConfig {
	return actors.WorkerConfig{
		Lease: c.member.lease, Clock: &c.clock, Awake: &c.awake, NoWorkerDeadline: c.cfg.NoWorkerDeadline, Tracer: c.tracer, Logger: c.logger.Named("worker").With("pool", p.Name), Feeds: c.feeds, Sessions: c.store, Failures: c.store,
		Runner: c.runner(set, p, c.catalog.secrets.use), Action: c.catalog.action, Thresholds: c.cfg.thresholds(), CountActionErrors: c.cfg.CountActionErrors,
		Retry: c.cfg.Retry, RetryRules: c.cfg.RetryRules, RetryDisabled: c.cfg.RetryDisabled, InitTimeout: orValue(p.Init, c.cfg.InitTimeout),
		ProbeTimeout: orValue(p.Health.Timeout, c.cfg.ProbeTimeout), ProbeAgain: c.cfg.ProbeAgain, Graces: c.cfg.Graces,
		Resident: process.Resident, RunsMax: p.Recycle.MaxExecutions,
		Transitions: c.metrics.transition, Runs: c.metrics.run, Probes: c.metrics.probe, Leaked: c.metrics.leak,
		SnapshotEvery: p.SnapshotEvery, KeepWithin: c.cfg.KeepWithin, LeaveWithin: c.cfg.ShutdownTimeout,
		Snapshots: c.metrics.snapshot, UnknownReply: c.metrics.flow.unknownReply, Shortage: c.short.note,
	}
}

// trial is the configuration of a worker that tries the pool beside it. Nothing of its secrets is kept.
func (c *poolConfigs) trial(set *pack.Set, p *pack.Pool) actors.WorkerConfig {
	worker := c.worker(set, p)
	worker.Runner = c.runner(set, p, c.catalog.secrets.lend)
	worker.System, worker.PoolName, worker.Node, worker.Incarnation = c.system, p.Name, c.member.label, c.incarnation
	return worker
}

// hooks count what a pool does.
func (c *poolConfigs) hooks() supervisor.PoolHooks {
	m := c.metrics
	return supervisor.PoolHooks{
		Mode:     c.routing.mode,
		Reported: m.flow.reported,
		Replaced: func(pool string) { m.replaced.WithLabelValues(pool).Inc() },
		Restarted: func(pool string, delay time.Duration) {
			m.restarts.WithLabelValues(pool).Inc()
			m.backoff.WithLabelValues(pool).Observe(delay.Seconds())
		},
		Affinity:  func(pool string, e placement.Effect) { m.affinity.WithLabelValues(pool, e.String()).Inc() },
		TakenBack: m.takenBack,
		Placed:    m.flow.placed,
		Away:      m.flow.away,
		Echo: func(pool string, took time.Duration, late bool) {
			if late {
				m.echoLate.WithLabelValues(pool).Inc()
				return
			}
			m.echoTime.WithLabelValues(pool).Observe(took.Seconds())
		},
	}
}
