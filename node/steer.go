package node

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// target is a thing that can be steered and the incarnation that has it.
type target struct {
	node store.Node
	own  bool // it is this node's
	pool string
	slot messages.Slot
}

func noWorker(id messages.WorkerID) error {
	return messages.Problemf(messages.CodeNotFound, "there is no worker %q; `troupe workers` lists them", id)
}

// node finds the live incarnation that a text names.
func (b backend) node(ctx context.Context, text string) (target, error) {
	n, err := locate(text, b.directory(ctx), b.sights.lapsed)
	return target{node: n, own: n.Incarnation == b.incarnation}, err
}

// worker finds the incarnation that has a worker. Of two that share a name the store says whose worker has the id.
func (b backend) worker(ctx context.Context, id messages.WorkerID) (target, error) {
	label, pool, slot, ok := id.Split()
	if !ok {
		return target{}, noWorker(id)
	}
	t := target{own: true, pool: pool, slot: slot}
	if b.ownLabel(label) {
		return t, nil
	}
	known := b.directory(ctx)
	n, err := locate(label, known, b.sights.lapsed)
	if n.Incarnation.IsZero() {
		if n = b.byRow(ctx, id, pool, known); n.Incarnation.IsZero() {
			return t, ofWorker(id, err)
		}
	}
	t.node, t.own = n, n.Incarnation == b.incarnation
	return t, nil
}

// ofWorker says which worker was asked for, of a node that was not found.
func ofWorker(id messages.WorkerID, err error) error {
	var p *messages.Problem
	if !errors.As(err, &p) {
		return err
	}
	named := *p
	named.Message = fmt.Sprintf("worker %s: %s", id, p.Message)
	return &named
}

// byRow is the live incarnation whose worker alone has the id, as the store knows them; zero: none, or more than one.
func (b backend) byRow(ctx context.Context, id messages.WorkerID, pool string, known []store.Node) (found store.Node) {
	if b.gate() != nil {
		return found
	}
	rows, err := b.store.ListWorkers(ctx, pool)
	if err != nil {
		return found
	}
	holders := map[messages.Incarnation]bool{}
	for i := range rows {
		if inc := rows[i].Key.Incarnation; rows[i].ID == id && !b.sights.lapsed(inc) {
			holders[inc] = true
		}
	}
	for i := range known {
		if len(holders) == 1 && holders[known[i].Incarnation] && known[i].State != store.NodeDead {
			return known[i]
		}
	}
	return found
}

// Worker implements api.Backend.
func (b backend) Worker(ctx context.Context, id messages.WorkerID) (api.WorkerDetail, error) {
	t, err := b.worker(ctx, id)
	if err != nil {
		return api.WorkerDetail{}, err
	}
	return b.look(ctx, &t, false, "")
}

// look shows a worker, probed before where that is wanted.
func (b backend) look(ctx context.Context, t *target, probe bool, by string) (api.WorkerDetail, error) {
	switch {
	case !t.own:
		limit := steerTime
		if probe {
			limit = b.probeTime()
		}
		reply, err := b.askNode(ctx, &t.node, limit, messages.Placement{}, wire.ProbeWorker{Pool: t.pool, Slot: t.slot, Probe: probe, By: by})
		if err != nil {
			return api.WorkerDetail{}, err
		}
		d, _, err := views[api.WorkerDetail](&t.node, reply)
		d.SeenAt = time.Now()
		return d, err
	case probe:
		return b.probeWorker(ctx, t.pool, t.slot, by)
	}
	return b.ownWorker(ctx, t.pool, t.slot)
}

// ProbeWorker implements api.Backend.
func (b backend) ProbeWorker(ctx context.Context, id messages.WorkerID, by string) (api.WorkerDetail, error) {
	t, err := b.worker(ctx, id)
	if err != nil {
		return api.WorkerDetail{}, err
	}
	return b.look(ctx, &t, true, by)
}

// probeTime bounds a probe of another node's worker, the answer's way included.
func (n *Node) probeTime() time.Duration { return n.cfg.ProbeTimeout + 2*time.Second + steerTime }

// probeWorker probes a worker of this node.
func (b backend) probeWorker(ctx context.Context, pool string, slot messages.Slot, by string) (api.WorkerDetail, error) {
	if d, err := b.ownWorker(ctx, pool, slot); err != nil { // the pool may have no such slot
		return d, err
	}
	limited, cancel := context.WithTimeout(ctx, b.cfg.ProbeTimeout+2*time.Second)
	defer cancel()
	b.logger.Info("worker is probed for an operator", "worker", messages.NewWorkerID(b.member.label, pool, slot), "by", by)
	answer, question := actors.NewQuestion[struct{}, string](struct{}{})
	b.system.Send(b.pools.pid(pool), &supervisor.ProbeWorker{Slot: slot, Answer: question})
	if _, err := answer(limited); err != nil {
		return api.WorkerDetail{}, err
	}
	return b.ownWorker(ctx, pool, slot)
}

