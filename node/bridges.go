package node

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// bridges are the tree's ways in and out beside the HTTP API. They tell the pools, and those who wait, what others have done.
type bridges struct {
	*base
	outcomes  *actors.Outcomes
	elsewhere *elsewhere
	judge     *actors.WorkerConfig
	metrics   *metrics
	routing   *routing
	intake    *intake
	notices   *notices
	webhooks  *webhooks
	letters   actors.Held // what is unsettled of the dead-letter queue
	near      actors.Held // the same of the one in memory beside a server
}

// specs are the bridges in the order of their start.
func (b *bridges) specs() []supervisor.ChildSpec {
	specs := []supervisor.ChildSpec{b.deliverySpec, b.deadLetterSpec, b.intake.spec, b.updatesSpec}
	if b.cfg.beside() {
		specs = append(specs, b.nearLetterSpec)
	}
	if b.cfg.tells() {
		specs = append(specs, func() actors.Child { return b.notices.spec(b.metrics.bridges.notices) })
	}
	return append(specs, func() actors.Child { return b.webhooks.spec(b.metrics.bridges.webhook) })
}

func (b *bridges) deliverySpec() actors.Child {
	return actors.NewDelivery(actors.DeliveryConfig{System: b.system, Broker: b.broker, Logger: b.logger.Named("delivery")})
}

func (b *bridges) deadLetterSpec() actors.Child { return b.letterSpec(false, &b.letters) }

// nearLetterSpec takes the dead letters of the direct pools' workers beside a server.
func (b *bridges) nearLetterSpec() actors.Child { return b.letterSpec(true, &b.near) }

func (b *bridges) letterSpec(near bool, held *actors.Held) actors.Child {
	return actors.NewDeadLetter(actors.DeadLetterConfig{
		System: b.system, Store: b.store, Settings: b.cfg.Broker, Near: near, InProcess: near || b.cfg.BrokerURL == "" && b.cfg.OpenBroker == nil, Delivery: b.delivery, Recorder: b.recorder,
		Pool: b.pools.pid, Judge: b.judge, Logger: b.logger.Named("dead_letter"), Count: b.metrics.deadLetter,
		Late: b.metrics.flow.letter, Clock: &b.clock, Held: held, Own: b.incarnation, Elsewhere: b.routing.tellDeadLettered,
	})
}

// updatesPath is the bridge that hears of what others do.
const updatesPath = "troupe/bridges/updates"

func (b *bridges) updatesSpec() actors.Child {
	return actors.NewUpdates(actors.UpdatesConfig{
		System: b.system, Watch: b.store.Watch, Logger: b.logger.Named("updates"), Count: b.metrics.bridges.hint,
		Requested: b.wakePool, Router: b.routing.lookForRouters, Cancel: b.cancelHere, Inbox: b.intake.inboxRound, Look: b.lookRound,
		Finished: b.finishedElsewhere,
	})
}

// finishedElsewhere hears of an outcome that another node has stored.
func (b *bridges) finishedElsewhere(id messages.ExecutionID) {
	b.outcomes.Look(id)
	b.elsewhere.over(id)
	if b.cfg.tells() {
		b.notices.ring()
	}
}

func (b *bridges) wakePool(pool string) {
	b.pools.Tell(pool, &supervisor.Wake{Heard: true})
}

// cancelHere tells the worker of a run that is to be cancelled, where it is one of this node's.
func (b *bridges) cancelHere(ctx context.Context, id messages.ExecutionID) error {
	e, err := b.store.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	pid := b.pools.pid(e.Pool)
	if err != nil || pid == nil || e.Status != messages.Cancelling || e.Worker.Incarnation != b.incarnation {
		return err
	}
	b.system.Send(pid, &supervisor.CancelAgain{Placement: e.Placement(), Slot: e.Worker.Slot})
	return nil
}

// repeatCancels tells the workers again of the runs that are to be cancelled: the first word may have been lost.
func (b *bridges) repeatCancels(ctx context.Context) error {
	page, err := b.store.List(ctx, store.Filter{Statuses: []messages.Status{messages.Cancelling}, Limit: sweepBatch})
	if err != nil {
		return err
	}
	for i := range page.Executions {
		e := &page.Executions[i]
		b.pools.Tell(e.Pool, &supervisor.CancelAgain{Placement: e.Placement(), Slot: e.Worker.Slot})
	}
	return nil
}

// lookAround makes up for what a node that has ended could not tell any more.
func (b *bridges) lookAround() {
	if b.phase.started.Load() {
		b.system.Send(b.system.PID(updatesPath), &store.Hint{Kind: store.HintLook})
		if b.cfg.tells() {
			b.system.Send(b.system.PID(noticesPath), &actors.TakeNotices{}) // it may have been the teller
		}
	}
}

// lookRound makes up for hints that were missed: every pool looks for work, every run that is to be cancelled is told
// again, and everybody who waits for what has ended meanwhile hears of it.
func (b *bridges) lookRound(ctx context.Context) error {
	if !b.phase.started.Load() {
		return nil // everything looks for itself at start
	}
	for name := range b.pools.all() {
		b.wakePool(name)
	}
	missed := b.repeatCancels(ctx)
	for _, id := range b.outcomes.Waiting() {
		e, err := b.store.Get(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return errors.Join(missed, err)
		}
		if e.Status.Terminal() {
			b.outcomes.Publish(&e)
		}
	}
	return missed
}
