package supervisor

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// past is a store in which this node had a boot before, with one worker that was busy.
type past struct {
	store.Store
	self messages.Incarnation
	now  time.Time
	dead atomic.Bool // that boot has been declared so
}

func (p *past) ListNodes(context.Context) ([]store.Node, error) {
	before := store.Node{Name: "node", State: store.NodeActive, StartedAt: p.now.Add(-time.Hour), BeatAt: p.now.Add(-time.Minute)}
	if p.dead.Load() {
		before.State = store.NodeDead
	}
	return []store.Node{{Incarnation: p.self, Name: "node", State: store.NodeActive, StartedAt: p.now, BeatAt: p.now}, before}, nil
}

func (p *past) EndedWorkers(ctx context.Context, inc messages.Incarnation) ([]store.Worker, error) {
	if inc != (messages.Incarnation{}) {
		return p.Store.EndedWorkers(ctx, inc)
	}
	return []store.Worker{{Key: messages.WorkerKey{Pool: "pool"}, State: lifecycle.Busy.String()}}, nil
}

// The downtime of a dead node's workers is counted once by its next boot, from the last beat until they are ready, whether that
// boot is declared dead before they are or after; and not again by the actor after the pool's.
func TestDowntimeOfADeadNodesWorkers(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"declared dead before": false, "declared dead when they are ready": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			away := make(chan time.Duration, 64)
			var before *past
			h := build(t, "go", 2, goes(quick), func(c *PoolConfig) {
				c.Hooks.Away = func(_ string, d time.Duration) { away <- d }
				before = &past{Store: c.Store, self: c.Incarnation, now: time.Now()}
				before.dead.Store(!late)
				c.Store = before
			})
			h.ready(2)
			if late {
				require.Empty(t, away, "it may live beside this one")
				before.dead.Store(true)
				h.system.Send(h.pid, &NodeDown{Node: store.Node{Name: "node"}})
			}
			soon(t, func() bool { return len(away) > 0 }, "it must be counted")
			d := <-away
			require.GreaterOrEqual(t, d, time.Minute)
			require.Less(t, d, 2*time.Minute)
			h.crash("top/pool")
			h.remade(2)
			h.ready(2)
			h.system.Send(h.pid, &NodeDown{Node: store.Node{Name: "node"}})
			h.describe()
			require.Empty(t, away, "once, and nothing of the slot that it did not have")
		})
	}
}
