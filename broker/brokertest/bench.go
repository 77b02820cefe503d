package brokertest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
)

// patience bounds every wait of the suite. A wait polls every tick.
const (
	patience = 60 * time.Second
	tick     = 20 * time.Millisecond
)

// bench is the fixture of one test: a connection, unique names, and ways to wait.
type bench struct {
	*testing.T
	broker.Broker
	open   Open
	quorum bool
	prefix string
}

func newBench(t *testing.T, open Open, quorum bool) *bench {
	b := &bench{T: t, open: open, quorum: quorum, prefix: "troupe.test." + uuid.NewString() + "."}
	b.Broker = b.connect()
	return b
}

// connect opens another connection to the same broker.
func (b *bench) connect() broker.Broker {
	c := b.open(b.T)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c
}

// queue declares a queue with a unique name and returns the name.
func (b *bench) queue(name string, change ...func(*broker.Queue)) string {
	q := broker.Queue{Name: b.prefix + name, Quorum: b.quorum}
	for _, f := range change {
		f(&q)
	}
	require.NoError(b, b.Declare(b.Context(), broker.Topology{Queues: []broker.Queue{q}}))
	b.Cleanup(func() { b.sweep(q.Name) })
	return q.Name
}

// sweep removes a queue on a new connection, since the test may have closed its first one.
func (b *bench) sweep(queue string) {
	c := b.open(b.T)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(b, c.Delete(ctx, queue))
	require.NoError(b, c.Close())
}

// exchange declares an exchange and returns its name.
func (b *bench) exchange(name string, kind broker.ExchangeKind) string {
	e := broker.Exchange{Name: b.prefix + name, Kind: kind}
	require.NoError(b, b.Declare(b.Context(), broker.Topology{Exchanges: []broker.Exchange{e}}))
	return e.Name
}

func (b *bench) bind(exchange, queue, key string) {
	require.NoError(b, b.Declare(b.Context(), broker.Topology{
		Bindings: []broker.Binding{{Exchange: exchange, Queue: queue, Key: key}},
	}))
}

// deadLetters declares a fanout exchange with a queue behind it and returns both names.
func (b *bench) deadLetters() (exchange, queue string) {
	exchange, queue = b.exchange("dlx", broker.Fanout), b.queue("dead")
	b.bind(exchange, queue, "")
	return exchange, queue
}

// send publishes n messages with the ids 0 to n-1 to a queue. All must be confirmed.
func (b *bench) send(queue string, n int, change ...func(*broker.Message)) {
	messages := make([]broker.Message, n)
	for i := range messages {
		messages[i] = broker.Message{RoutingKey: queue, ID: strconv.Itoa(i), Body: []byte("{}")}
		for _, f := range change {
			f(&messages[i])
		}
	}
	b.publish(broker.Confirmed, messages...)
}

// publish sends messages that must all get the same confirm.
func (b *bench) publish(want broker.Confirm, messages ...broker.Message) {
	confirms, err := b.Publish(b.Context(), messages)
	require.NoError(b, err)
	require.Len(b, confirms, len(messages))
	for i, c := range confirms {
		require.Equal(b, want, c, "message %d", i)
	}
}

func (b *bench) consume(c broker.Broker, queue string, prefetch int) broker.Consumer {
	consumer, err := c.Consume(b.Context(), queue, prefetch)
	require.NoError(b, err)
	return consumer
}

// receive waits for one delivery.
func (b *bench) receive(c broker.Consumer) broker.Delivery {
	b.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case d, ok := <-c.Deliveries():
		require.True(b, ok, "deliveries ended: %v", c.Err())
		return d
	case <-timeout.C:
		require.FailNow(b, "no delivery came")
		return broker.Delivery{}
	}
}

// ended waits until the consumer's deliveries are closed, and returns those that were not read.
func (b *bench) ended(c broker.Consumer) []broker.Delivery {
	b.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	var rest []broker.Delivery
	for {
		select {
		case d, ok := <-c.Deliveries():
			if !ok {
				return rest
			}
			rest = append(rest, d)
		case <-timeout.C:
			require.FailNow(b, "deliveries did not end")
		}
	}
}

// eventually waits for a condition.
func (b *bench) eventually(what string, condition func() bool) {
	b.Helper()
	for until := time.Now().Add(patience); !condition(); {
		require.True(b, time.Now().Before(until), "never came true: %s", what)
		pause := time.NewTimer(tick)
		select {
		case <-pause.C:
		case <-b.Context().Done():
			require.FailNow(b, "test ended while waiting", what)
		}
	}
}

// ready waits until a queue has n ready messages.
func (b *bench) ready(queue string, n int) {
	b.Helper()
	b.eventually(queue+" has "+strconv.Itoa(n)+" ready messages", func() bool {
		info, err := b.Inspect(b.Context(), queue)
		require.NoError(b, err)
		return info.Ready == n
	})
}
