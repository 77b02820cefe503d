package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/process"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/packs"
	"github.com/troupe-run/troupe/sdk"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/supervisor"
	"github.com/troupe-run/troupe/supervisor/api"
	"github.com/troupe-run/troupe/supervisor/debug"
)

// Node is one running node. Start it once, then Stop it once.
type Node struct {
	cfg         Config
	incarnation messages.Incarnation
	logger      hclog.Logger

	store    store.Store
	broker   broker.Broker
	guardian *process.Guardian
	system   *actors.System
	outcomes *actors.Outcomes
	board    *actors.Board
	judge    *actors.Crew
	backlog  actors.Backlog
	catalog  atomic.Pointer[catalog]
	metrics  *metrics
	env      []string

	root     *actor.PID
	recorder *actor.PID
	delivery *actor.PID
	poolsPID *actor.PID

	reload   sync.Mutex
	mu       sync.Mutex
	pools    map[string]*poolHandle
	draining atomic.Bool
	started  atomic.Bool
	storeUp  atomic.Bool

	listener net.Listener
	server   *http.Server
	serving  context.CancelFunc
	stop     sync.Once
	stopErr  error
}

type poolHandle struct {
	pid    *actor.PID
	memory *supervisor.Memory
	config atomic.Pointer[supervisor.PoolConfig]
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
	return &Node{
		cfg: cfg, incarnation: messages.NewIncarnation(), logger: cfg.Logger, outcomes: actors.NewOutcomes(),
		board: actors.NewBoard(), pools: map[string]*poolHandle{}, env: cfg.environment(),
	}, nil
}

// Start brings the node up: it returns once the tree runs and the API listens. An error leaves nothing behind.
func (n *Node) Start(ctx context.Context) error {
	if err := n.bringUp(ctx); err != nil {
		return errors.Join(err, n.Stop(ctx))
	}
	n.started.Store(true)
	n.logger.Info("node started", "node", n.cfg.Name, "incarnation", n.incarnation, "data", n.cfg.Data, "listen", n.Addr())
	return nil
}

func (n *Node) bringUp(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		n.listen, n.prepare, n.openStore, n.openProcesses, n.join, n.loadPacks, n.openBroker, n.startTree, n.serve,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listen takes the port first: one in use is the most common mistake, and nothing has been touched yet.
func (n *Node) listen(context.Context) error {
	if n.cfg.Listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", n.cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: %w; is another node running there? Choose another address with --listen", n.cfg.Listen, err)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen", n.cfg.Listen, err)
	}
	n.listener = listener
	return nil
}

func (n *Node) prepare(context.Context) error {
	if err := os.MkdirAll(n.cfg.Data, 0o700); err != nil {
		return fmt.Errorf("data folder %s: %w; choose another with --data", n.cfg.Data, err)
	}
	return nil
}

func (n *Node) openStore(ctx context.Context) error {
	opened, err := sqlite.Open(ctx, sqlite.Config{Path: n.cfg.storePath(), EventsAll: n.cfg.EventsAll})
	if err != nil {
		return err
	}
	n.store = opened
	if n.cfg.WrapStore != nil {
		n.store = n.cfg.WrapStore(opened)
	}
	n.storeUp.Store(true)
	return errors.Join(
		wrap("write the SDKs", sdk.Materialize(n.cfg.Data)),
		wrap("write the built-in packs", packs.Materialize(n.cfg.Data)),
	)
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
	n.guardian, err = process.NewGuardian(process.Config{
		Incarnation: n.incarnation, Ledger: n.cfg.ledgerPath(), Logger: n.logger.Named("guardian"),
	})
	return err
}

// join makes this incarnation known; the store's lock says that every other one is dead.
func (n *Node) join(ctx context.Context) error {
	now, err := n.store.Now(ctx)
	if err != nil {
		return err
	}
	return n.store.Join(ctx, store.Node{
		Incarnation: n.incarnation, Name: n.cfg.Name, Version: n.cfg.Version, State: store.NodeActive,
		StartedAt: now, BeatAt: now, Address: n.Addr(),
	})
}

