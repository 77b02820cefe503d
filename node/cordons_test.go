package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
)

// heldBack waits until the execution is known to wait for the cordon.
func (k *kit) heldBack(id messages.ExecutionID) {
	k.t.Helper()
	k.until("it says that it waits for the cordon", func() bool {
		why, err := k.Why(k.t.Context(), id)
		require.NoError(k.t, err)
		return why.Reason == "workers_cordoned"
	})
}

// What waits says how many are before it, by priority, and behind others of its session.
func TestWhatWaitsSaysItsPlaceInLine(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop, "turn": noop}), goPack(t, map[string]string{"noop": "", "turn": "affinity: strict\n"}))
	require.NoError(t, k.CordonPool(t.Context(), "go", true))
	inSession := func(r *submit.Request) { r.Session = "s" }
	low, high, middle := k.submit("t.noop", nil, priority(1)), k.submit("t.noop", nil, priority(9)), k.submit("t.noop", nil, priority(5))
	head, behind := k.submit("t.turn", nil, priority(9), inSession), k.submit("t.turn", nil, priority(9), inSession)
	for id, want := range map[messages.ExecutionID]view.Line{
		high: {Of: "pool"}, head: {Ahead: 1, Of: "pool"}, middle: {Ahead: 2, Of: "pool"}, low: {Ahead: 3, Of: "pool"}, behind: {Ahead: 1, Of: "session"},
	} {
		var got view.Explanation
		k.until("it has its place", func() bool {
			var err error
			got, err = k.Why(t.Context(), id)
			require.NoError(t, err)
			return got.Line != nil && *got.Line == want
		})
	}
	require.NoError(t, k.CordonPool(t.Context(), "go", false))
	for _, id := range []messages.ExecutionID{low, high, middle, head, behind} {
		require.Equal(t, messages.Completed, k.await(id).Status)
	}
	done, err := k.Why(t.Context(), low)
	require.NoError(t, err)
	require.Nil(t, done.Line)
}

// A pool's cordon is an operator's intent: it is there after a restart. A node's ends with its boot.
func TestAPoolsCordonOutlivesTheNode(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings := handle(map[string]messages.Handler{"noop": noop})
	k := boot(t, data, settings, pack)
	require.NoError(t, k.CordonPool(t.Context(), "go", true))
	require.NoError(t, k.CordonNode(t.Context(), "test", true))
	waiting := k.submit("t.noop", nil)
	require.NoError(t, k.stop())

	k = boot(t, data, settings, pack)
	k.heldBack(waiting)
	require.True(t, k.pool("go").Cordoned)
	require.Equal(t, messages.Requested, k.get(waiting).Status)
	require.NoError(t, k.CordonPool(t.Context(), "go", false))
	require.Equal(t, messages.Completed, k.await(waiting).Status)
	require.NoError(t, k.stop())

	k = boot(t, data, settings, pack)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	require.False(t, k.pool("go").Cordoned)
}

// A pool's cordon holds on every node that shares the store, whichever was told of it.
func TestAPoolsCordonReachesEveryNode(t *testing.T) {
	t.Parallel()
	url, pack := database(t), goPack(t, map[string]string{"noop": ""})
	member := func(name string) *kit {
		return lab(t, func(c *node.Config) {
			handle(map[string]messages.Handler{"noop": noop})(c)
			paired(c, url)
			c.Name = name
		}, pack)
	}
	here, there := member("here"), member("there")
	require.NoError(t, here.CordonPool(t.Context(), "go", true))
	there.until("the other node has heard of it", func() bool { return there.pool("go").Cordoned })
	waiting := there.submit("t.noop", nil)
	there.heldBack(waiting)
	require.NoError(t, there.CordonPool(t.Context(), "go", false))
	require.Equal(t, messages.Completed, there.await(waiting).Status)
	here.until("the first node has heard of the end", func() bool { return !here.pool("go").Cordoned })
}
