package rabbitmq_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/test/servers"
)

// bodySize is the size in bytes of a benchmark's message. One operation is one message.
const bodySize = 300

// BenchmarkPublish publishes in batches by one caller ("window") and one by one by many ("callers").
func BenchmarkPublish(b *testing.B) {
	for _, quorum := range []bool{true, false} {
		for _, size := range []int{1, 20, 256, 1024} {
			b.Run(fmt.Sprintf("%s/window=%d", kind(quorum), size), func(b *testing.B) {
				w := newWorkload(b, quorum, 0)
				batch := w.messages(size)
				b.ResetTimer()
				for n := 0; n < b.N; n += size {
					w.publish(batch)
				}
				rate(b)
			})
		}
		for _, callers := range []int{16, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", kind(quorum), callers), func(b *testing.B) {
				w := newWorkload(b, quorum, 0)
				one := w.messages(1)
				b.ResetTimer()
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for n := 0; n < b.N; n += callers {
							w.publish(one)
						}
					})
				}
				all.Wait()
				rate(b)
			})
		}
	}
}

// BenchmarkPublishConsumeAck runs a publisher with windows of 256, and in parallel a consumer that acks each delivery.
func BenchmarkPublishConsumeAck(b *testing.B) {
	for _, quorum := range []bool{true, false} {
		for _, prefetch := range []int{2, 21, 256} {
			b.Run(fmt.Sprintf("%s/prefetch=%d", kind(quorum), prefetch), func(b *testing.B) {
				w := newWorkload(b, quorum, prefetch)
				batch := w.messages(256)
				rounds := (b.N + len(batch) - 1) / len(batch)
				b.ResetTimer()
				var reading sync.WaitGroup
				reading.Go(func() {
					for range rounds * len(batch) {
						if err := (<-w.consumer.Deliveries()).Ack(); err != nil {
							b.Error(err)
							return
						}
					}
				})
				for range rounds {
					w.publish(batch)
				}
				reading.Wait()
				rate(b)
			})
		}
	}
}

// BenchmarkRoundTrip is one message from Publish to its delivery and ack, one at a time.
func BenchmarkRoundTrip(b *testing.B) {
	for _, quorum := range []bool{true, false} {
		b.Run(kind(quorum), func(b *testing.B) {
			w := newWorkload(b, quorum, 1)
			one := w.messages(1)
			b.ResetTimer()
			for range b.N {
				w.publish(one)
				if err := (<-w.consumer.Deliveries()).Ack(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type workload struct {
	b        *testing.B
	broker   *rabbitmq.Broker
	queue    string
	consumer broker.Consumer
}

// newWorkload declares a queue like a worker's. With a prefetch of 0 it makes no consumer.
func newWorkload(b *testing.B, quorum bool, prefetch int) *workload {
	url, prefix := servers.RabbitMQ(b)
	w := &workload{b: b, broker: open(b, rabbitmq.Config{URL: url, WaitAtOpen: true}), queue: prefix + ".work"}
	dlx := prefix + ".dlx"
	require.NoError(b, w.broker.Declare(b.Context(), broker.Topology{
		Exchanges: []broker.Exchange{{Name: dlx, Kind: broker.Fanout}},
		Queues:    []broker.Queue{{Name: w.queue, Quorum: quorum, DeadLetterExchange: dlx}},
	}))
	if prefetch > 0 {
		var err error
		w.consumer, err = w.broker.Consume(b.Context(), w.queue, prefetch)
		require.NoError(b, err)
	}
	b.Cleanup(func() {
		require.NoError(b, w.broker.Delete(context.Background(), w.queue))
		require.NoError(b, w.broker.Close())
	})
	return w
}

func (w *workload) messages(n int) []broker.Message {
	messages := make([]broker.Message, n)
	for i := range messages {
		messages[i] = broker.Message{RoutingKey: w.queue, Body: make([]byte, bodySize)}
	}
	return messages
}

func (w *workload) publish(messages []broker.Message) {
	confirms, err := w.broker.Publish(w.b.Context(), messages)
	for _, c := range confirms {
		if err != nil || c != broker.Confirmed {
			w.b.Errorf("confirm %v, error %v", c, err)
			return
		}
	}
}

func kind(quorum bool) string {
	if quorum {
		return "quorum"
	}
	return "classic"
}

func rate(b *testing.B) { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s") }
