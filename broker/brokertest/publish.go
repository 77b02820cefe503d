package brokertest

import (
	"context"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
)

func declareAgain(b *bench) {
	dlx, dead := b.deadLetters()
	q := broker.Queue{
		Name: b.queue("work", withTTL(time.Minute), withDLX(dlx)), Quorum: b.quorum, TTL: time.Minute, DeadLetterExchange: dlx,
	}
	b.send(q.Name, 1)
	require.NoError(b, b.Declare(b.Context(), broker.Topology{
		Exchanges: []broker.Exchange{{Name: dlx, Kind: broker.Fanout}},
		Queues:    []broker.Queue{q},
		Bindings:  []broker.Binding{{Exchange: dlx, Queue: dead}},
	}))
	b.ready(q.Name, 1)
}

func declareOther(b *bench) {
	name := b.queue("work", withTTL(time.Minute))
	err := b.Declare(b.Context(), broker.Topology{
		Queues: []broker.Queue{{Name: name, Quorum: b.quorum, TTL: 2 * time.Minute}},
	})
	require.ErrorIs(b, err, broker.ErrPrecondition)
	err = b.Declare(b.Context(), broker.Topology{Queues: []broker.Queue{{Name: name, Quorum: b.quorum}}})
	require.ErrorIs(b, err, broker.ErrPrecondition)

	exchange := b.exchange("kind", broker.Topic)
	err = b.Declare(b.Context(), broker.Topology{Exchanges: []broker.Exchange{{Name: exchange, Kind: broker.Fanout}}})
	require.ErrorIs(b, err, broker.ErrPrecondition)

	b.send(name, 1) // the connection lives on
	b.ready(name, 1)
}

func messageWhole(b *bench) {
	queue := b.queue("work")
	sent := broker.Message{
		RoutingKey: queue, ID: "message 1", Headers: map[string]string{"traceparent": "00-ab-cd-01", "empty": ""},
		Body: []byte("\x00\xffany bytes"), Expiration: time.Hour,
	}
	bare := broker.Message{RoutingKey: queue}
	b.publish(broker.Confirmed, sent, bare)

	c := b.consume(b, queue, 1)
	d := b.receive(c)
	require.Equal(b, sent, d.Message)
	require.Equal(b, queue, d.Queue)
	require.False(b, d.Redelivered)
	require.Empty(b, d.Deaths)
	require.NoError(b, d.Ack())

	d = b.receive(c)
	require.Empty(b, d.ID)
	require.Empty(b, d.Headers)
	require.Empty(b, d.Body)
	require.Zero(b, d.Expiration)
	require.NoError(b, d.Ack())
}

func confirmsFollow(b *bench) {
	queue := b.queue("work")
	topic := b.exchange("topic", broker.Topic)
	confirms, err := b.Publish(b.Context(), []broker.Message{
		{RoutingKey: queue, ID: "0"},
		{RoutingKey: b.prefix + "nobody", ID: "1"},
		{RoutingKey: queue, ID: "2"},
		{Exchange: topic, RoutingKey: "nobody.bound", ID: "3"},
	})
	require.NoError(b, err)
	require.Equal(b, []broker.Confirm{broker.Confirmed, broker.Returned, broker.Confirmed, broker.Returned}, confirms)
	b.ready(queue, 2)

	confirms, err = b.Publish(b.Context(), nil)
	require.NoError(b, err)
	require.Empty(b, confirms)
}

func missingExchange(b *bench) {
	queue := b.queue("work")
	confirms, _ := b.Publish(b.Context(), []broker.Message{{Exchange: b.prefix + "missing", RoutingKey: queue, ID: "0"}})
	require.Len(b, confirms, 1)
	require.NotEqual(b, broker.Confirmed, confirms[0])

	b.eventually("publishing works again", func() bool {
		confirms, err := b.Publish(b.Context(), []broker.Message{{RoutingKey: queue, ID: "1"}})
		return err == nil && confirms[0] == broker.Confirmed
	})
}

func inspectExchange(b *bench) {
	for _, kind := range []broker.ExchangeKind{broker.Fanout, broker.Topic, broker.Direct} {
		exchange := b.prefix + "asked." + string(kind)
		for range 3 { // each refusal closes a channel, and never the connection
			require.ErrorIs(b, b.InspectExchange(b.Context(), exchange), broker.ErrNoExchange)
		}
		b.exchange("asked."+string(kind), kind)
		require.NoError(b, b.InspectExchange(b.Context(), exchange))
	}
	require.True(b, b.Status().Up)
}

