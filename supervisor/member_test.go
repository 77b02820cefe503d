package supervisor

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// A node that this one declares dead may be missing in a beat before the store has answered that. Once, it then went down as if another
// had declared it, and nobody counted it as lost.
func TestANodeIsLostWhetherOrNotTheBeatComesFirst(t *testing.T) {
	t.Parallel()
	own, gone := messages.NewIncarnation(), messages.NewIncarnation()
	var down []store.Node
	m := &Member{
		cfg: MemberConfig{Incarnation: own, Logger: hclog.NewNullLogger(), Tell: func(message any) {
			if d, is := message.(*NodeDown); is {
				down = append(down, d.Node)
			}
		}},
		nodes: map[messages.Incarnation]store.Node{gone: {Incarnation: gone, Name: "b"}},
		ended: map[messages.Incarnation]store.NodeEnd{}, claimed: map[messages.Incarnation]store.NodeEnd{},
	}
	renewed := time.Now()
	rows := m.claim([]membership.Gone{{Incarnation: gone, Renewed: renewed, End: membership.AddressRefuses}})
	require.Equal(t, []store.Gone{{Incarnation: gone, BeatAt: renewed, Ended: store.EndRefused}}, rows)
	m.do(membership.Down{Incarnation: gone})
	require.Len(t, down, 1)
	require.Equal(t, store.EndRefused, down[0].Ended)
	require.Equal(t, "b", down[0].Name)
	m.do(membership.Down{Incarnation: messages.NewIncarnation()})
	require.Empty(t, down[1].Ended, "another node has declared it")
}

// How a node stands with another is a word in the log, also where the log is JSON.
func TestHowANodeStandsIsLoggedAsAWord(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	other := messages.NewIncarnation()
	m := &Member{
		cfg: MemberConfig{
			Logger: hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}),
			Saw: func(time.Time, bool, []membership.Other, []store.Node) map[messages.Incarnation]membership.Standing {
				return map[messages.Incarnation]membership.Standing{other: {Reach: membership.Suspect, Why: "it refuses"}}
			},
		},
		nodes: map[messages.Incarnation]store.Node{other: {Incarnation: other, Name: "b"}}, stood: map[messages.Incarnation]membership.Reach{},
	}
	for range 2 {
		m.saw(&pulsed{event: membership.Renewed{}})
	}
	require.Equal(t, 1, strings.Count(log.String(), "node stands otherwise with a peer"))
	require.Contains(t, log.String(), `"reach":"suspect"`)
	require.Contains(t, log.String(), `"reason":"it refuses"`)
}
