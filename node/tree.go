package node

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// tree is the node's supervision tree, with the recorder in it.
type tree struct {
	*base
	outcomes  *actors.Outcomes
	elsewhere *elsewhere
	backlog   *actors.Backlog // of the recorder
	metrics   *metrics
	notices   *notices
	webhooks  *webhooks

	root atomic.Pointer[actor.PID] // nil: it has not started
}

// start spawns the root and returns once its actors run. There are no pools yet.
func (t *tree) start(ctx context.Context, top actors.Child) error {
	root, err := t.system.Spawn(t.system, top)
	if err != nil {
		return err
	}
	t.root.Store(root)
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	for _, group := range []*actor.PID{root, t.system.PID("troupe/bridges"), t.system.PID("troupe/monitors")} {
		if _, err := actors.Ask[struct{}, struct{}](limited, t.system, group, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// group is a supervisor of its children, one for one.
func (t *tree) group(name string, children ...supervisor.ChildSpec) supervisor.ChildSpec {
	added := &supervisor.Added{}
	return func() actors.Child {
		return supervisor.NewGroup(supervisor.GroupConfig{
			System: t.system, Name: name, Logger: t.logger.Named(name), Children: children, Added: added,
		})
	}
}

func (t *tree) recorderSpec() actors.Child {
	return actors.NewRecorder(actors.RecorderConfig{
		System: t.system, Store: t.store, Outcomes: t.outcomes, Elsewhere: t.elsewhere.ended, Logger: t.logger.Named("recorder"),
		Observe: t.metrics.transaction, OnResult: t.metrics.result, OnTransaction: t.transaction, Backlog: t.backlog,
		Notices: t.notices.hook(), Webhooks: t.webhooks.ring, Lanes: t.cfg.recorderLanes(),
	})
}

// transaction counts what a transaction made, and tells those who follow it.
func (t *tree) transaction(all []actors.Recorded) {
	t.rollups.transaction(all)
	t.noteRecorded(all)
}

func (t *tree) observerSpec() actors.Child {
	return actors.NewObserver(actors.ObserverConfig{System: t.system, Logger: t.logger.Named("observer")})
}

// record has changes made by the recorder, or, before the tree runs, by the store itself.
func (t *tree) record(ctx context.Context, pool string, items []actors.Item) ([]store.Result, error) {
	if t.root.Load() == nil {
		changes := make([]store.Change, len(items))
		for i := range items {
			changes[i] = items[i].Change
		}
		return t.store.Apply(ctx, changes)
	}
	return actors.Ask[*actors.Record, []store.Result](ctx, t.system, t.recorder,
		&actors.Record{Items: items, Pool: t.pools.pid(pool)})
}

// stop stops the tree's parts in reverse of their start.
func (t *tree) stop() error {
	root := t.root.Load()
	if root == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, name := range []string{"troupe/monitors", poolsPath, "troupe/bridges"} {
		pid := t.system.PID(name)
		if _, err := actors.Ask[supervisor.ForgetChild, struct{}](ctx, t.system, root, supervisor.ForgetChild{PID: pid}); err != nil && !errors.Is(err, actors.ErrGone) {
			return err
		}
		if err := t.system.StopAndWait(ctx, pid); err != nil {
			return err
		}
	}
	return t.system.StopAndWait(ctx, root)
}
