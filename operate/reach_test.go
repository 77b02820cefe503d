package operate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/membership"
)

// Any node shows which live node reaches which other, as each says itself, and which one did not say it.
func TestWhoReachesWhom(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	c.join("c", "shell", 1)
	from := func(asked *node) map[string]string {
		all, missing, err := asked.Reach(t.Context())
		require.NoError(t, err)
		seen := map[string]string{}
		for _, n := range all {
			require.NotNil(t, n.Others)
			for _, s := range n.Others {
				seen[n.Node+" to "+s.Node] = s.Reach
				require.NotEmpty(t, s.Why)
			}
		}
		for _, u := range missing {
			seen[u.Node] = u.Why
		}
		return seen
	}
	stands := membership.NotHeard.String() // no membership has looked in this test
	want := map[string]string{"a to b": stands, "a to c": stands, "b to a": stands, "b to c": stands, "c to a": stands, "c to b": stands}
	require.Equal(t, want, from(a))
	require.Equal(t, want, from(b))

	c.lost[b.cfg.Incarnation] = true
	seen := from(a)
	require.NotContains(t, seen, "b to a")
	require.Contains(t, seen["b"], "node b cannot be reached from node a")
	require.Equal(t, stands, seen["c to a"])
}
