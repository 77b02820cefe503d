package supervisor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// abroad is a store that shows one session, which is bound to another node's worker.
type abroad struct {
	store.Store
	session store.Session
}

func (a *abroad) BoundSessions(ctx context.Context, q store.BoundQuery) ([]store.Session, error) {
	if q.Worker.IsZero() {
		return []store.Session{a.session}, nil
	}
	return a.Store.BoundSessions(ctx, q)
}

// A session that was bound to another node's worker may have begun there after this pool has read of it: once that node
// has ended, its next run is told of the loss.
func TestALossAbroadIsTold(t *testing.T) {
	t.Parallel()
	other := messages.NewIncarnation()
	h := build(t, "go", 1, goes(quick), func(c *PoolConfig) {
		require.NoError(t, c.Store.Join(t.Context(), store.Node{Incarnation: other, Name: "other", State: store.NodeActive}, 0))
		c.Store = &abroad{c.Store, store.Session{
			Pool: "pool", Session: "s", Worker: messages.WorkerKey{Incarnation: other, Pool: "pool"}, Epoch: 1,
		}}
	})
	h.ready(1)
	soon(t, func() bool { return h.describe().Router.Bound == 1 }, "it must have been read")
	h.system.Send(h.pid, &NodeDown{Node: store.Node{Incarnation: other}})
	ids := h.submit(2, func(e *messages.Execution) { e.Session, e.Affinity = "s", messages.AffinityStrict })
	h.all(ids, messages.Completed)
	first, next := h.get(ids[0]), h.get(ids[1])
	require.True(t, first.SessionLost, "the first run after the node's end is not told")
	require.False(t, next.SessionLost, "a loss is told once")
}
