package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/servers"
)

// TestLargeMessagesFitInMemory puts ten messages of 25 MB on the queue of a pool whose prefetch allows all of them at once, and
// ten on the queue of submissions. Troupe publishes no message of this size, but other programs can. The node refuses all of
// them, stores their bodies cut, and continues to work. Its memory holds the few messages that arrive before their size is known:
// at its peak 400 to 480 MiB. Before consumers reduced their prefetch after a large message, the same node needed 3,125 MiB.
func TestLargeMessagesFitInMemory(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	n := v.start(t, "taker", "")
	defer n.showPeak(t)
	n.works(t)
	incarnation, err := messages.ParseIncarnation(n.get(t, "/api/v1/nodes/taker").text("incarnation"))
	require.NoError(t, err)
	settings := broker.Settings{Prefix: v.prefix}
	const each, size = 10, 25_000_000
	for _, queue := range []string{settings.PoolQueueName("taker", "go", incarnation), settings.RequestsQueue()} {
		require.NoError(t, servers.Publish(t.Context(), v.broker, queue, each, make([]byte, size)))
	}
	for _, letter := range n.letters(t, 2*each) {
		require.NotContains(t, letter, "body", "a list has no bodies")
	}
	n.works(t)
	peak := n.peakMemory(t)
	require.Greater(t, peak, int64(10<<20), "it was measured")
	require.Less(t, peak, int64(800<<20))
	require.NoError(t, n.stop())
}
