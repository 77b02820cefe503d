package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/store"
)

// otherNodes is a store in which other nodes lived before.
type otherNodes struct {
	store.Store
	others atomic.Pointer[[]store.Node]
}

func (s *otherNodes) wrap(inner store.Store) store.Store {
	s.Store = inner
	return s
}

func (s *otherNodes) ListNodes(ctx context.Context) ([]store.Node, error) {
	nodes, err := s.Store.ListNodes(ctx)
	if others := s.others.Load(); others != nil {
		nodes = append(nodes, *others...)
	}
	return nodes, err
}

// A node that starts after another was lost knows of it as those do that saw it.
func TestALossFromBeforeItsStartIsFound(t *testing.T) {
	t.Parallel()
	dead := func(number byte, ended store.NodeEnd, ago time.Duration) store.Node {
		at := time.Now().Add(-ago)
		return store.Node{Incarnation: messages.Incarnation{number}, Name: "other", State: store.NodeDead, Ended: ended, StartedAt: at.Add(-time.Hour), BeatAt: at.Add(-6 * time.Second), LeaseUntil: at}
	}
	s := &otherNodes{}
	s.others.Store(&[]store.Node{dead(1, store.EndStopped, time.Minute), dead(2, store.EndLease, 2*alerts.LostFor), dead(3, "", time.Minute)})
	k := lab(t, func(c *node.Config) { c.WrapStore = s.wrap })
	lost := func() (found []alerts.Finding, v api.Findings) {
		v = k.Backend.Findings()
		for _, f := range v.Findings {
			if f.Name == "node_lost" {
				found = append(found, f)
			}
		}
		return found, v
	}
	k.until("the rules are judged", func() bool { _, v := lost(); return !v.At.IsZero() })
	found, v := lost()
	require.Empty(t, found, "one stopped, one was lost long ago, and of one nobody knows how it ended")
	require.NotContains(t, v.Unknown, "node_lost")

	all := append(*s.others.Load(), dead(4, store.EndRefused, alerts.LostFor/2))
	s.others.Store(&all)
	k.until("the loss is found", func() bool { found, _ = lost(); return len(found) == 1 })
	require.Equal(t, "A node was lost in the last ten minutes", found[0].Message)
	require.EqualValues(t, 1, found[0].Value)

	require.NoError(t, k.Store().AppendJournal(t.Context(), []messages.JournalEntry{{
		At: time.Now(), Incarnation: messages.Incarnation{9}, Number: 1, Kind: messages.JournalNode, Subject: all[1].Incarnation.String(), What: "dead", Reason: string(store.EndLease),
	}}))
	k.until("the other is counted too: its lease ran out long ago, and it was declared dead just now", func() bool { found, _ = lost(); return len(found) == 1 && found[0].Value == 2 })
}
