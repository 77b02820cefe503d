package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// led is a router's row without its time.
type led struct {
	pool  string
	by    messages.Incarnation
	epoch int64
}

// leads asks to lead pools, and returns all of them that have a leader afterwards.
func (k *kit) leads(t *testing.T, by messages.Incarnation, pools ...string) []led {
	t.Helper()
	list, err := k.Lead(t.Context(), by, pools)
	require.NoError(t, err)
	return k.timeless(t, list)
}

// routers returns all rows.
func (k *kit) routers(t *testing.T) []led {
	t.Helper()
	list, err := k.Routers(t.Context())
	require.NoError(t, err)
	return k.timeless(t, list)
}

func (k *kit) timeless(t *testing.T, list []store.Router) []led {
	t.Helper()
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	out := make([]led, len(list))
	for i, r := range list {
		require.False(t, r.Since.IsZero())
		require.False(t, r.Since.After(now))
		out[i] = led{r.Pool, r.Incarnation, r.Epoch}
	}
	return out
}

func testRouters(t *testing.T, k *kit) {
	nobody := messages.Incarnation{}
	require.Empty(t, k.routers(t))
	require.Empty(t, k.leads(t, k.inc))
	require.Equal(t, []led{{"B", k.inc, 1}, {"a", k.inc, 1}}, k.leads(t, k.inc, "a", "B", "a"), "by name, each once")
	first, err := k.Routers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []led{{"a", k.inc, 1}, {"ä", k.inc, 1}}, k.leads(t, k.inc, "ä", "a"), "what it leads stays")
	again, err := k.Routers(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again[:2], "since as before")

	stranger := messages.NewIncarnation()
	require.Equal(t, []led{{"a", k.inc, 1}}, k.leads(t, stranger, "a", "c"), "an unknown incarnation takes none")
	require.NoError(t, k.Resign(t.Context(), stranger, nil))
	require.NoError(t, k.Resign(t.Context(), k.inc, []string{}))
	for range 2 {
		require.NoError(t, k.Resign(t.Context(), k.inc, []string{"a", "c"}))
	}
	require.Equal(t, []led{{"B", k.inc, 1}, {"a", nobody, 1}, {"ä", k.inc, 1}}, k.routers(t))
	require.Equal(t, []led{{"B", k.inc, 1}}, k.leads(t, stranger, "a", "B"), "what nobody leads is left out")
	require.Equal(t, []led{{"a", k.inc, 2}}, k.leads(t, k.inc, "a"), "each taking raises the epoch")
	require.NoError(t, k.Resign(t.Context(), k.inc, nil))
	require.Equal(t, []led{{"B", nobody, 1}, {"a", nobody, 2}, {"ä", nobody, 1}}, k.routers(t))
}

// testRoutersPassed checks that a node that leaves gives up its pools and takes no more, and that its successor takes
// them with a new epoch.
func testRoutersPassed(t *testing.T, k *kit) {
	for i, state := range []store.NodeState{store.NodeDraining, store.NodeDead} {
		epoch := int64(2*i + 1)
		require.Equal(t, []led{{"a", k.inc, epoch}}, k.leads(t, k.inc, "a"))
		require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeActive))
		require.Equal(t, []led{{"a", k.inc, epoch}}, k.routers(t), "an active node keeps it")
		require.NoError(t, k.SetNode(t.Context(), k.inc, state))
		require.Equal(t, []led{{"a", messages.Incarnation{}, epoch}}, k.routers(t))
		require.Empty(t, k.leads(t, k.inc, "a", "b"), "a %s node takes none", state)
		k.inc = k.join(t, time.Hour)
		require.Equal(t, []led{{"a", k.inc, epoch + 1}}, k.leads(t, k.inc, "a"))
		require.NoError(t, k.Resign(t.Context(), k.inc, nil))
	}
	k.leads(t, k.inc, "a")
	require.NoError(t, k.Resign(t.Context(), k.join(t, time.Hour), nil))
	require.Equal(t, k.inc, k.routers(t)[0].by, "nobody gives up what another leads")
}

