package roster

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// The latest landedMax are remembered for sure, and never more than twice as many.
func TestLanded(t *testing.T) {
	t.Parallel()
	nth := func(n int) (id messages.ExecutionID) {
		binary.BigEndian.PutUint32(id[:], uint32(n))
		return id
	}
	var l landed
	require.False(t, l.has(nth(0)))
	for n := range 5*landedMax + 1 {
		l.note(nth(n))
		require.True(t, l.has(nth(n)))
		require.True(t, l.has(nth(max(0, n-landedMax+1))), "one that landed %d before", landedMax-1)
		require.LessOrEqual(t, len(l.latest)+len(l.before), 2*landedMax)
	}
	require.False(t, l.has(nth(3*landedMax)))
}
