package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
	"github.com/troupe-run/troupe/tracing"
	"github.com/troupe-run/troupe/web"
)

// Node is one running node. Start it once, then Stop it once.
type Node struct {
	*base

	catalog   *catalog
	http      *httpServer
	folder    *dataFolder
	adapters  *adapters
	servers   *watcher
	self      *self
	member    *member
	network   *network
	routing   *routing
	operator  *operate.Operator
	forest    *forest // of the actors of all nodes; made while the node starts
	metrics   *metrics
	findings  *alerting
	reloader  *reloader
	bridges   *bridges
	elsewhere *elsewhere
	webhooks  *webhooks
	monitors  *monitors
	backend   *backend
	tree      *tree

	stop    sync.Once
	stopErr error
}

// New checks the configuration and returns a node that has started nothing.
func New(cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	data, err := filepath.Abs(cfg.Data) // the guardian and the workers have working folders of their own
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w; give it as an absolute path", cfg.Data, err)
	}
	cfg.Data = data
	n := &Node{base: newBase(cfg)}
	n.assemble()
	return n, nil
}

// assemble makes the parts of the node, none of which does anything yet.
func (n *Node) assemble() {
	b := n.base
	feeds, outcomes, backlog, outbox := actors.NewFeeds(), actors.NewOutcomes(), &actors.Backlog{}, &notices{base: b}
	n.catalog, n.http, n.folder, n.member = newCatalog(b), &httpServer{base: b, logins: &logins{base: b, adapter: n.Adapter}}, &dataFolder{base: b}, newMember(b)
	n.servers = newWatcher(b, backlog)
	n.servers.member = n.member
	hooks := newWebhooks(b, &n.catalog.secrets)
	n.webhooks = hooks
	heartbeats, judge, answers := &beats{base: b}, newJudge(b, n.catalog), &retries{base: b, catalog: n.catalog}
	n.metrics = newMetrics(&sources{base: b, servers: n.servers, backlog: backlog, beats: heartbeats, notices: outbox})
	n.member.lost = n.metrics.nodesLost.Inc
	n.findings = newAlerting(b, n.metrics.registry)
	n.elsewhere = newElsewhere(b, outcomes, n.metrics.bridges.outcomes)
	n.tree = &tree{base: b, outcomes: outcomes, elsewhere: n.elsewhere, backlog: backlog, metrics: n.metrics, notices: outbox, webhooks: hooks}
	n.self = &self{base: b, member: n.member, addr: n.http.main.addr, gate: n.servers.gate}
	n.operator = n.newOperator(feeds, outcomes, answers)
	n.findings.nodes = n.operator.Readings
	n.routing = &routing{base: b, operator: n.operator, others: n.member.Others, routed: map[string]routed{}}
	n.network = &network{base: b, operator: n.operator, renewing: n.member.renewing, lost: make(chan struct{}, 1)}
	n.adapters = &adapters{base: b, servers: n.servers, network: n.network, searched: n.catalog.searched}
	short := newShortages(n.logger, n.metrics.flow.short)
	configs := &poolConfigs{
		base: b, catalog: n.catalog, member: n.member, metrics: n.metrics, routing: n.routing, servers: n.servers, operator: n.operator,
		feeds: feeds, short: short, env: b.cfg.environment(),
	}
	n.reloader = &reloader{
		base: b, catalog: n.catalog, configs: configs, secured: n.http.reload, turn: make(chan struct{}, 1),
		starter: &poolStarter{base: b, configs: configs, member: n.member, routing: n.routing},
	}
	submits := &submissions{base: b, catalog: n.catalog, servers: n.servers, webhooks: hooks}
	n.bridges = &bridges{
		base: b, outcomes: outcomes, elsewhere: n.elsewhere, judge: judge, metrics: n.metrics, routing: n.routing, notices: outbox, webhooks: hooks,
		intake: &intake{base: b, submissions: submits, redact: n.catalog.redact, count: n.metrics.bridges.intake},
	}
	sweeps := newSweeper(b, n.tree.record, judge, n.metrics.takenBack)
	operations := newOperations(b, n.operator)
	n.monitors = &monitors{
		base: b, beats: heartbeats, bridges: n.bridges, operator: n.operator, routing: n.routing, sweeper: sweeps,
		unserved: newUnservedPools(b, n.catalog, n.operator.Remote, sweeps), findings: n.findings, bulk: operations, past: &keyframes{base: b, operator: n.operator},
	}
	ready := &readiness{
		base: b, servers: n.servers, backlog: backlog, beats: heartbeats, notices: outbox, short: short,
		member: n.member, network: n.network, reloader: n.reloader,
	}
	n.backend = &backend{
		Operator: n.operator, webhooks: hooks, base: b, submissions: submits, catalog: n.catalog, reloader: n.reloader, retries: answers,
		bulk: operations, retried: n.metrics.retried, findings: n.findings,
		readiness: ready, overviews: newOverviews(b, n.operator, ready, n.findings, n.servers.gate),
	}
	operations.retries = n.backend
}

