package supervisor

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// deafBroker takes no messages of the pool once it is told so.
type deafBroker struct {
	broker.Broker
	deaf atomic.Bool
}

func (d *deafBroker) Publish(ctx context.Context, batch []broker.Message) ([]broker.Confirm, error) {
	if d.deaf.Load() {
		return make([]broker.Confirm, len(batch)), errors.New("a test said so")
	}
	return d.Broker.Publish(ctx, batch)
}

// 1,000 foreign messages on a pool's queue, and 1,000 publishings that fail, are a line each, and the next line counts them.
func TestPoolLogsAFloodOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // the library's window of dead letters ends
		var log bytes.Buffer
		deaf := &deafBroker{}
		h := build(t, "go", 1, goes(quick), func(c *PoolConfig) {
			deaf.Broker, c.Broker = c.Broker, deaf
			c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		})
		h.ready(1)
		h.all(h.submit(1, nil), messages.Completed)
		flood := func(text string, do func(n int)) {
			t.Helper()
			do(1000)
			synctest.Wait()
			require.Equal(t, 1, strings.Count(log.String(), text))
			time.Sleep(time.Minute)
			do(1)
			synctest.Wait()
			require.Equal(t, 2, strings.Count(log.String(), text))
			require.Contains(t, log.String(), "left_out=999")
			log.Reset()
		}
		queue := h.config.Settings.PoolQueueName("node", "pool", h.config.Incarnation)
		flood("message quarantined", func(n int) {
			for range n {
				_, err := deaf.Publish(t.Context(), []broker.Message{{RoutingKey: queue, Body: []byte("{")}})
				require.NoError(t, err)
			}
			synctest.Wait()
		})
		deaf.deaf.Store(true)
		flood("placements not published", func(n int) {
			for range n {
				h.pools[0].router.publishAll(nil)
				synctest.Wait()
			}
		})
		deaf.deaf.Store(false)
		require.NoError(t, h.broker.Close())
	})
}