// fullQueue publishes one by one, because a quorum queue accepts a few messages above its bound.
func fullQueue(b *bench) {
	const bound, slack = 5, 100
	queue := b.queue("work", func(q *broker.Queue) { q.MaxLength = bound })
	confirmed := 0
	for i := range bound + slack {
		confirms, err := b.Publish(b.Context(), []broker.Message{{RoutingKey: queue, ID: strconv.Itoa(i)}})
		require.NoError(b, err)
		if confirms[0] == broker.Nacked {
			break
		}
		require.Equal(b, broker.Confirmed, confirms[0])
		confirmed++
	}
	require.GreaterOrEqual(b, confirmed, bound)
	require.Less(b, confirmed, bound+slack, "never nacked")

	c := b.consume(b, queue, 1)
	for range confirmed {
		require.NoError(b, b.receive(c).Ack())
	}
	b.eventually("room again", func() bool {
		confirms, err := b.Publish(b.Context(), []broker.Message{{RoutingKey: queue, ID: "later"}})
		require.NoError(b, err)
		return confirms[0] == broker.Confirmed
	})
}

func cancelledContext(b *bench) {
	queue := b.queue("work")
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	confirms, err := b.Publish(ctx, []broker.Message{{RoutingKey: queue}, {RoutingKey: queue}})
	require.ErrorIs(b, err, context.Canceled)
	require.Equal(b, []broker.Confirm{broker.Unknown, broker.Unknown}, confirms)
	_, err = b.Consume(ctx, queue, 1)
	require.ErrorIs(b, err, context.Canceled)
	b.send(queue, 1)
	b.ready(queue, 1)
}

func fanout(b *bench) {
	exchange := b.exchange("fan", broker.Fanout)
	one, two := b.queue("one"), b.queue("two")
	b.bind(exchange, one, "")
	b.bind(exchange, two, "ignored")
	b.bind(exchange, two, "ignored too")
	b.publish(broker.Confirmed, broker.Message{Exchange: exchange, RoutingKey: "any", ID: "0"})
	b.ready(one, 1)
	b.ready(two, 1) // once, with any number of bindings
	d := b.receive(b.consume(b, two, 1))
	require.Equal(b, exchange, d.Exchange)
	require.Equal(b, "any", d.RoutingKey)
	require.NoError(b, d.Ack())
}

func topicPatterns(b *bench) {
	exchange := b.exchange("topic", broker.Topic)
	patterns := map[string][]string{
		"execution.*.core.echo":      {"execution.completed.core.echo"},
		"execution.failed.#":         {"execution.failed.core.echo", "execution.failed.demo.x", "execution.failed"},
		"#.echo":                     {"execution.completed.core.echo", "execution.failed.core.echo", "echo"},
		"execution.#.demo.*":         {"execution.failed.demo.x"},
		"*":                          {"echo"},
		"execution.failed.core.echo": {"execution.failed.core.echo"},
		"#":                          {"execution.completed.core.echo", "execution.failed.core.echo", "execution.failed.demo.x", "execution.failed", "echo"},
	}
	keys := patterns["#"]
	consumers := map[string]broker.Consumer{}
	for pattern := range patterns {
		queue := b.queue("by." + strconv.Itoa(len(consumers)))
		b.bind(exchange, queue, pattern)
		consumers[pattern] = b.consume(b, queue, 100)
	}
	for _, key := range keys {
		b.publish(broker.Confirmed, broker.Message{Exchange: exchange, RoutingKey: key})
	}
	for pattern, want := range patterns {
		var got []string
		for range want {
			d := b.receive(consumers[pattern])
			got = append(got, d.RoutingKey)
			require.NoError(b, d.Ack())
		}
		require.ElementsMatch(b, want, got, pattern)
	}
}

func direct(b *bench) {
	exchange := b.exchange("direct", broker.Direct)
	queue := b.queue("work")
	b.bind(exchange, queue, "exact")
	b.publish(broker.Confirmed, broker.Message{Exchange: exchange, RoutingKey: "exact"})
	b.publish(broker.Returned,
		broker.Message{Exchange: exchange, RoutingKey: "exact.not"},
		broker.Message{Exchange: exchange, RoutingKey: "#"},
		broker.Message{Exchange: exchange, RoutingKey: ""})
	b.ready(queue, 1)
}

func withTTL(ttl time.Duration) func(*broker.Queue) {
	return func(q *broker.Queue) { q.TTL = ttl }
}

func withDLX(exchange string) func(*broker.Queue) {
	return func(q *broker.Queue) { q.DeadLetterExchange = exchange }
}

func withExpiration(d time.Duration) func(*broker.Message) {
	return func(m *broker.Message) { m.Expiration = d }
}
