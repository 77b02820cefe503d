package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
)

// recountsEvery is how often killed nodes are looked for.
const recountsEvery = time.Minute

// recounts completes the counts of nodes that were killed before they wrote their last ones. Every node does it: what they store is the same.
type recounts struct {
	*base
	done map[messages.Incarnation]bool
}

// round counts for the nodes that were killed since the last one.
func (r *recounts) round(ctx context.Context) error {
	now, err := r.store.Now(ctx)
	if err != nil {
		return err
	}
	nodes, err := r.store.ListNodes(ctx)
	if err != nil {
		return err
	}
	done := map[messages.Incarnation]bool{}
	for _, k := range operate.Killed(nodes, now) {
		if done[k.Incarnation] = true; r.done[k.Incarnation] {
			continue
		}
		rows, whole, err := operate.Recount(ctx, r.store, &k)
		if err != nil {
			return err
		}
		if rows > 0 || !whole {
			r.logger.Info("counts of a node that was killed are completed from its executions", "incarnation", k.Incarnation, "rows", rows, "whole", whole)
		}
	}
	r.done = done
	return nil
}
