package rabbitmq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/test/servers"
)

// At most 16 MiB of large messages are unsettled, with any prefetch. The others stay in the queue until those are
// settled, and are then delivered once each. Small messages behind them are delivered with the full prefetch.
func TestLargeMessagesAreTakenByTheirBytes(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	b := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true})
	queue := prefix + ".large"
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue, Expires: time.Minute}}}))
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	const large, small, size = 24, 60, 3 << 20
	publish := func(from, to, bytes int) {
		for i := from; i < to; i++ {
			confirms, err := b.Publish(t.Context(), []broker.Message{{RoutingKey: queue, ID: fmt.Sprint(i), Body: make([]byte, bytes)}})
			require.NoError(t, err)
			require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
		}
	}
	publish(0, 10, 100) // so that the full prefetch is used
	publish(10, 10+large, size)
	publish(10+large, 10+large+small, 100)
	c, err := b.Consume(t.Context(), queue, 100)
	require.NoError(t, err)

	got := map[string]bool{}
	var held []broker.Delivery
	take := func() bool {
		select {
		case d, open := <-c.Deliveries():
			require.True(t, open, "%v", c.Err())
			require.False(t, got[d.ID], "message %s came twice", d.ID)
			held = append(held, d)
			bytes := 0
			for _, h := range held {
				bytes += len(h.Body)
			}
			require.LessOrEqual(t, bytes, 16<<20+10*100+small*100)
			return true
		case <-time.After(500 * time.Millisecond): // no more deliveries while these are unsettled
			return false
		}
	}
	for deadline := time.Now().Add(time.Minute); len(got) < 10+large+small; {
		require.True(t, time.Now().Before(deadline), "%d came", len(got))
		for take() {
		}
		for _, d := range held {
			got[d.ID] = true
			require.NoError(t, d.Ack())
		}
		held = nil
	}
	require.NoError(t, c.Cancel())
	require.NoError(t, b.Delete(t.Context(), queue))
}
