package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/filelock"
	"github.com/troupe-run/troupe/packs"
	"github.com/troupe-run/troupe/sdk"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/store/sqlite"
)

// prepare makes the data folder, for this user alone. It takes from a group what that has too much of a folder that is there, and refuses
// one of which every user has too much. In the full mode it also locks the folder, because the ledger of processes is one node's alone.
// The embedded store has a lock of its own.
func (n *Node) prepare(context.Context) error {
	if err := os.MkdirAll(n.cfg.Data, 0o700); err != nil {
		return fmt.Errorf("data folder %s: %w; choose another with --data", n.cfg.Data, err)
	}
	mended, err := mendFolder(n.cfg.Data)
	if mended > 0 {
		n.logger.Warn("data folder was open to its group: taken from it", "folder", n.cfg.Data, "entries", mended)
	}
	if err != nil {
		return err
	}
	if !n.cfg.full() {
		return nil
	}
	n.lock, err = lockFolder(n.cfg.Data)
	return err
}

// lockFolder takes the lock that says that this process alone uses the folder.
func lockFolder(folder string) (*filelock.Lock, error) {
	l, err := filelock.Take(filepath.Join(folder, "node.lock"))
	var held *filelock.HeldError
	switch {
	case errors.As(err, &held):
		return nil, fmt.Errorf("data folder %s: in use by another node (process %s holds its lock): stop that node, or give this one another --data folder",
			folder, held.Holder)
	case err != nil:
		return nil, fmt.Errorf("data folder %s: %w; choose another with --data", folder, err)
	}
	return l, nil
}

func (n *Node) materialize(context.Context) error {
	return errors.Join(
		wrap("write the SDKs", sdk.Materialize(n.cfg.Data)),
		wrap("write the built-in packs", packs.Materialize(n.cfg.Data)),
	)
}

// openEmbedded opens the embedded store before anything else is done in its folder: its lock says whose that is.
func (n *Node) openEmbedded(ctx context.Context) error {
	if n.cfg.full() {
		return nil
	}
	return n.openStore(ctx)
}

// openStore opens the store, unless it is open, and waits for a server that is away.
func (n *Node) openStore(ctx context.Context) error {
	if n.adapter != nil {
		return nil
	}
	return n.servers.await(ctx, func(ctx context.Context) error {
		opened, err := n.storeOpener()(ctx)
		if err != nil {
			return err
		}
		n.adapter = opened
		if n.cfg.WrapStore != nil {
			opened = n.cfg.WrapStore(opened)
		}
		opened = &timed{Store: opened, clock: &n.clock, took: n.clocked}
		*n.store = doubt{Store: opened, suspect: n.servers.Suspect, counted: newDepths(opened.Depths), full: &n.servers.full}
		return nil
	})
}

// storeOpener is how the configured store is opened.
func (n *Node) storeOpener() func(context.Context) (store.Store, error) {
	switch {
	case n.cfg.OpenStore != nil:
		return n.cfg.OpenStore
	case n.cfg.StoreURL != "":
		return n.openPostgres
	}
	return func(ctx context.Context) (store.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: n.cfg.storePath(), EventsAll: n.cfg.EventsAll})
	}
}

func (n *Node) openPostgres(ctx context.Context) (store.Store, error) {
	return postgres.Open(ctx, postgres.Config{
		URL: n.cfg.StoreURL, EventsAll: n.cfg.EventsAll, Name: n.cfg.Name + " " + n.incarnation.String(),
	})
}

// openBroker opens the broker. A server that is away is no error: the adapter goes on trying.
func (n *Node) openBroker(ctx context.Context) error {
	for _, warning := range n.cfg.Broker.Warnings() {
		n.logger.Warn(warning)
	}
	if err := n.cfg.Broker.Check(n.cfg.Broker.Shared()); err != nil {
		return err
	}
	opened, err := n.brokerOpener()(ctx)
	if err != nil {
		return err
	}
	if n.cfg.WrapBroker != nil {
		opened = n.cfg.WrapBroker(opened)
	}
	*n.broker = shared{
		Broker: n.network.openDirect(opened), adapter: opened, first: n.servers.declare, names: sharedNames(n.cfg.Broker.Shared()),
	}
	return nil
}

func (n *Node) brokerOpener() func(context.Context) (broker.Broker, error) {
	switch {
	case n.cfg.OpenBroker != nil:
		return n.cfg.OpenBroker
	case n.cfg.BrokerURL != "":
		return n.openRabbitMQ
	}
	return func(context.Context) (broker.Broker, error) { return memory.New(memory.Config{}), nil }
}

func (n *Node) openRabbitMQ(ctx context.Context) (broker.Broker, error) {
	files := n.cfg.BrokerTLS
	return rabbitmq.Open(ctx, rabbitmq.Config{
		URL: n.cfg.BrokerURL, Name: "troupe " + n.cfg.Name + " " + n.incarnation.String(), BackoffMax: brokerRetry,
		Logger: n.logger.Named("broker"),
		TLS:    rabbitmq.TLS{CA: files.CAFile, Cert: files.CertFile, Key: files.KeyFile, ServerName: files.ServerName},
	})
}

// brokerRetry is the longest wait between two attempts to connect to a broker that is away.
const brokerRetry = 2 * time.Second

// found makes what the tree and the API are built on, and begins to watch the servers.
func (n *Node) found(context.Context) error {
	n.system = actors.NewSystem(n.logger.Named("actors"))
	n.pools.system = n.system
	n.metrics.open()
	n.openForest()
	n.recorder = n.system.PID("troupe/recorder")
	n.delivery = n.system.PID("troupe/bridges/delivery")
	n.poolsPID = n.system.PID("troupe/pools")
	n.sweeper = n.newSweeper()
	n.ended = &endedQueues{store: n.store, broker: n.broker.adapter, settings: n.cfg.Broker, runtimes: n.cfg.Runtimes, logger: n.logger}
	n.unserved = &unservedPools{
		store: n.store, clock: &n.clock, pools: n.pools, remote: n.operator.Remote, sweeper: n.sweeper, incarnation: n.incarnation,
		every: n.cfg.HeartbeatInterval, shared: n.cfg.full(), by: map[string]*unassigned{},
	}
	n.watching = n.servers.start()
	n.phase.founded.Store(true)
	return nil
}

// declareShared makes what all nodes share, where the broker is up; else the watcher does it once it comes. It may take longer than
// a lease, so it comes before the node has one.
func (n *Node) declareShared(ctx context.Context) error {
	if !n.broker.Status().Up {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, declareTime)
	defer cancel()
	if err := n.servers.declare(limited); err != nil && !away(err) {
		return fmt.Errorf("declare the shared queues and exchanges: %w", err)
	}
	return nil
}

// patient makes a step of the start wait for a store that is away.
func (n *Node) patient(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return n.servers.await(ctx, step) }
}
