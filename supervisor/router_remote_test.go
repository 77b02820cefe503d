package supervisor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A session that was bound to another node's worker may have begun there after this pool has read of it: once that node
// has ended, its next run is told of the loss.
func TestALossAbroadIsTold(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 1, goes(quick), nil)
	h.ready(1)
	other := messages.NewIncarnation()
	bound := store.Session{Pool: "pool", Session: "s", Worker: messages.WorkerKey{Incarnation: other, Pool: "pool"}, Epoch: 1}
	p := h.made()[0]
	p.world.After(0, func() {
		p.router.sessionsRead(&poolRead{
			sessions: []store.Session{bound}, nodes: map[messages.Incarnation]struct{}{other: {}},
		}, false)
	})
	h.system.Send(h.pid, &NodeDown{Node: store.Node{Incarnation: other}})
	ids := h.submit(2, func(e *messages.Execution) { e.Session, e.Affinity = "s", messages.AffinityStrict })
	h.all(ids, messages.Completed)
	first, next := h.get(ids[0]), h.get(ids[1])
	require.True(t, first.SessionLost, "the first run after the node's end is not told")
	require.False(t, next.SessionLost, "a loss is told once")
}
