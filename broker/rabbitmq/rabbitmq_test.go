package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/brokertest"
	"github.com/troupe-run/troupe/broker/brokertest/faulty"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/test/servers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	url, _ := servers.RabbitMQ(t)
	brokertest.Run(t, func(t *testing.T) broker.Broker { return open(t, rabbitmq.Config{URL: url, WaitAtOpen: true}) })
}

// TestConformanceUnderFaults runs the suite through a caller that handles the faults of a network.
func TestConformanceUnderFaults(t *testing.T) {
	t.Parallel()
	url, _ := servers.RabbitMQ(t)
	bench := faulty.NewBench(1)
	brokertest.Run(t, func(t *testing.T) broker.Broker {
		return bench.Wrap(open(t, rabbitmq.Config{URL: url, WaitAtOpen: true}))
	})
}

// open opens a broker that outlives the test's context, since clean-up needs brokers too. Every line of its log is
// formatted and discarded, because a value that cannot be formatted would panic.
func open(t testing.TB, c rabbitmq.Config) *rabbitmq.Broker {
	if c.Logger == nil {
		c.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: io.Discard, JSONFormat: true})
	}
	b, err := rabbitmq.Open(context.Background(), c)
	require.NoError(t, err)
	return b
}

// TestReturnsAreMatched: repeated or missing ids do not matter, nor do more returns than a window holds.
func TestReturnsAreMatched(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	b := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true, PublishWindow: 50})
	defer func() { require.NoError(t, b.Close()) }()
	queue := prefix + ".work"
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue}}}))
	defer func() { require.NoError(t, b.Delete(context.Background(), queue)) }()
	messages := make([]broker.Message, 1000)
	want := make([]broker.Confirm, len(messages))
	for i := range messages {
		messages[i], want[i] = broker.Message{RoutingKey: prefix + ".nobody", ID: "same"}, broker.Returned
		if i%7 == 0 {
			messages[i], want[i] = broker.Message{RoutingKey: queue, ID: "same"}, broker.Confirmed
		}
		if i%5 == 0 {
			messages[i].ID = ""
		}
	}
	confirms, err := b.Publish(t.Context(), messages)
	require.NoError(t, err)
	require.Equal(t, want, confirms)
}

// TestMissingExchangeHurtsNobodyElse: the server closes the channel on which the exchange was named. Other callers must
// not be affected.
func TestMissingExchangeHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	b := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true})
	defer func() { require.NoError(t, b.Close()) }()
	queue := prefix + ".work"
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue}}}))
	defer func() { require.NoError(t, b.Delete(context.Background(), queue)) }()
	var both sync.WaitGroup
	both.Go(func() {
		for range 20 {
			confirms, err := b.Publish(t.Context(), []broker.Message{{Exchange: prefix + ".missing"}})
			if !errors.Is(err, broker.ErrUnavailable) || confirms[0] != broker.Unknown {
				t.Errorf("to the missing exchange: %v, %v", confirms, err)
			}
		}
	})
	both.Go(func() {
		for range 200 {
			confirms, err := b.Publish(t.Context(), []broker.Message{{RoutingKey: queue}})
			if err != nil || confirms[0] != broker.Confirmed {
				t.Errorf("to the queue: %v, %v", confirms, err)
			}
		}
	})
	both.Wait()
}

// TestProbe: a server that tests may use has no problems.
func TestProbe(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	report, err := rabbitmq.Probe(t.Context(), rabbitmq.Config{URL: url}, prefix)
	require.NoError(t, err)
	require.Empty(t, report.Problems())
	require.Equal(t, "RabbitMQ", report.Product)
}

// TestNoMoreChannels: reaching the library's bound on channels is an error with that reason, and later calls succeed.
func TestNoMoreChannels(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	b := open(t, rabbitmq.Config{URL: url + "?channel_max=3", WaitAtOpen: true, PublishChannels: 1})
	defer func() { require.NoError(t, b.Close()) }()
	queue := prefix + ".work"
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue}}})) // one channel is enough
	defer func() { require.NoError(t, b.Delete(context.Background(), queue)) }()
	first, err := b.Consume(t.Context(), queue, 1)
	require.NoError(t, err)
	_, err = b.Consume(t.Context(), queue, 1)
	require.NoError(t, err)
	_, err = b.Consume(t.Context(), queue, 1)
	require.ErrorContains(t, err, "all 3 channels of the connection are taken: let workers share queues")
	require.NoError(t, first.Cancel())
	require.Eventually(t, func() bool {
		_, err = b.Consume(t.Context(), queue, 1)
		return err == nil
	}, patience, tick)
}

// TestSettlementsBeforeCloseCount: Ack does not wait, but Close sends all earlier acks, also those of cancelled
// consumers. For these, the test sends only as many as a quorum queue accepts for sure before the end.
func TestSettlementsBeforeCloseCount(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	watch := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true})
	defer func() { require.NoError(t, watch.Close()) }()
	for _, quorum := range []bool{true, false} {
		queue := fmt.Sprintf("%s.%v", prefix, quorum)
		require.NoError(t, watch.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue, Quorum: quorum}}}))
		defer func() { require.NoError(t, watch.Delete(context.Background(), queue)) }()
		for _, cancelled := range []bool{false, true} {
			count := 1000
			if cancelled {
				count = 30
			}
			_, err := watch.Publish(t.Context(), slices.Repeat([]broker.Message{{RoutingKey: queue}}, count))
			require.NoError(t, err)
			b := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true})
			consumer, err := b.Consume(t.Context(), queue, count)
			require.NoError(t, err)
			var held []broker.Delivery
			for range count {
				held = append(held, <-consumer.Deliveries())
			}
			if cancelled {
				require.NoError(t, consumer.Cancel())
			}
			for _, d := range held {
				require.NoError(t, d.Ack())
				runtime.Gosched() // so that not all acks become one
			}
			require.NoError(t, b.Close())
			require.ErrorIs(t, held[0].Ack(), broker.ErrClosed)
			again, err := watch.Consume(t.Context(), queue, 1)
			require.NoError(t, err)
			confirms, err := watch.Publish(t.Context(), []broker.Message{{RoutingKey: queue, ID: "marker"}})
			require.NoError(t, err)
			require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
			d := <-again.Deliveries()
			require.Equal(t, "marker", d.ID, "nothing comes again")
			require.NoError(t, d.Ack())
			require.NoError(t, again.Cancel())
		}
	}
}
