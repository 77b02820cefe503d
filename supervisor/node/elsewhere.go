package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors/lifecycle"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor"
)

// lookElsewhere tells the pools which other nodes have workers of theirs. It asks nothing while no other node lives, or all
// that live share their routers.
func (n *Node) lookElsewhere(ctx context.Context) error {
	if !n.looksElsewhere() {
		return nil
	}
	served, err := n.elsewhere(ctx)
	if err != nil {
		return err
	}
	for name, handle := range n.handles() {
		n.system.Send(handle.pid, &supervisor.Elsewhere{Beats: served[name]})
	}
	return nil
}

// elsewhere reads which pools have workers on other live nodes, and when those last beat, by this machine's clock. A
// worker that is stale, that its node has taken out, or that has ended and not come back, does not count.
func (n *Node) elsewhere(ctx context.Context) (map[string]map[messages.Incarnation]time.Time, error) {
	if !n.cfg.full() {
		return nil, nil
	}
	stored, err := n.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	here := time.Now()
	rows, err := n.store.ListWorkers(ctx, "")
	served := map[string]map[messages.Incarnation]time.Time{}
	for i := range rows {
		w := &rows[i]
		age := stored.Sub(w.Beat)
		stale := time.Duration(float64(w.BeatEvery) * n.cfg.StalenessMultiplier)
		inc, pool := w.Key.Incarnation, w.Key.Pool
		if inc == n.incarnation || !w.Active || w.State == lifecycle.Terminated.String() || age > stale {
			continue
		}
		if served[pool] == nil {
			served[pool] = map[messages.Incarnation]time.Time{}
		}
		if at := here.Add(-max(age, 0)); at.After(served[pool][inc]) {
			served[pool][inc] = at
		}
	}
	return served, err
}
