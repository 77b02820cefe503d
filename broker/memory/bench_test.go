package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
)

// BenchmarkPublishDeliverAck moves messages through one queue in batches; one operation is one message. In "alone", one
// goroutine publishes and consumes. In "apart", a publisher and a consumer run in parallel.
func BenchmarkPublishDeliverAck(b *testing.B) {
	for _, size := range []int{1, 20, 256} {
		b.Run(fmt.Sprintf("alone/batch=%d", size), func(b *testing.B) {
			m, c, messages := benchQueue(b, size)
			b.ReportAllocs()
			for n := 0; n < b.N; n += size {
				publishBatch(b, m, messages)
				for range size {
					if err := (<-c.Deliveries()).Ack(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
		b.Run(fmt.Sprintf("apart/batch=%d", size), func(b *testing.B) {
			m, c, messages := benchQueue(b, size)
			rounds := (b.N + size - 1) / size
			done := make(chan error, 1)
			go func() {
				var err error
				for range rounds * size {
					if e := (<-c.Deliveries()).Ack(); e != nil {
						err = e
					}
				}
				done <- err
			}()
			b.ReportAllocs()
			for range rounds {
				publishBatch(b, m, messages)
			}
			require.NoError(b, <-done)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

func benchQueue(b *testing.B, size int) (*memory.Broker, broker.Consumer, []broker.Message) {
	m := memory.New(memory.Config{QueueMax: 1 << 30})
	b.Cleanup(func() { require.NoError(b, m.Close()) })
	require.NoError(b, m.Declare(b.Context(), broker.Topology{
		Exchanges: []broker.Exchange{{Name: "dlx", Kind: broker.Fanout}},
		Queues:    []broker.Queue{{Name: "work", TTL: 5 * time.Minute, Expires: 10 * time.Minute, DeadLetterExchange: "dlx"}},
	}))
	c, err := m.Consume(b.Context(), "work", max(256, size))
	require.NoError(b, err)
	messages := make([]broker.Message, size)
	for i := range messages {
		messages[i] = broker.Message{RoutingKey: "work", Body: make([]byte, 200)}
	}
	return m, c, messages
}

func publishBatch(b *testing.B, m *memory.Broker, messages []broker.Message) {
	confirms, err := m.Publish(b.Context(), messages)
	if err != nil || confirms[0] != broker.Confirmed {
		b.Fatal(confirms[0], err)
	}
}
