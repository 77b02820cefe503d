package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// findings is what one round read of the workers of a pool that this node does not have, where no heartbeat of them is fresh.
type findings struct {
	late  bool          // one belongs to a node that holds its lease, though its heartbeat is old: that node's router decides
	every time.Duration // the longest heartbeat interval that is known
}

// unassigned follows a pool whose work waits while this node does not have the pool.
type unassigned struct {
	since time.Time // the first of the rounds in a row that found nobody who serves it; zero: the last round did not
	last  time.Time // the last of them
	next  int64     // where the walk over its work goes on
}

// Nothing ends before rounds have found a pool unserved for unservedFor heartbeat intervals: heartbeats come up to a tenth later than
// their interval, and take time to be written. Rounds that are more than unservedGap intervals apart are not in a row: the store,
// or this node, stood still between them for as long as makes heartbeats stale.
const (
	unservedFor = 1.5
	unservedGap = 3
)

// round takes what a round found, and reports whether the pool's work may end. One round alone says little: after an outage of
// the store all heartbeats are old, until each node has written its next.
func (u *unassigned) round(now time.Time, f findings) bool {
	if f.late {
		u.since = time.Time{}
		return false
	}
	if u.since.IsZero() || now.Sub(u.last) > unservedGap*f.every {
		u.since = now
	}
	u.last = now
	return now.Sub(u.since) >= time.Duration(unservedFor*float64(f.every))
}

// lateWorkers reads, of the given pools, which have an active worker of another node that holds its lease, whatever its heartbeat,
// and the longest heartbeat interval of the other nodes' workers.
func (p *unservedPools) lateWorkers(ctx context.Context, pools []string) (map[string]findings, error) {
	found := map[string]findings{}
	for _, pool := range pools {
		found[pool] = findings{every: p.every}
	}
	if !p.shared || len(pools) == 0 {
		return found, nil
	}
	nodes, err := p.store.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	live := map[messages.Incarnation]bool{}
	for i := range nodes {
		live[nodes[i].Incarnation] = nodes[i].State != store.NodeDead && p.clock.Since(nodes[i].LeaseUntil) < 0
	}
	rows, err := p.store.ListWorkers(ctx, "")
	for i := range rows {
		w := &rows[i]
		f, asked := found[w.Key.Pool]
		if !asked || w.Key.Incarnation == p.incarnation {
			continue
		}
		f.every = max(f.every, w.BeatEvery)
		f.late = f.late || live[w.Key.Incarnation] && w.Active && w.State != lifecycle.Terminated.String()
		found[w.Key.Pool] = f
	}
	return found, err
}
