package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
	"github.com/troupe-run/troupe/supervisor"
)

// unservedPools ends what waits for a pool that no node has any more, because a reload or a new configuration has taken it away:
// nobody routes it, and no worker will come. Only the monitor "homeless" uses it, one round at a time.
type unservedPools struct {
	store       store.Store
	clock       *clock.Clock // the store's
	pools       *pools
	remote      *operate.RemoteWorkers
	sweeper     *sweeper
	incarnation messages.Incarnation
	every       time.Duration // between two heartbeats of this node's workers
	shared      bool          // other nodes may use the store
	deadline    time.Duration // of waiting for any worker
	serves      func(action string) bool

	by map[string]*unassigned // those whose work waits and that this node does not have
}

func newUnservedPools(b *base, c *catalog, remote *operate.RemoteWorkers, s *sweeper) *unservedPools {
	return &unservedPools{
		store: b.store, clock: &b.clock, pools: b.pools, remote: remote, sweeper: s, incarnation: b.incarnation,
		every: b.cfg.HeartbeatInterval, shared: b.cfg.full(), deadline: b.cfg.NoWorkerDeadline, serves: c.serves, by: map[string]*unassigned{},
	}
}

// round ends the work of the pools that rounds enough have found unserved. What fails in a round shows that the store is not steady,
// so the rounds are counted anew.
func (p *unservedPools) round(ctx context.Context) error {
	err := p.end(ctx)
	if err != nil {
		for _, u := range p.by {
			u.since = time.Time{}
		}
	}
	return err
}

// end ends the work of those pools that rounds enough have found unserved.
func (p *unservedPools) end(ctx context.Context) error {
	depths, err := p.store.Depths(ctx)
	if err != nil {
		return err
	}
	var unserved []string
	for _, d := range depths {
		if d.Status == messages.Requested && !p.pools.Has(d.Pool) && !slices.Contains(unserved, d.Pool) {
			unserved = append(unserved, d.Pool)
		}
	}
	maps.DeleteFunc(p.by, func(pool string, _ *unassigned) bool { return !slices.Contains(unserved, pool) })
	late := p.lateOwn(depths)
	if len(unserved) == 0 && len(late) == 0 {
		return nil
	}
	served, err := p.served(ctx)
	if err != nil {
		return err
	}
	for _, pool := range late {
		if len(served[pool]) == 0 { // another node of the pool may serve what this one does not
			if err := p.endActions(ctx, pool); err != nil {
				return err
			}
		}
	}
	unserved = slices.DeleteFunc(unserved, func(pool string) bool {
		if len(served[pool]) > 0 {
			delete(p.by, pool)
		}
		return len(served[pool]) > 0
	})
	found, err := p.lateWorkers(ctx, unserved)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, pool := range unserved {
		if p.by[pool] == nil {
			p.by[pool] = &unassigned{}
		}
		if p.by[pool].round(now, found[pool]) {
			err = errors.Join(err, p.endWork(ctx, pool))
		}
	}
	return err
}

// lateOwn are the pools of this node for which something has waited for longer than nobody may.
func (p *unservedPools) lateOwn(depths []store.Depth) (late []string) {
	for _, d := range depths {
		if d.Status == messages.Requested && p.pools.Has(d.Pool) && !d.Oldest.IsZero() && p.clock.Since(d.Oldest) >= p.deadline {
			late = append(late, d.Pool)
		}
	}
	return late
}

// endActions ends what has been due in a pool for as long as it may wait for a worker, and whose action this node does not serve.
func (p *unservedPools) endActions(ctx context.Context, pool string) error {
	f := store.Filter{Pools: []string{pool}, Statuses: []messages.Status{messages.Requested}, Limit: sweepBatch, Oldest: true}
	for range sweepBatches {
		page, err := p.store.List(ctx, f)
		if err != nil {
			return err
		}
		_, err = p.sweeper.batch(ctx, page.Executions, func(_ context.Context, e *messages.Execution) store.Change {
			if p.serves(e.Action) || p.clock.Since(e.RunAt) < p.deadline {
				return nil
			}
			return p.sweeper.end(e, messages.CodeNoNodeServes, actors.NotServed+e.Action+", and there is no other node of pool "+pool, failedBySweep)
		})
		if err != nil {
			return err
		}
		if f.After = page.Next; f.After == 0 {
			break
		}
	}
	return nil
}

// endWork ends what is due of a pool that nobody serves, page by page of all that waits there. A round goes over a bounded
// number of pages, and the next one goes on behind them, so that what may stay hides nothing.
func (p *unservedPools) endWork(ctx context.Context, pool string) error {
	f := store.Filter{Pools: []string{pool}, Statuses: []messages.Status{messages.Requested}, Limit: sweepBatch, Before: p.by[pool].next}
	for range sweepBatches {
		page, err := p.store.List(ctx, f)
		if err != nil {
			return err
		}
		now := p.clock.Now()
		_, err = p.sweeper.batch(ctx, page.Executions, func(_ context.Context, e *messages.Execution) store.Change {
			if e.WaitForWorker || e.RunAt.After(now) {
				return nil
			}
			return p.sweeper.end(e, messages.CodeNoWorkers, "no workers available: this node has no pool "+pool, failedBySweep)
		})
		if err != nil {
			return err
		}
		if f.Before = page.Next; f.Before == 0 {
			break
		}
	}
	p.by[pool].next = f.Before
	return nil
}

// served reads which pools have workers on other live nodes. No other node has any where the store is this node's alone.
func (p *unservedPools) served(ctx context.Context) (map[string]map[messages.Incarnation]supervisor.LastBeat, error) {
	if !p.shared {
		return nil, nil
	}
	return p.remote.Served(ctx)
}
