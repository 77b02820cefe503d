package node

import (
	"context"
	"maps"
	"sync"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// cordons is the operators' intent about whole pools, which the store keeps over restarts and for every node, and about
// this node, which ends with this boot. Pools read it when they start.
type cordons struct {
	change sync.Mutex // held over a write or read of the store and what follows from it, so that no old answer wins
	mu     sync.Mutex
	pools  map[string]bool
	node   bool
}

// of reports what is intended about a pool.
func (c *cordons) of(pool string) (ofPool, ofNode bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pools[pool], c.node
}

// keep takes the store's answer and returns the pools for which it says otherwise than before.
func (c *cordons) keep(list []string) map[string]bool {
	now := make(map[string]bool, len(list))
	for _, pool := range list {
		now[pool] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := map[string]bool{}
	for pool := range now {
		if !c.pools[pool] {
			changed[pool] = true
		}
	}
	for pool := range c.pools {
		if !now[pool] {
			changed[pool] = false
		}
	}
	c.pools = now
	return changed
}

// set is keep for one pool.
func (c *cordons) set(pool string, cordoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools := maps.Clone(c.pools)
	if pools == nil {
		pools = map[string]bool{}
	}
	if pools[pool] = cordoned; !cordoned {
		delete(pools, pool)
	}
	c.pools = pools
}

func (c *cordons) setNode(cordoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node = cordoned
}

// readCordons learns of pools that were cordoned before this boot, or at other nodes, and tells this node's.
func (n *Node) readCordons(ctx context.Context) error {
	n.cordons.change.Lock()
	defer n.cordons.change.Unlock()
	list, err := n.store.CordonedPools(ctx)
	if err != nil {
		return err
	}
	for pool, cordoned := range n.cordons.keep(list) {
		n.logger.Info("pool's cordon changed in the store", "pool", pool, "cordoned", cordoned)
		n.tellCordon(pool, cordoned)
	}
	return nil
}

// tellCordon tells a pool of this node. One that has not started reads it when it does.
func (n *Node) tellCordon(pool string, cordoned bool) {
	n.pools.Tell(pool, &supervisor.Cordon{Slot: -1, Cordoned: cordoned})
}

// CordonPool implements api.Backend. Nodes that are reached learn of it at once, others within a heartbeat interval.
func (b backend) CordonPool(ctx context.Context, pool string, cordoned bool, by string) error {
	b.cordons.change.Lock()
	defer b.cordons.change.Unlock()
	// The cordon of a pool that is gone can still be lifted.
	if known, _ := b.cordons.of(pool); b.pools.pid(pool) == nil && (cordoned || !known) && !b.servedElsewhere(ctx, pool) {
		return found("pool", pool, store.ErrNotFound)
	}
	if err := b.store.CordonPool(ctx, pool, cordoned); err != nil {
		return err
	}
	b.logger.Info("pool is cordoned or uncordoned by an operator", "pool", pool, "cordoned", cordoned, "by", by)
	b.cordons.set(pool, cordoned)
	b.tellCordon(pool, cordoned)
	b.hintCordon(pool, cordoned, by)
	return nil
}

// servedElsewhere reports whether another live node has workers of the pool.
func (b backend) servedElsewhere(ctx context.Context, pool string) bool {
	rows, err := b.store.ListWorkers(ctx, pool)
	return err == nil && len(rows) > 0
}

// hintCordon tells the other nodes that a pool's cordon has changed in the store.
func (b backend) hintCordon(pool string, cordoned bool, by string) {
	if b.peers == nil {
		return
	}
	for _, p := range b.peers.Peers() {
		b.hint(p.Incarnation, messages.Placement{}, wire.Cordon{Pool: pool, Cordoned: cordoned, By: by})
	}
}

// cordonWorker takes a worker of this node out of placement or back in.
func (b backend) cordonWorker(ctx context.Context, pool string, slot messages.Slot, cordoned bool, by string) error {
	key := messages.WorkerKey{Incarnation: b.incarnation, Pool: pool, Slot: slot}
	id := messages.NewWorkerID(b.member.label, pool, slot)
	if b.pools.pid(pool) == nil {
		return noWorker(id)
	}
	if err := b.store.CordonWorker(ctx, key, cordoned); err != nil {
		return found("worker", id, err)
	}
	b.logger.Info("worker is cordoned or uncordoned by an operator", "worker", id, "cordoned", cordoned, "by", by)
	b.system.Send(b.pools.pid(pool), &supervisor.Cordon{Slot: slot, Cordoned: cordoned})
	return nil
}

// cordonNode takes this node out of placement or back in. The cordon ends with this boot of the node.
func (b backend) cordonNode(ctx context.Context, cordoned bool, by string) error {
	b.cordons.change.Lock()
	defer b.cordons.change.Unlock()
	if err := b.store.CordonNode(ctx, b.incarnation, cordoned); err != nil {
		return err
	}
	b.logger.Info("node is cordoned or uncordoned by an operator", "node", b.cfg.Name, "cordoned", cordoned, "by", by)
	b.cordons.setNode(cordoned)
	b.pools.TellAll(&supervisor.Cordon{Node: true, Cordoned: cordoned})
	return nil
}