// Start brings the node up: it returns once the tree runs and the API listens. While the store of the full mode is away
// it waits, with the API open for those who ask what it waits for; the end of ctx ends that. It does not wait for the
// broker: what is submitted meanwhile is kept. An error leaves nothing behind.
func (n *Node) Start(ctx context.Context) error {
	if err := n.bringUp(ctx); err != nil {
		return errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	n.phase.started.Store(true)
	n.routing.lookForRouters()
	n.logger.Info("node started", "node", n.cfg.Name, "incarnation", n.incarnation, "data", n.cfg.Data, "listen", n.Addr())
	return nil
}

func (n *Node) bringUp(ctx context.Context) error {
	ctx, n.phase.abort = context.WithCancelCause(ctx)
	defer n.phase.abort(nil)
	patient := n.servers.patient
	for _, step := range []func(context.Context) error{
		n.trace, n.http.listen, n.folder.prepare, n.adapters.openEmbedded, n.folder.materialize, n.catalog.load, n.webhooks.prepare, n.adapters.openBroker,
		n.found, n.openPeers, n.serveEarly,
		n.adapters.openStore, n.folder.endEarlier, n.adapters.declareShared, patient(n.belong), patient(n.join),
		patient(n.catalog.save), patient(n.operator.Cordons.Read), n.startTree, n.serve,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("start the node: %w", context.Cause(ctx))
		}
	}
	return nil
}

// startTree starts the supervision tree, left to right: the recorder, the bridges, the pools, the monitors.
func (n *Node) startTree(ctx context.Context) error {
	if err := n.servers.await(ctx, n.monitors.sweeper.rescueOrphans); err != nil {
		return fmt.Errorf("give back the work of an earlier boot: %w", err)
	}
	if err := n.tree.start(ctx, n.rootGroup()); err != nil {
		return err
	}
	if err := n.reloader.starter.startAll(ctx, n.catalog.set()); err != nil {
		return err
	}
	n.phase.open.Store(true)
	if _, fenced := n.member.isFenced(); fenced { // while its pools were starting, or just now
		n.phase.open.Store(false)
	}
	return nil
}

// newOperator makes what answers callers and operators of this node. The store, the pools and the network come while the node starts.
func (n *Node) newOperator(feeds *actors.Feeds, outcomes *actors.Outcomes, answers *retries) *operate.Operator {
	return operate.New(operate.Config{
		Name: n.cfg.Name, Incarnation: n.incarnation, Logger: n.logger, Store: n.store, Clock: &n.clock, Pools: n.pools, Self: n.self,
		Mailboxes: n.mailboxes, Journal: n.journal.add, Readings: n.findings.readings, Servers: n.servers, Members: n.member, Record: n.tree.record, Feeds: feeds, Outcomes: outcomes, Runs: n.runs, Serves: n.catalog.serves,
		MarkPool: func(v *view.Pool) { n.reloader.refused.Load().mark(v) }, Retries: answers.answer, BackOffMax: answers.longest,
		Retains: n.cfg.RetainExecutions, Recorded: n.cfg.RetainJournal, Transitions: n.cfg.RetainEvents, Counted: n.cfg.minutesKept(), Hours: n.cfg.RetainCounts, SessionTimeout: n.cfg.SessionTimeout, ProbeTimeout: n.cfg.ProbeTimeout, BeatEvery: n.cfg.BeatEvery,
		Grades: operate.Grades{Thresholds: n.cfg.thresholds(), StalenessTimes: n.cfg.StalenessMultiplier},
	})
}

// found makes the system of the actors and what shows it, and begins to watch the servers.
func (n *Node) found(context.Context) error {
	n.system = actors.NewSystem(n.logger.Named("actors"))
	n.pools.system = n.system
	n.metrics.open()
	n.recorder, n.delivery = n.system.PID("troupe/recorder"), n.system.PID("troupe/bridges/delivery")
	n.forest = newForest(n.base, n.member, n.http.main.addr, n.operator, n.servers)
	n.servers.start()
	n.phase.founded.Store(true)
	return nil
}

// trace makes what makes spans. It is open before anything is submitted, and ends after the last execution.
func (n *Node) trace(context.Context) (err error) {
	n.tracer, err = tracing.New(tracing.Config{
		Settings: n.cfg.Tracing, Node: n.cfg.Name, Incarnation: n.incarnation.String(), Version: n.cfg.Version, Logger: n.logger.Named("tracing"),
		Count: func(result string, spans int) { n.metrics.spans.WithLabelValues(result).Add(float64(spans)) },
	})
	return err
}

