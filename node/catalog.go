package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/packs"
	"github.com/troupe-run/troupe/packs/corego"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor"
)

// catalog is what the node serves now: the packs as they were read last, and the secrets of their pools.
type catalog struct {
	secrets secrets
	packs   atomic.Pointer[pack.Set]
}

func newCatalog(cfg *Config) *catalog {
	return &catalog{secrets: secrets{forget: cfg.ForgetEnv, data: cfg.Data}}
}

func (c *catalog) set() *pack.Set { return c.packs.Load() }

func (c *catalog) action(ref, _ string) (*messages.Action, bool) { return c.set().Action(ref) }

// redact removes the action's secret parameters, and the secrets of its pool from the others.
func (c *catalog) redact(ref string, parameters json.RawMessage) json.RawMessage {
	a, ok := c.action(ref, "")
	if !ok {
		return parameters
	}
	clean := pack.Redact(a, parameters)
	if p, ok := c.set().Pool(a.Pool); ok {
		return c.secrets.shown(p, clean)
	}
	return clean
}

// handlers are the built-in go handlers and the configuration's own, which win.
func (n *Node) handlers() map[string]messages.Handler {
	all := map[string]messages.Handler{}
	if !n.cfg.NoBuiltins {
		for name, handler := range corego.Handlers() {
			all[name] = adapt(handler)
		}
	}
	maps.Copy(all, n.cfg.Handlers)
	return all
}

// adapt gives a built-in handler the shape of every other.
func adapt(h corego.Handler) messages.Handler {
	return func(ctx context.Context, t *messages.Task) (any, error) {
		value, err := h(ctx, t.Parameters)
		if failure, own := err.(*corego.Failure); own { //nolint:errorlint // the handlers return it bare
			return nil, &messages.Error{
				Code: messages.Code(failure.Code), Message: failure.Message, Retriable: failure.Retriable,
			}
		}
		return value, err
	}
}

// loadPacks reads the packs; a problem in any of them stops the start with all of them named.
func (n *Node) loadPacks(context.Context) error {
	set, err := n.readPacks()
	if err != nil {
		return fmt.Errorf("packs cannot be loaded:\n%w", err)
	}
	n.catalog.packs.Store(set)
	return nil
}

func (n *Node) saveActions(ctx context.Context) error {
	return n.store.SaveActions(ctx, n.catalog.set().Actions)
}

// takeSecrets moves what the packs name out of the node's environment.
func (n *Node) takeSecrets(set *pack.Set) {
	if err := n.catalog.secrets.take(set.Pools); err != nil {
		n.logger.Warn("secrets of this node are in sight of its user's processes", "error", err)
	}
}

func (n *Node) readPacks() (*pack.Set, error) {
	var dirs []string
	if !n.cfg.NoBuiltins {
		for _, name := range packs.Names() {
			if name == "demo" && n.cfg.NoDemo {
				continue
			}
			if spec, needs := n.cfg.Runtimes.Of(packs.Needs(name)); needs && !n.hasProgram(n.cfg.Interpreters[spec.Name]) {
				n.logger.Info("the "+name+" pack is left out: no "+spec.Interpreter.Title+" interpreter", string(spec.Name), n.cfg.Interpreters[spec.Name])
				continue
			}
			dirs = append(dirs, packs.Path(n.cfg.Data, name))
		}
	}
	handlers := n.handlers()
	set, err := pack.Load(append(dirs, n.cfg.Packs...), pack.Options{
		MaxRetries: n.cfg.MaxRetries, Workers: n.cfg.Workers, Runtimes: n.cfg.Runtimes, Registered: n.cfg.Actions,
		HasHandler: func(name string) bool { _, ok := handlers[name]; return ok }, User: lookUpUser,
	})
	if err != nil {
		return nil, err
	}
	n.takeSecrets(set)
	return set, n.openSDK(set)
}

func (n *Node) hasProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// newJudge makes a configuration of workers that only decides about retries, for the sweeps and bridges.
func newJudge(b *base, c *catalog) *actors.WorkerConfig {
	return &actors.WorkerConfig{Clock: &b.clock, Action: c.action, Retry: b.cfg.Retry, RetryRules: b.cfg.RetryRules, RetryDisabled: b.cfg.RetryDisabled}
}