// CordonWorker implements api.Backend.
func (b backend) CordonWorker(ctx context.Context, id messages.WorkerID, cordoned bool, by string) error {
	t, err := b.worker(ctx, id)
	switch {
	case err != nil:
		return err
	case t.own:
		return b.cordonWorker(ctx, t.pool, t.slot, cordoned, by)
	}
	_, err = b.askNode(ctx, &t.node, steerTime, messages.Placement{}, wire.Cordon{Pool: t.pool, Slot: &t.slot, Cordoned: cordoned, By: by})
	return err
}

// KillWorker implements api.Backend. The generation that it saw is the one that ends, however often it is asked for.
func (b backend) KillWorker(ctx context.Context, id messages.WorkerID, by string) error {
	t, err := b.worker(ctx, id)
	if err != nil {
		return err
	}
	d, err := b.look(ctx, &t, false, "")
	switch {
	case err != nil:
		return err
	case d.Generation < 1: // nobody is in the slot: it is being replaced
		return nil
	case t.own:
		return b.killWorker(ctx, t.pool, t.slot, d.Generation, by)
	}
	kill := wire.Kill{Pool: t.pool, Slot: t.slot, Generation: d.Generation, By: by}
	_, err = b.askNode(ctx, &t.node, steerTime, messages.Placement{}, kill)
	return err
}

// killWorker ends one generation of a worker of this node. One that is gone already is as good as killed.
func (b backend) killWorker(ctx context.Context, pool string, slot messages.Slot, generation messages.Generation, by string) error {
	d, err := b.ownWorker(ctx, pool, slot)
	if err != nil || d.Generation != generation {
		return err
	}
	b.logger.Warn("worker is killed by an operator", "worker", d.ID, "generation", generation, "by", by)
	b.system.Send(b.pools.pid(pool), &supervisor.KillWorker{Slot: slot, Generation: generation, By: by})
	return nil
}

// CordonNode implements api.Backend. The cordon ends with this boot of the node.
func (b backend) CordonNode(ctx context.Context, id string, cordoned bool, by string) error {
	t, err := b.node(ctx, id)
	switch {
	case err != nil:
		return err
	case t.own:
		return b.cordonNode(ctx, cordoned, by)
	}
	_, err = b.askNode(ctx, &t.node, steerTime, messages.Placement{}, wire.Cordon{Cordoned: cordoned, By: by})
	return err
}

// DrainNode implements api.Backend.
func (b backend) DrainNode(ctx context.Context, id, by string) error {
	t, err := b.node(ctx, id)
	switch {
	case err != nil:
		return err
	case t.own:
		return b.drainSelf(by)
	}
	_, err = b.askNode(ctx, &t.node, steerTime, messages.Placement{}, wire.Drain{By: by})
	return err
}

// drainSelf asks whoever runs this node to stop it in order. One that is being stopped already goes on with that.
func (b backend) drainSelf(by string) error {
	b.logger.Info("node is drained by an operator", "node", b.cfg.Name, "by", by)
	b.drainedBy.CompareAndSwap(nil, &by) // the first counts
	switch {
	case b.draining.Load():
		return nil
	case b.cfg.Drain != nil:
		b.cfg.Drain()
		return nil
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
}

// hintTime bounds a hint to another node.
const hintTime = 2 * time.Second

// hint tells another incarnation something that it would learn from the store as well, a little later. Nobody waits for it.
func (n *Node) hint(to messages.Incarnation, about messages.Placement, body wire.Body) {
	if n.peers == nil {
		return
	}
	select {
	case n.hinting <- struct{}{}:
	default:
		return // so many are under way that the store will be faster
	}
	go func() {
		defer func() { <-n.hinting }()
		ctx, cancel := context.WithTimeout(context.Background(), hintTime)
		defer cancel()
		if _, err := n.peers.AskLong(ctx, hintTime, to, about, body); err != nil {
			n.logger.Debug("hint not given", "to", to, "error", err)
		}
	}()
}

// hintsMax bounds the hints under way.
const hintsMax = 32

// hintCancel tells the node that runs an execution that it is to be cancelled. The store says so already.
func (n *Node) hintCancel(e *messages.Execution, by string) {
	if e.Status == messages.Cancelling && e.Worker.Incarnation != n.incarnation && !e.Worker.IsZero() {
		n.hint(e.Worker.Incarnation, e.Placement(), wire.Cancel{By: by, Pool: e.Worker.Pool, Slot: e.Worker.Slot})
	}
}