// testRouterLeases checks that a pool can be taken when its leader's lease has expired or it was declared dead, and not
// before.
func testRouterLeases(t *testing.T, k *kit) {
	const lease = 50 * time.Millisecond
	other := k.join(t, time.Hour)
	require.Equal(t, []led{{"a", other, 1}, {"b", other, 1}}, k.leads(t, other, "a", "b"))
	require.Equal(t, []led{{"a", other, 1}, {"b", other, 1}, {"c", k.inc, 1}}, k.leads(t, k.inc, "a", "b", "c"), "its lease is live")
	p, err := k.Beat(t.Context(), other, lease)
	require.NoError(t, err)
	k.past(t, p.Lease)
	require.Equal(t, []led{{"a", other, 1}, {"c", k.inc, 1}}, k.leads(t, other, "a", "c", "d"), "without a live lease it takes none")
	require.Equal(t, []led{{"a", k.inc, 2}}, k.leads(t, k.inc, "a"))
	_, err = k.Beat(t.Context(), other, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []led{{"a", k.inc, 2}, {"b", other, 1}}, k.leads(t, k.inc, "a", "b"), "it renews, and keeps what nobody took")
	require.Equal(t, []led{{"a", k.inc, 2}, {"b", other, 1}}, k.leads(t, other, "a", "b"), "what was taken stays taken")

	hints := k.watch(t)
	p, err = k.Beat(t.Context(), other, lease)
	require.NoError(t, err)
	k.past(t, p.Lease)
	k.past(t, k.node(t, k.inc).SteadySince.Add(lease))
	dead, err := k.DeclareDead(t.Context(), k.inc, lease)
	require.NoError(t, err)
	require.Len(t, dead, 1)
	hear(t, hints, store.Hint{Kind: store.HintRouter})
	require.Equal(t, []led{{"b", k.inc, 2}}, k.leads(t, k.inc, "b"), "its leader is dead")
}

// testRouterHints checks that the others are told when pools are given up, and not if there was none.
func testRouterHints(t *testing.T, k *kit) {
	hints := k.watch(t)
	k.leads(t, k.inc, "a", "b")
	require.NoError(t, k.Resign(t.Context(), k.inc, []string{"c"}))
	e := k.submit(t, ask())[0] // a marker: hints before it are of earlier changes
	for h := range hints {
		require.NotEqual(t, store.HintRouter, h.Kind, "nothing was given up")
		if h.Pool == e.Pool {
			break
		}
	}
	require.NoError(t, k.Resign(t.Context(), k.inc, []string{"a"}))
	hear(t, hints, store.Hint{Kind: store.HintRouter})
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDraining))
	hear(t, hints, store.Hint{Kind: store.HintRouter})
}

// testRouterRaces has many nodes take the same pools at the same time, while the pools change leaders. Each taking has
// one winner, all get the same one, and no epoch is used twice.
func testRouterRaces(t *testing.T, k *kit) {
	const takers, rounds = 6, 15
	pools := []string{"a", "b", "c", "d"}
	nodes := make([]messages.Incarnation, takers)
	for i := range nodes {
		nodes[i] = k.join(t, time.Hour)
	}
	lapsing := k.join(t, time.Hour)
	for round := range rounds {
		// The pools were given up, or their leader is dead or has an expired lease.
		switch round % 3 {
		case 0:
			for _, n := range nodes {
				require.NoError(t, k.Resign(t.Context(), n, nil))
			}
		case 1, 2:
			k.handTo(t, nodes, lapsing, pools)
			p, err := k.Beat(t.Context(), lapsing, time.Millisecond)
			require.NoError(t, err)
			k.past(t, p.Lease)
		}
		before := map[string]int64{}
		for _, r := range k.routers(t) {
			before[r.pool] = r.epoch
		}
		answers, failures := make([][]store.Router, takers), make([]error, takers)
		var all sync.WaitGroup
		for i, n := range nodes {
			mine := slices.Clone(pools)
			if i%2 == 0 {
				slices.Reverse(mine)
			}
			all.Go(func() { answers[i], failures[i] = k.Lead(t.Context(), n, mine) })
		}
		all.Wait()
		require.NoError(t, errors.Join(failures...))
		want, err := k.Routers(t.Context())
		require.NoError(t, err)
		require.Len(t, want, len(pools))
		for i := range answers {
			require.Equal(t, want, answers[i], "round %d: taker %d was told of another leader", round, i)
		}
		for _, r := range want {
			require.Contains(t, nodes, r.Incarnation)
			require.Equal(t, before[r.Pool]+1, r.Epoch, "round %d: pool %s was taken once", round, r.Pool)
		}
	}
}

// handTo makes one node lead the pools of others.
func (k *kit) handTo(t *testing.T, from []messages.Incarnation, to messages.Incarnation, pools []string) {
	t.Helper()
	_, err := k.Beat(t.Context(), to, time.Hour)
	require.NoError(t, err)
	for _, n := range from {
		require.NoError(t, k.Resign(t.Context(), n, nil))
	}
	for _, r := range k.leads(t, to, pools...) {
		require.Equal(t, to, r.by)
	}
}

// testRouterDrains checks that a node that takes and drains at the same time ends without a pool, whichever was first.
func testRouterDrains(t *testing.T, k *kit) {
	for range 20 {
		n := k.join(t, time.Hour)
		var both sync.WaitGroup
		var taken, drained error
		both.Go(func() { _, taken = k.Lead(t.Context(), n, []string{"a", "b"}) })
		both.Go(func() { drained = k.SetNode(t.Context(), n, store.NodeDraining) })
		both.Wait()
		require.NoError(t, errors.Join(taken, drained))
		for _, r := range k.routers(t) {
			require.NotEqual(t, n, r.by, "a draining node leads pool %s", r.pool)
		}
	}
}
