package node

import (
	"context"
	"maps"
	"sync"

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
	if pid := n.poolPID(pool); pid != nil {
		n.system.Send(pid, &supervisor.Cordon{Slot: -1, Cordoned: cordoned})
	}
}

// CordonPool implements api.Backend. Other nodes learn of it within a heartbeat interval.
func (b backend) CordonPool(ctx context.Context, pool string, cordoned bool) error {
	b.cordons.change.Lock()
	defer b.cordons.change.Unlock()
	if known, _ := b.cordons.of(pool); b.poolPID(pool) == nil && (cordoned || !known) {
		return found("pool", pool, store.ErrNotFound) // the cordon of one that is gone can still be lifted
	}
	if err := b.store.CordonPool(ctx, pool, cordoned); err != nil {
		return err
	}
	b.cordons.set(pool, cordoned)
	b.tellCordon(pool, cordoned)
	return nil
}

// CordonNode implements api.Backend. The cordon ends with this boot of the node.
func (b backend) CordonNode(ctx context.Context, id string, cordoned bool) error {
	if err := b.thisNode(id); err != nil {
		return err
	}
	b.cordons.change.Lock()
	defer b.cordons.change.Unlock()
	if err := b.store.CordonNode(ctx, b.incarnation, cordoned); err != nil {
		return err
	}
	b.cordons.setNode(cordoned)
	for _, handle := range b.handles() {
		b.system.Send(handle.pid, &supervisor.Cordon{Node: true, Cordoned: cordoned})
	}
	return nil
}
