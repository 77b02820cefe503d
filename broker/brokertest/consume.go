package brokertest

import (
	"context"
	"strconv"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
)

func prefetch(b *bench) {
	queue := b.queue("work")
	b.send(queue, 10)
	c := b.consume(b, queue, 3)
	b.ready(queue, 7)
	held := []broker.Delivery{b.receive(c), b.receive(c), b.receive(c)}
	require.Empty(b, c.Deliveries())
	require.NoError(b, held[0].Ack())
	next := b.receive(c)
	b.ready(queue, 6)
	for _, d := range append(held[1:], next) {
		require.NoError(b, d.Ack())
	}
	b.ready(queue, 3)

	_, err := b.Consume(b.Context(), queue, 0)
	require.Error(b, err, "a prefetch of 0 would be without bound")
}

func takeTurns(b *bench) {
	queue := b.queue("work")
	one, two := b.consume(b, queue, 1), b.consume(b.connect(), queue, 1)
	b.eventually("two consumers", func() bool {
		info, err := b.Inspect(b.Context(), queue)
		require.NoError(b, err)
		return info.Consumers == 2
	})
	b.send(queue, 2)
	first, second := b.receive(one), b.receive(two)
	require.NotEqual(b, first.ID, second.ID)
	require.NoError(b, first.Ack())
	require.NoError(b, second.Ack())
}

func nackRequeue(b *bench) {
	queue := b.queue("work")
	b.send(queue, 1)
	c := b.consume(b, queue, 1)
	require.NoError(b, b.receive(c).Nack(true))
	d := b.receive(c)
	require.True(b, d.Redelivered)
	require.Equal(b, "0", d.ID)
	require.NoError(b, d.Ack())
	require.NoError(b, c.Cancel())
	b.ready(queue, 0)
}

func closeRedelivers(b *bench) {
	queue := b.queue("work")
	b.send(queue, 5)
	other := b.connect()
	first := b.consume(other, queue, 5)
	require.NoError(b, b.receive(first).Ack())
	b.receive(first)
	b.ready(queue, 0)
	require.NoError(b, other.Close())

	second := b.consume(b, queue, 5)
	seen := map[string]bool{}
	for range 4 {
		d := b.receive(second)
		require.True(b, d.Redelivered)
		seen[d.ID] = true
		require.NoError(b, d.Ack())
	}
	require.Len(b, seen, 4)
}

func settleTwice(b *bench) {
	queue := b.queue("work")
	b.send(queue, 3)
	c := b.consume(b, queue, 1)
	for _, settle := range []func(broker.Delivery) error{
		func(d broker.Delivery) error { return d.Ack() },
		func(d broker.Delivery) error { return d.Nack(false) },
	} {
		d := b.receive(c)
		require.NoError(b, settle(d))
		require.ErrorIs(b, d.Ack(), broker.ErrClosed)
		require.ErrorIs(b, d.Nack(true), broker.ErrClosed)
	}
	last := b.receive(c) // the refused calls changed neither the consumer nor its next message
	require.NoError(b, last.Ack())
	require.NoError(b, c.Cancel())
	b.ready(queue, 0)
}

func settleAfterClose(b *bench) {
	queue := b.queue("work")
	b.send(queue, 1)
	other := b.connect()
	d := b.receive(b.consume(other, queue, 1))
	require.NoError(b, other.Close())
	again := b.receive(b.consume(b, queue, 1))
	require.ErrorIs(b, d.Ack(), broker.ErrClosed)
	require.ErrorIs(b, d.Nack(false), broker.ErrClosed)
	require.NoError(b, again.Ack(), "the old delivery's settlement must not touch the new one")
}

func cancelKeeps(b *bench) {
	queue := b.queue("work")
	b.send(queue, 6)
	c := b.consume(b, queue, 4)
	b.ready(queue, 2)
	acked, returned := b.receive(c), b.receive(c)
	require.NoError(b, c.Cancel())
	require.NoError(b, c.Cancel())
	rest := b.ended(c)
	require.NoError(b, c.Err())
	for _, d := range rest { // an adapter may have passed on one message that was under way
		require.NoError(b, d.Nack(true))
	}
	require.NoError(b, acked.Ack())
	b.ready(queue, 4)
	require.NoError(b, returned.Nack(true))
	b.ready(queue, 5)

	second := b.consume(b, queue, 6)
	seen := map[string]bool{}
	for range 5 {
		d := b.receive(second)
		seen[d.ID] = true
		require.NoError(b, d.Ack())
	}
	require.Len(b, seen, 5)
	require.NotContains(b, seen, acked.ID)
}

