package operate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func TestWhichNodesWereKilled(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	node := func(age time.Duration, state store.NodeState, end store.NodeEnd) store.Node {
		beat := now.Add(-age)
		return store.Node{Incarnation: messages.NewIncarnation(), State: state, StartedAt: beat.Add(-time.Hour), BeatAt: beat, LeaseUntil: beat.Add(6 * time.Second), Ended: end}
	}
	live := node(time.Second, store.NodeActive, "")
	live.StartedAt = now.Add(-50 * time.Second) // when the lease of the one before had run out
	lost, gone, stopped := node(10*time.Second, store.NodeDead, store.EndLease), node(time.Minute, store.NodeDead, store.EndRefused), node(time.Minute, store.NodeDead, store.EndStopped)
	unknown, earlier, old := node(time.Minute, store.NodeDead, ""), node(2*time.Minute, store.NodeDead, ""), node(25*time.Hour, store.NodeDead, store.EndLease)
	killed := func(nodes ...store.Node) (list []messages.Incarnation) {
		for _, k := range Killed(nodes, now) {
			list = append(list, k.Incarnation)
		}
		return list
	}
	require.Equal(t, []messages.Incarnation{lost.Incarnation, gone.Incarnation}, killed(live, lost, gone, stopped, old))
	require.Equal(t, []messages.Incarnation{unknown.Incarnation}, killed(live, unknown, earlier), "the earlier one was dealt with by the later one")
	require.Equal(t, live.StartedAt, Killed([]store.Node{live, unknown}, now)[0].Until, "no lease bounds it")
	require.Equal(t, unknown.LeaseUntil, Killed([]store.Node{unknown, earlier}, now)[0].Until)
	many := make([]store.Node, 2*recountNodes)
	for i := range many {
		many[i] = node(time.Minute, store.NodeDead, store.EndLease)
	}
	require.Len(t, killed(many...), recountNodes)
}