// poolConfig is what one pool of the set becomes on this node.
func (n *Node) poolConfig(set *pack.Set, p *pack.Pool) supervisor.PoolConfig {
	interval := orValue(p.Health.Interval, n.cfg.HealthCheckInterval)
	return supervisor.PoolConfig{
		System: n.system, Store: n.store, Clock: &n.clock, Broker: n.broker, Settings: n.cfg.Broker, Recorder: n.recorder,
		Delivery: n.delivery, Logger: n.logger.Named("pool").With("pool", p.Name), Name: p.Name, Runtime: n.spec(p),
		Node: n.member.label, Incarnation: n.incarnation, Workers: p.Min, WorkersMax: p.Max, Worker: n.workerConfig(set, p),
		Roster: roster.Config{
			StaleAfter: health.Limit(n.cfg.HeartbeatInterval, n.cfg.StalenessMultiplier), StaleTimes: n.cfg.StalenessMultiplier,
			SteadyAfter: n.cfg.HeartbeatInterval, ClaimTimeout: n.cfg.ClaimTimeout, SessionTimeout: n.cfg.SessionTimeout,
			ClaimSweepOff: n.cfg.ClaimSweepOff,
			SessionSweep:  n.cfg.SessionSweep, QueueDepthDegraded: n.cfg.Thresholds.QueueDepthDegraded,
			WindowMax: windowOf(p.Recycle.MaxExecutions),
		},
		Restart:      n.cfg.Restart,
		Recycle:      supervisor.Recycle{MaxAge: p.Recycle.MaxAge, MaxMemory: p.Recycle.MaxMemory},
		ClaimTimeout: n.cfg.ClaimTimeout, HealthInterval: interval, HealthEnabled: !n.cfg.HealthDisabled,
		EchoEvery: n.cfg.EchoInterval, BeatEvery: n.cfg.HeartbeatInterval, Fingerprint: p.Fingerprint,
		Serves: serves(set, p), Peers: n.routing.poolPeers(),
		Hooks: n.poolHooks(), Halted: n.servers.Halted,
		Cordoned: func() (pool, node bool) { return n.operator.Cordons.Of(p.Name) },
	}
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

func (n *Node) workerConfig(set *pack.Set, p *pack.Pool) actors.WorkerConfig {
	return actors.WorkerConfig{
		Lease: n.member.lease, Clock: &n.clock, Logger: n.logger.Named("worker").With("pool", p.Name), Feeds: n.feeds, Sessions: n.store,
		Runner: n.runner(set, p, n.catalog.secrets.use), Action: n.catalog.action, Thresholds: n.thresholds(), CountActionErrors: n.cfg.CountActionErrors,
		Retry: n.cfg.Retry, RetryRules: n.cfg.RetryRules, RetryDisabled: n.cfg.RetryDisabled, InitTimeout: orValue(p.Init, n.cfg.InitTimeout),
		ProbeTimeout: orValue(p.Health.Timeout, n.cfg.ProbeTimeout), ProbeAgain: n.cfg.ProbeAgain, Graces: n.cfg.Graces,
		Resident: process.Resident, RunsMax: p.Recycle.MaxExecutions,
		Transitions: n.metrics.transition, Runs: n.metrics.run, Probes: n.metrics.probe, Leaked: n.metrics.leak,
		SnapshotEvery: p.SnapshotEvery, KeepWithin: n.cfg.KeepWithin, LeaveWithin: n.cfg.ShutdownTimeout,
		Snapshots: n.metrics.snapshot, UnknownReply: n.metrics.flow.unknownReply, Shortage: n.short.note,
	}
}

// startPools starts a supervisor for every pool that an action uses.
func (n *Node) startPools(ctx context.Context, set *pack.Set) error {
	for i := range set.Pools {
		if p := &set.Pools[i]; len(p.Actions) > 0 {
			if err := n.startPool(ctx, set, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Node) startPool(ctx context.Context, set *pack.Set, p *pack.Pool) error {
	handle := &poolHandle{memory: &supervisor.Memory{}}
	config := n.poolConfig(set, p)
	handle.config.Store(&config)
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	pid, err := actors.Ask[supervisor.AddChild, *actor.PID](limited, n.system, n.poolsPID, supervisor.AddChild{
		Spec: func() actors.Child { return supervisor.NewPool(*handle.config.Load(), handle.memory) },
	})
	if err != nil {
		return fmt.Errorf("start pool %s: %w", p.Name, err)
	}
	handle.pid = pid
	n.pools.add(p.Name, handle)
	n.tellDown(pid)
	return nil
}

// retirePool drains a pool that no action uses any more and stops its supervisor.
func (n *Node) retirePool(name, by string) {
	handle := n.pools.remove(name)
	if handle == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.ShutdownTimeout+time.Minute)
		defer cancel()
		_, err := actors.Ask[supervisor.Drain, struct{}](ctx, n.system, handle.pid,
			supervisor.Drain{Until: time.Now().Add(n.cfg.ShutdownTimeout), By: by})
		if err != nil {
			n.logger.Warn("removed pool did not drain", "pool", name, "error", err)
		}
		n.routing.forgetRouter(ctx, name)
		if _, err := actors.Ask[supervisor.ForgetChild, struct{}](ctx, n.system, n.poolsPID, supervisor.ForgetChild{PID: handle.pid}); err != nil {
			n.logger.Warn("removed pool not forgotten", "pool", name, "error", err)
		}
		if err := n.system.StopAndWait(ctx, handle.pid); err != nil {
			n.logger.Warn("removed pool did not stop", "pool", name, "error", err)
		}
	}()
}
