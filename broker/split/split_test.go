package split_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/brokertest"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/broker/split"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// It behaves like the server's adapter where no queue is near.
func TestConformance(t *testing.T) {
	t.Parallel()
	var servers sync.Map // by test
	brokertest.RunInBubbles(t, func(t *testing.T) broker.Broker {
		found, loaded := servers.LoadOrStore(t, sync.OnceValue(func() *memory.Broker { return memory.New(memory.Config{}) }))
		first := found.(func() *memory.Broker)()
		if !loaded {
			t.Cleanup(func() { require.NoError(t, first.Close()) })
		}
		server, err := first.Connect()
		require.NoError(t, err)
		return split.New(split.Config{Server: server, Near: memory.New(memory.Config{}), IsNear: func(string) bool { return false }})
	})
}

func near(queue string) bool { return strings.HasPrefix(queue, "near.") }

func queue(name string) broker.Topology {
	return broker.Topology{Queues: []broker.Queue{{Name: name, MaxLength: 2}}}
}

// Each queue is in one adapter, whatever is done with it, and the confirms stand at the indexes of their messages.
func TestEachQueueIsInOneAdapter(t *testing.T) {
	t.Parallel()
	server, local := memory.New(memory.Config{}), memory.New(memory.Config{})
	b := split.New(split.Config{Server: server, Near: local, IsNear: near})
	both := queue("near.a")
	both.Queues = append(both.Queues, queue("far.a").Queues...)
	both.Exchanges = []broker.Exchange{{Name: "near.x", Kind: broker.Fanout}}
	require.NoError(t, b.Declare(t.Context(), both))
	require.NoError(t, server.InspectExchange(t.Context(), "near.x"), "exchanges are the server's, whatever their names are")
	_, err := server.Inspect(t.Context(), "near.a")
	require.ErrorIs(t, err, broker.ErrNoQueue)
	_, err = local.Inspect(t.Context(), "far.a")
	require.ErrorIs(t, err, broker.ErrNoQueue)

	confirms, err := b.Publish(t.Context(), []broker.Message{
		{RoutingKey: "far.a"}, {RoutingKey: "near.a"}, {RoutingKey: "near.b"}, {RoutingKey: "far.b"}, {RoutingKey: "near.a"}, {RoutingKey: "near.a"},
		{Exchange: "near.x", RoutingKey: "near.a"},
	})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{
		broker.Confirmed, broker.Confirmed, broker.Returned, broker.Returned, broker.Confirmed, broker.Nacked, broker.Returned,
	}, confirms)
	for name, ready := range map[string]int{"near.a": 2, "far.a": 1} {
		info, err := b.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, ready, info.Ready, name)
		consumer, err := b.Consume(t.Context(), name, 1)
		require.NoError(t, err)
		require.NoError(t, (<-consumer.Deliveries()).Ack())
		require.NoError(t, consumer.Cancel())
		require.NoError(t, b.Delete(t.Context(), name))
		_, err = b.Inspect(t.Context(), name)
		require.ErrorIs(t, err, broker.ErrNoQueue)
	}
	require.NoError(t, b.Close())
	require.False(t, server.Status().Up)
	require.False(t, local.Status().Up)
}

// A server that has gone hinders nothing that is near, and its messages alone are not confirmed.
func TestAServerThatHasGoneHindersNothingNear(t *testing.T) {
	t.Parallel()
	server, local := memory.New(memory.Config{}), memory.New(memory.Config{})
	b := split.New(split.Config{Server: server, Near: local, IsNear: near})
	require.NoError(t, server.Close())
	require.False(t, b.Status().Up)
	require.NoError(t, b.Declare(t.Context(), queue("near.a")))
	require.ErrorIs(t, b.Declare(t.Context(), queue("far.a")), broker.ErrClosed)
	confirms, err := b.Publish(t.Context(), []broker.Message{{RoutingKey: "far.a"}, {RoutingKey: "near.a", Expiration: time.Minute}})
	require.ErrorIs(t, err, broker.ErrClosed)
	require.Equal(t, []broker.Confirm{broker.Unknown, broker.Confirmed}, confirms)
	consumer, err := b.Consume(t.Context(), "near.a", 1)
	require.NoError(t, err)
	require.NoError(t, (<-consumer.Deliveries()).Ack())
	require.NoError(t, b.Close())
}
