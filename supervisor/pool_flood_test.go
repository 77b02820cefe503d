package supervisor

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// 1,000 foreign messages on a pool's queue are one line, and the next line counts them.
func TestPoolLogsAFloodOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // the library's window of dead letters ends
		var log bytes.Buffer
		h := build(t, "go", 1, goes(quick), func(c *PoolConfig) {
			c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		})
		h.ready(1)
		h.all(h.submit(1, nil), messages.Completed)
		queue := h.config.Settings.PoolQueueName("node", "pool", h.config.Incarnation)
		foreign := func(n int) {
			t.Helper()
			for range n {
				_, err := h.broker.Publish(t.Context(), []broker.Message{{RoutingKey: queue, Body: []byte("{")}})
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		foreign(1000)
		require.Equal(t, 1, strings.Count(log.String(), "message quarantined"))
		time.Sleep(time.Minute)
		foreign(1)
		require.Equal(t, 2, strings.Count(log.String(), "message quarantined"))
		require.Contains(t, log.String(), "left_out=999")
		require.NoError(t, h.broker.Close())
	})
}