func (n *Node) openBroker(ctx context.Context) error {
	n.broker = memory.New(memory.Config{})
	if n.cfg.WrapBroker != nil {
		n.broker = n.cfg.WrapBroker(n.broker)
	}
	topology := n.cfg.Broker.Shared()
	if err := n.cfg.Broker.Check(topology); err != nil {
		return err
	}
	for _, warning := range n.cfg.Broker.Warnings() {
		n.logger.Warn(warning)
	}
	return n.broker.Declare(ctx, topology)
}

// startTree starts the supervision tree, left to right: the recorder, the bridges, the pools, the monitors.
func (n *Node) startTree(ctx context.Context) error {
	n.system = actors.NewSystem(n.logger.Named("actors"))
	n.metrics = newMetrics(n)
	n.recorder = n.system.PID("troupe/recorder")
	n.delivery = n.system.PID("troupe/bridges/delivery")
	n.poolsPID = n.system.PID("troupe/pools")
	n.judge = n.makeJudge()
	if err := n.rescueOrphans(ctx); err != nil {
		return fmt.Errorf("give back the work of an earlier boot: %w", err)
	}
	root, err := n.system.Spawn(n.system, n.rootGroup())
	if err != nil {
		return err
	}
	n.root = root
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	for _, group := range []*actor.PID{root, n.system.PID("troupe/bridges"), n.system.PID("troupe/monitors")} {
		if _, err := actors.Ask[struct{}, struct{}](limited, n.system, group, struct{}{}); err != nil {
			return err
		}
	}
	return n.startPools(ctx, n.catalog.Load())
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
	return supervisor.NewGroup(supervisor.GroupConfig{
		System: n.system, Name: "troupe", Logger: n.logger.Named("troupe"), Fatal: n.fatal,
		Children: []supervisor.ChildSpec{
			n.recorderSpec,
			n.group("bridges", n.deliverySpec, n.deadLetterSpec),
			n.group("pools"),
			n.group("monitors", n.monitors()...),
		},
	})
}

func (n *Node) fatal(err error) {
	n.logger.Error("the tree cannot go on", "error", err)
	if n.cfg.Fatal != nil {
		go n.cfg.Fatal(err)
	}
}

func (n *Node) recorderSpec() actors.Child {
	return actors.NewRecorder(actors.RecorderConfig{
		System: n.system, Store: n.store, Outcomes: n.outcomes, Logger: n.logger.Named("recorder"),
		Observe: n.metrics.transaction, OnResult: n.metrics.result, Backlog: &n.backlog,
	})
}

func (n *Node) deliverySpec() actors.Child {
	return actors.NewDelivery(actors.DeliveryConfig{System: n.system, Broker: n.broker, Logger: n.logger.Named("delivery")})
}

func (n *Node) deadLetterSpec() actors.Child {
	return actors.NewDeadLetter(actors.DeadLetterConfig{
		System: n.system, Store: n.store, Settings: n.cfg.Broker, Delivery: n.delivery, Recorder: n.recorder,
		Pool: n.poolPID, Judge: n.judge, Logger: n.logger.Named("dead_letter"), Count: n.metrics.deadLetter,
		Died: n.metrics.flow.letter,
	})
}

// serve opens the API.
func (n *Node) serve(context.Context) error {
	if n.listener == nil {
		return nil
	}
	handler := api.New(api.Config{
		Backend: n.Backend(), Tokens: n.cfg.Tokens, Logger: n.logger, Metrics: n.metrics.handler(),
		Debug:       debug.Actors(debug.Config{Node: n.cfg.Name, Source: n.system.Registry, History: n.actorHistory}),
		Version:     n.cfg.Version,
		RequestsMax: n.cfg.Requests, WaitsMax: n.cfg.Waits, BatchesMax: n.cfg.Batches,
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.serving = cancel
	n.server = api.NewServer(ctx, handler, n.logger)
	listener := n.listener
	go func() {
		if err := n.server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			n.fatal(fmt.Errorf("serve the API: %w", err))
		}
	}()
	return nil
}

// Addr is the address that the API listens on; empty without one.
func (n *Node) Addr() string {
	if n.listener == nil {
		return ""
	}
	return n.listener.Addr().String()
}

// Incarnation names this boot.
func (n *Node) Incarnation() messages.Incarnation { return n.incarnation }

// Registry knows the node's live actors.
func (n *Node) Registry() *actors.Registry { return n.system.Registry }

// closeTimeout bounds what is left of a stop once the work has ended.
const closeTimeout = 10 * time.Second
