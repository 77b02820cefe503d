package operate

import (
	"context"
	"maps"
	"sync"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// Cordons is the operators' intent about whole pools, which the store keeps over restarts and for every node, and about
// this node, which ends with this boot. Pools read it when they start.
type Cordons struct {
	cfg   *Config
	calls *Calls

	change sync.Mutex // held over a write or read of the store and what follows from it, so that no old answer wins
	mu     sync.Mutex
	pools  map[string]bool
	node   bool
}

// Of reports what is intended about a pool.
func (c *Cordons) Of(pool string) (ofPool, ofNode bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pools[pool], c.node
}

// keep takes the store's answer and returns the pools for which it says otherwise than before.
func (c *Cordons) keep(list []string) map[string]bool {
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
func (c *Cordons) set(pool string, cordoned bool) {
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

func (c *Cordons) setNode(cordoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node = cordoned
}

// Read learns of pools that were cordoned before this boot, or at other nodes, and tells this node's.
func (c *Cordons) Read(ctx context.Context) error {
	c.change.Lock()
	defer c.change.Unlock()
	list, err := c.cfg.Store.CordonedPools(ctx)
	if err != nil {
		return err
	}
	for pool, cordoned := range c.keep(list) {
		c.cfg.Logger.Info("pool's cordon changed in the store", "pool", pool, "cordoned", cordoned)
		c.tell(pool, cordoned)
	}
	return nil
}

// tell tells a pool of this node. One that has not started reads it when it does.
func (c *Cordons) tell(pool string, cordoned bool) {
	c.cfg.Pools.Tell(pool, &supervisor.Cordon{Slot: -1, Cordoned: cordoned})
}

// CordonPool gives a pool no more work on all nodes, or gives it work again. Nodes that are reached learn of it at once, others within a heartbeat interval.
func (c *Cordons) CordonPool(ctx context.Context, pool string, cordoned bool, by string) error {
	c.change.Lock()
	defer c.change.Unlock()
	// The cordon of a pool that is gone can still be lifted.
	if known, _ := c.Of(pool); !c.cfg.Pools.Has(pool) && (cordoned || !known) && !c.servedElsewhere(ctx, pool) {
		return found("pool", pool, store.ErrNotFound)
	}
	if err := c.cfg.Store.CordonPool(ctx, pool, cordoned); err != nil {
		return err
	}
	c.cfg.Logger.Info("pool is cordoned or uncordoned by an operator", "pool", pool, "cordoned", cordoned, "by", by)
	c.cfg.did(ctx, cordonWords[cordoned], pool, by)
	c.set(pool, cordoned)
	c.tell(pool, cordoned)
	c.hint(pool, cordoned, by)
	return nil
}

// servedElsewhere reports whether another live node has workers of the pool.
func (c *Cordons) servedElsewhere(ctx context.Context, pool string) bool {
	rows, err := c.cfg.Store.ListWorkers(ctx, pool)
	return err == nil && len(rows) > 0
}

// hint tells the other nodes that a pool's cordon has changed in the store.
func (c *Cordons) hint(pool string, cordoned bool, by string) {
	if c.calls.nodes.network == nil {
		return
	}
	for _, p := range c.calls.nodes.network.Peers() {
		c.calls.hint(p.Incarnation, messages.Placement{}, wire.Cordon{Pool: pool, Cordoned: cordoned, By: by})
	}
}

// cordonNode takes this node out of placement or back in. The cordon ends with this boot of the node.
func (c *Cordons) cordonNode(ctx context.Context, cordoned bool, by string) error {
	c.change.Lock()
	defer c.change.Unlock()
	if err := c.cfg.Store.CordonNode(ctx, c.cfg.Incarnation, cordoned); err != nil {
		return err
	}
	c.cfg.Logger.Info("node is cordoned or uncordoned by an operator", "node", c.cfg.Name, "cordoned", cordoned, "by", by)
	c.setNode(cordoned)
	c.cfg.Pools.TellAll(&supervisor.Cordon{Node: true, Cordoned: cordoned})
	return nil
}
