package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/store/sqlite"
)

// adapters opens the node's store and broker, and closes them.
type adapters struct {
	*base
	servers *watcher
	network *network
	adapter store.Store // the store, as its adapter opened it
	// searched are the actions in whose parameters lists look for a text.
	searched func() []string
}

// openEmbedded opens the embedded store before anything else is done in its folder: its lock says whose that is.
func (a *adapters) openEmbedded(ctx context.Context) error {
	if a.cfg.full() {
		return nil
	}
	return a.openStore(ctx)
}

// openStore opens the store, unless it is open, and waits for a server that is away.
func (a *adapters) openStore(ctx context.Context) error {
	if a.adapter != nil {
		return nil
	}
	return a.servers.await(ctx, func(ctx context.Context) error {
		opened, err := a.storeOpener()(ctx)
		if err != nil {
			return err
		}
		a.adapter = opened
		if a.cfg.WrapStore != nil {
			opened = a.cfg.WrapStore(opened)
		}
		opened = &timed{Store: opened, clock: &a.clock, took: (&skew{base: a.base, clocks: a.logger.Named("clock")}).sampled, beat: a.servers.renewed}
		*a.store = doubt{Store: opened, suspect: a.servers.Suspect, counted: newDepths(opened.Depths), full: &a.servers.full, searched: a.searched}
		return nil
	})
}

// storeOpener is how the configured store is opened.
func (a *adapters) storeOpener() func(context.Context) (store.Store, error) {
	switch {
	case a.cfg.OpenStore != nil:
		return a.cfg.OpenStore
	case a.cfg.StoreURL != "":
		return a.openPostgres
	}
	return func(ctx context.Context) (store.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: a.cfg.storePath(), EventsAll: a.cfg.EventsAll})
	}
}

func (a *adapters) openPostgres(ctx context.Context) (store.Store, error) {
	return postgres.Open(ctx, postgres.Config{
		URL: a.cfg.StoreURL, EventsAll: a.cfg.EventsAll, Name: a.cfg.Name + " " + a.incarnation.String(),
	})
}

// openBroker opens the broker. A server that is away is no error: the adapter goes on trying.
func (a *adapters) openBroker(ctx context.Context) error {
	for _, warning := range a.cfg.Broker.Warnings() {
		a.logger.Warn(warning)
	}
	if err := a.cfg.Broker.Check(a.cfg.Broker.Shared()); err != nil {
		return err
	}
	opened, err := a.brokerOpener()(ctx)
	if err != nil {
		return err
	}
	parted, err := a.network.openSplit(ctx, opened)
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	if a.cfg.WrapBroker != nil {
		parted = a.cfg.WrapBroker(parted)
	}
	*a.broker = shared{
		Broker: a.network.openDirect(parted), adapter: parted, first: a.servers.declare, names: sharedNames(a.cfg.Broker.Shared()), isNear: a.network.isNear,
	}
	return nil
}

func (a *adapters) brokerOpener() func(context.Context) (broker.Broker, error) {
	switch {
	case a.cfg.OpenBroker != nil:
		return a.cfg.OpenBroker
	case a.cfg.BrokerURL != "":
		return a.openRabbitMQ
	}
	return func(context.Context) (broker.Broker, error) { return memory.New(memory.Config{}), nil }
}

func (a *adapters) openRabbitMQ(ctx context.Context) (broker.Broker, error) {
	files := a.cfg.BrokerTLS
	return rabbitmq.Open(ctx, rabbitmq.Config{
		URL: a.cfg.BrokerURL, Name: "troupe " + a.cfg.Name + " " + a.incarnation.String(), BackoffMax: brokerRetry,
		Logger: a.logger.Named("broker"),
		TLS:    rabbitmq.TLS{CA: files.CAFile, Cert: files.CertFile, Key: files.KeyFile, ServerName: files.ServerName},
	})
}

// brokerRetry is the longest wait between two attempts to connect to a broker that is away.
const brokerRetry = 2 * time.Second

// declareShared makes what all nodes share, where the broker is up; else the watcher does it once it comes. It may take longer than
// a lease, so it comes before the node has one.
func (a *adapters) declareShared(ctx context.Context) error {
	if !a.broker.Status().Up {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, declareTime)
	defer cancel()
	if err := a.servers.declare(limited); err != nil && !away(err) {
		return fmt.Errorf("declare the shared queues and exchanges: %w", err)
	}
	return nil
}

// closeStore leaves the store. One that has started says so first.
func (a *adapters) closeStore() error {
	if a.adapter == nil {
		return nil
	}
	if a.phase.started.Load() {
		a.journal.node("stopped", "", "", nil)
		a.finishRecording()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.store.SetNode(ctx, a.incarnation, store.NodeDead); err != nil {
			a.logger.Warn("node not deregistered", "error", err)
		}
	}
	return a.store.Close()
}

// How long a stop writes what was recorded: while the store answers, and while it is away.
const (
	lastRecords     = 5 * time.Second // on a busy machine two have lost them
	lastRecordsAway = time.Second / 2
)

// finishRecording writes what is left of the journal and of the counts, and takes little of the time that a stop has.
func (a *adapters) finishRecording() {
	limit := lastRecords
	if !a.servers.store.read().up {
		limit = lastRecordsAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := a.journal.finish(ctx); err != nil {
		a.logger.Warn("the end of the journal is not written", "error", err)
	}
	if err := a.rollups.finish(ctx); err != nil {
		a.logger.Warn("the last counts of executions are not written", "error", err)
	}
}

func (a *adapters) closeBroker() error {
	if a.broker.Broker == nil {
		return nil
	}
	return a.broker.Close()
}
