package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/filelock"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// Node is one running node. Start it once, then Stop it once.
type Node struct {
	*base

	skew        skew
	adapter     store.Store // store, as its adapter opened it
	servers     *watcher
	lock        *filelock.Lock // of the data folder, in the full mode
	guardian    *process.Guardian
	member      member
	routing     *routing
	network     *network
	ended       *endedQueues
	beats       beats
	forest      *forest // of the actors of all nodes
	operator    *operate.Operator
	outcomes    *actors.Outcomes
	submissions *submissions
	bridges     *bridges
	retries     *retries
	backend     *backend
	short       *shortages // of what starting programs takes
	feeds       *actors.Feeds
	judge       *actors.WorkerConfig
	backlog     actors.Backlog
	catalog     *catalog
	metrics     *metrics
	env         []string
	openKits    atomic.Pointer[string] // the folder of the SDKs that every user may read; nil: no pool needs one

	root     atomic.Pointer[actor.PID]
	poolsPID *actor.PID

	reload   chan struct{} // holds one while a reload is under way
	adopting sync.Mutex    // held while the node takes up the packs of a reload
	// lastRefused is the last reload, where it was refused.
	lastRefused atomic.Pointer[refusedReload]
	unserved    *unservedPools
	sweeper     *sweeper
	watching    func() // ends the watch over the servers

	access  *api.Access
	tls     *api.Certificates // nil: the API is served in clear
	http    httpPort
	probes  httpPort // for questions after its health alone, where one is asked for
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
	b := newBase(cfg)
	n := &Node{
		base: b, catalog: newCatalog(&b.cfg), outcomes: actors.NewOutcomes(), feeds: actors.NewFeeds(), env: cfg.environment(),
		reload: make(chan struct{}, 1),
	}
	n.skew.logger = n.logger.Named("clock")
	n.servers, n.judge, n.retries = newWatcher(b, &n.backlog), newJudge(b, n.catalog), &retries{base: b, catalog: n.catalog}
	n.submissions = &submissions{base: b, catalog: n.catalog, servers: n.servers}
	n.member.over, n.member.end = context.WithCancel(context.Background())
	n.operator = n.newOperator()
	n.routing = &routing{base: b, operator: n.operator, others: n.member.Others, routed: map[string]routed{}}
	n.network = &network{base: b, member: &n.member, operator: n.operator}
	told := &notices{base: b}
	n.metrics = newMetrics(&sources{base: b, servers: n.servers, backlog: &n.backlog, beats: &n.beats, notices: told})
	n.short = newShortages(n.logger, n.metrics.flow.short)
	n.bridges = &bridges{
		base: b, outcomes: n.outcomes, judge: n.judge, metrics: n.metrics, routing: n.routing, notices: told,
		intake: &intake{base: b, submissions: n.submissions, redact: n.catalog.redact, count: n.metrics.bridges.intake},
	}
	n.backend = &backend{
		Operator: n.operator, base: b, submissions: n.submissions, catalog: n.catalog, retries: n.retries, retried: n.metrics.retried, reload: n.Reload,
		readiness: &readiness{
			base: b, servers: n.servers, backlog: &n.backlog, beats: &n.beats, notices: told, short: n.short,
			lives: n.membershipNotes, refused: n.lastRefused.Load,
		},
	}
	return n, nil
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
	for _, step := range []func(context.Context) error{
		n.listen, n.prepare, n.openEmbedded, n.materialize, n.loadPacks, n.openBroker, n.found, n.openPeers, n.serveEarly,
		n.openStore, n.openProcesses, n.declareShared, n.patient(n.belong), n.patient(n.join), n.patient(n.saveActions),
		n.patient(n.operator.Cordons.Read), n.startTree, n.serve,
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

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// openProcesses ends what an earlier boot left running, before anything of that boot is given back.
func (n *Node) openProcesses(context.Context) error {
	if err := process.BecomeSubreaper(); err != nil {
		n.logger.Warn("cannot adopt orphans of a killed guardian", "error", err)
	}
	ended, err := process.EndSurvivors(n.cfg.ledgerPath())
	if err != nil {
		return fmt.Errorf("end processes of an earlier boot: %w", err)
	}
	if ended > 0 {
		n.logger.Warn("processes of an earlier boot ended", "count", ended)
	}
	if err := clearSecrets(n.cfg.Data); err != nil {
		return fmt.Errorf("remove files of secrets of an earlier boot: %w", err)
	}
	return nil
}

// startTree starts the supervision tree, left to right: the recorder, the bridges, the pools, the monitors.
func (n *Node) startTree(ctx context.Context) error {
	if err := n.servers.await(ctx, n.rescueOrphans); err != nil {
		return fmt.Errorf("give back the work of an earlier boot: %w", err)
	}
	root, err := n.system.Spawn(n.system, n.rootGroup())
	if err != nil {
		return err
	}
	n.root.Store(root)
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	for _, group := range []*actor.PID{root, n.system.PID("troupe/bridges"), n.system.PID("troupe/monitors")} {
		if _, err := actors.Ask[struct{}, struct{}](limited, n.system, group, struct{}{}); err != nil {
			return err
		}
	}
	if err := n.startPools(ctx, n.catalog.set()); err != nil {
		return err
	}
	n.phase.open.Store(true)
	if _, fenced := n.isFenced(); fenced { // while its pools were starting, or just now
		n.phase.open.Store(false)
	}
	return nil
}

func (n *Node) group(name string, children ...supervisor.ChildSpec) supervisor.ChildSpec {
	added := &supervisor.Added{}
	return func() actors.Child {
		return supervisor.NewGroup(supervisor.GroupConfig{
			System: n.system, Name: name, Logger: n.logger.Named(name), Children: children, Added: added,
		})
	}
}

func (n *Node) rootGroup() actors.Child {
	children := []supervisor.ChildSpec{
		n.memberSpec,
		n.recorderSpec,
		n.group("bridges", n.bridges.specs()...),
		n.group("pools"),
		n.group("monitors", n.monitors()...),
	}
	if n.peers != nil {
		children = append(children, n.network.spec)
	}
	return supervisor.NewGroup(supervisor.GroupConfig{
		System: n.system, Name: "troupe", Logger: n.logger.Named("troupe"), Fatal: n.fatal,
		Fenced: n.fence, Children: append(children, n.observerSpec),
	})
}

func (n *Node) recorderSpec() actors.Child {
	return actors.NewRecorder(actors.RecorderConfig{
		System: n.system, Store: n.store, Outcomes: n.outcomes, Logger: n.logger.Named("recorder"),
		Observe: n.metrics.transaction, OnResult: n.metrics.result, Backlog: &n.backlog,
		Notices: n.bridges.notices.hook(), Lanes: n.cfg.recorderLanes(),
	})
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
	return n.submissions.prepare(ctx, requests)
}

// Adapter is the store as its adapter opened it, for what only that adapter can do; nil while the node waits for it.
func (n *Node) Adapter() store.Store {
	if !n.phase.open.Load() {
		return nil
	}
	return n.adapter
}

// Incarnation names this boot.
func (n *Node) Incarnation() messages.Incarnation { return n.incarnation }

// Registry knows the node's live actors.
func (n *Node) Registry() *actors.Registry { return n.system.Registry }

// closeTimeout bounds what is left of a stop once the work has ended.
const closeTimeout = 10 * time.Second