// openPeers takes the port for the other nodes, and answers what they ask there.
func (n *Node) openPeers(context.Context) error {
	return n.network.open(slices.Concat(n.routing.peerHandlers(), n.operator.Handlers(), n.forest.handlers(), n.network.handlers(), n.elsewhere.handlers()))
}

func (n *Node) belong(ctx context.Context) error { return n.network.belong(ctx, n.adapters.adapter) }

func (n *Node) join(ctx context.Context) error { return n.member.join(ctx, n.self.Row()) }

func (n *Node) rootGroup() actors.Child {
	children := []supervisor.ChildSpec{
		n.memberSpec,
		n.tree.recorderSpec,
		n.tree.group("bridges", n.bridges.specs()...),
		n.tree.group("pools"),
		n.tree.group("monitors", n.monitors.specs()...),
	}
	if n.peers != nil {
		children = append(children, n.network.spec)
	}
	return supervisor.NewGroup(supervisor.GroupConfig{
		System: n.system, Name: "troupe", Logger: n.logger.Named("troupe"), Fatal: n.fatal,
		Fenced: n.member.fence, Children: append(children, n.tree.observerSpec),
	})
}

func (n *Node) memberSpec() actors.Child {
	return n.member.spec(supervisor.MemberConfig{
		Tell: n.tell, Heartbeats: n.monitors.beats.write, Rescue: n.monitors.sweeper.rescueOrphans, Peers: n.network.ask(), Saw: n.operator.Directory.Saw,
		Refuses: n.network.refuses(), Lost: n.network.lost,
	})
}

// tell passes membership's news to every pool, and to what else in the node looks at the store.
func (n *Node) tell(message any) {
	n.network.tell(message)
	n.elsewhere.hear(message)
	n.member.hear(message)
	if _, stands := message.(*supervisor.StoreStands); stands {
		n.servers.Suspect()
	}
	n.pools.TellAll(message)
	if _, down := message.(*supervisor.NodeDown); down {
		n.routing.lookForRouters()
		n.bridges.lookAround()
	}
}

// serveEarly opens the API of a node that may have to wait for its servers, so that one can ask it what for.
func (n *Node) serveEarly(ctx context.Context) error {
	if !n.cfg.full() {
		return nil
	}
	n.logger.Info("node is starting", "node", n.cfg.Name, "incarnation", n.incarnation, "listen", n.Addr())
	return n.serve(ctx)
}

// Backend returns the node's operations, as the HTTP API and the Go API use them.
func (n *Node) Backend() api.Backend { return n.backend }

// Prepare checks requests and completes them to executions, as Submit does, and stores nothing: for callers that store
// them in a transaction of their own. Its errors are *messages.Problem.
func (n *Node) Prepare(ctx context.Context, requests []submit.Request) ([]messages.Execution, error) {
	return n.backend.submissions.prepare(ctx, requests)
}

// Adapter is the store as its adapter opened it, for what only that adapter can do; nil while the node waits for it.
func (n *Node) Adapter() store.Store {
	if !n.phase.open.Load() {
		return nil
	}
	return n.adapters.adapter
}

// serve opens the API, unless it is open.
func (n *Node) serve(context.Context) error {
	if n.http.waits() {
		n.http.serve(api.Config{Backend: n.backend, Gate: n.servers.gate, Metrics: n.metrics.handler(), Debug: debug.Actors(n.forest.shown),
			Tree: n.forest.shown.Follow, ConsolePage: web.Handler(n.cfg.BasePath)})
	}
	return nil
}

// Addr is the address that the API listens on; empty without one.
func (n *Node) Addr() string { return n.http.main.addr() }

// HealthAddr is the address that answers /healthz and /readyz alone; empty without one.
func (n *Node) HealthAddr() string { return n.http.probes.addr() }

// Reload reads the packs, the tokens and the certificates again, as POST /api/v1/reload does. By is who asks; empty: a signal.
func (n *Node) Reload(ctx context.Context, by string) (api.ReloadReport, error) {
	return n.reloader.reload(ctx, by)
}

// Incarnation names this boot.
func (n *Node) Incarnation() messages.Incarnation { return n.incarnation }

// PeerAddress is where the others reach this node, as host:port, and for which of them the address means this node; empty:
// nowhere.
func (n *Node) PeerAddress() (address, scope string) { return n.peerAddress() }

// Registry knows the node's live actors.
func (n *Node) Registry() *actors.Registry { return n.system.Registry }

// closeTimeout bounds what is left of a stop once the work has ended.
const closeTimeout = 10 * time.Second