func consumeMissing(b *bench) {
	_, err := b.Consume(b.Context(), b.prefix+"nobody", 1)
	require.ErrorIs(b, err, broker.ErrNoQueue)
	_, err = b.Inspect(b.Context(), b.prefix+"nobody")
	require.ErrorIs(b, err, broker.ErrNoQueue)
	require.NoError(b, b.Delete(b.Context(), b.prefix+"nobody"))
	queue := b.queue("work") // the connection lives on
	b.send(queue, 1)
	require.NoError(b, b.receive(b.consume(b, queue, 1)).Ack())
}

func closeEnds(b *bench) {
	queue := b.queue("work")
	other := b.connect()
	c := b.consume(other, queue, 1)
	require.NoError(b, other.Close())
	require.NoError(b, other.Close())
	require.Empty(b, b.ended(c))
	require.ErrorIs(b, c.Err(), broker.ErrClosed)

	confirms, err := other.Publish(b.Context(), []broker.Message{{RoutingKey: queue}})
	require.ErrorIs(b, err, broker.ErrClosed)
	require.Equal(b, []broker.Confirm{broker.Unknown}, confirms)
	_, err = other.Consume(b.Context(), queue, 1)
	require.ErrorIs(b, err, broker.ErrClosed)
	_, err = other.Inspect(b.Context(), queue)
	require.ErrorIs(b, err, broker.ErrClosed)
	require.ErrorIs(b, other.Declare(b.Context(), broker.Topology{}), broker.ErrClosed)
	require.ErrorIs(b, other.Delete(b.Context(), queue), broker.ErrClosed)
}

// underLoad runs several publishers and consumers on one queue. Consumers start, stop and give messages back. Every
// confirmed message must be acked.
func underLoad(b *bench) {
	const publishers, batches, size, consumers = 4, 10, 25, 3
	queue := b.queue("work")
	limited, stop := context.WithTimeout(b.Context(), patience)
	defer stop()
	ctx, cancel := context.WithCancel(limited) // for the consumers; the last message may be acked before it is confirmed
	defer cancel()
	var work sync.WaitGroup
	for p := range publishers {
		work.Go(func() {
			for n := range batches {
				messages := make([]broker.Message, size)
				for i := range messages {
					messages[i] = broker.Message{RoutingKey: queue, ID: strconv.Itoa((p*batches+n)*size + i)}
				}
				confirms, err := b.Publish(limited, messages)
				if err != nil || countConfirmed(confirms) != size {
					b.Errorf("publish: confirms %v, error %v", confirms, err)
					cancel()
					return
				}
			}
		})
	}
	acked := newIDSet(publishers*batches*size, cancel)
	for range consumers {
		work.Go(func() { consumeLoad(ctx, b, queue, acked) })
	}
	work.Wait()
	require.Equal(b, publishers*batches*size, acked.count(), "messages acked before the time was up")
	b.ready(queue, 0)
}

func countConfirmed(confirms []broker.Confirm) (n int) {
	for _, c := range confirms {
		if c == broker.Confirmed {
			n++
		}
	}
	return n
}

// consumeLoad starts consumers one after the other, each for some deliveries. It gives back every seventh delivery.
func consumeLoad(ctx context.Context, b *bench, queue string, acked *idSet) {
	for ctx.Err() == nil {
		c, err := b.Consume(ctx, queue, 10)
		if err != nil {
			if ctx.Err() == nil {
				b.Errorf("consume: %v", err)
			}
			return
		}
		for n := 1; n <= 100; n++ {
			if !takeOne(ctx, b, c, n%7 == 0, acked) {
				break
			}
		}
		if err := c.Cancel(); err != nil {
			b.Errorf("cancel: %v", err)
			return
		}
		for d := range c.Deliveries() {
			if err := d.Nack(true); err != nil {
				b.Errorf("nack after cancel: %v", err)
			}
		}
	}
}

func takeOne(ctx context.Context, b *bench, c broker.Consumer, back bool, acked *idSet) bool {
	select {
	case <-ctx.Done():
		return false
	case d, ok := <-c.Deliveries():
		if !ok {
			b.Errorf("deliveries ended: %v", c.Err())
			return false
		}
		if back {
			if err := d.Nack(true); err != nil {
				b.Errorf("nack: %v", err)
			}
			return true
		}
		if err := d.Ack(); err != nil {
			b.Errorf("ack: %v", err)
			return true
		}
		acked.add(d.ID)
		return true
	}
}

// idSet is a set of ids. It calls done when it is full.
type idSet struct {
	mu   sync.Mutex
	seen map[string]bool
	want int
	done func()
}

func newIDSet(want int, done func()) *idSet {
	return &idSet{seen: map[string]bool{}, want: want, done: done}
}

func (t *idSet) add(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[id] = true
	if len(t.seen) == t.want {
		t.done()
	}
}

func (t *idSet) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.seen)
}
