package operate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/operate/view"
)

// The reasons of two nodes are one text, whose parts do not end with the line of a program's stderr.
func TestReasonsOfNodesAreOneText(t *testing.T) {
	t.Parallel()
	sum := poolSum{}
	sum.add("b", false, &view.Pool{Name: "m", Broken: true, Reason: "no module; stderr: trace\n"})
	sum.add("a", true, &view.Pool{Name: "m", Broken: true, Reason: "no file\n"})
	require.Equal(t, "a: no file; b: no module; stderr: trace", sum.views(nil)[0].Reason)
}

// A server that is away is the reason why a pool places nothing: once where it is so for all nodes.
func TestAPoolSaysThatAServerIsAway(t *testing.T) {
	t.Parallel()
	of := func(halts ...string) view.Pool {
		sum := poolSum{}
		for i, halted := range halts {
			sum.add(string(rune('a'+i)), i == 0, &view.Pool{Name: "m", Halted: halted})
		}
		return sum.views(nil)[0]
	}
	require.Empty(t, of("", "").Reason)
	all := of("broker_away", "broker_away", "broker_away")
	require.Equal(t, "broker_away", all.Halted)
	require.Equal(t, "the broker is not connected; nothing is placed until it is, and running executions continue", all.Reason)
	some := of("", "broker_away")
	require.Empty(t, some.Halted, "the other node places")
	require.Equal(t, "on 1 of 2 nodes the broker is not connected; nothing is placed until it is, and running executions continue", some.Reason)
	two := of("broker_blocked", "broker_away", "broker_blocked")
	require.Equal(t, "broker_blocked", two.Halted)
	require.Contains(t, two.Reason, "on 2 of 3 nodes the broker accepts no messages")
	require.Contains(t, two.Reason, "on 1 of 3 nodes the broker is not connected")

	sum := poolSum{}
	sum.add("a", true, &view.Pool{Name: "m", Broken: true, Reason: "no file", Halted: "store_away"})
	require.Equal(t, "the store does not answer; nothing is placed until it does, and running executions continue; no file", sum.views(nil)[0].Reason)
}
