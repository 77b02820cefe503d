package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
)

// bubble is a broker inside a synctest bubble, where time is exact.
type bubble struct {
	*testing.T
	*memory.Broker
}

func inBubble(t *testing.T, config memory.Config, test func(bubble)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bubble{t, memory.New(config)}
		defer func() { require.NoError(t, b.Close()) }()
		test(b)
	})
}

func (b bubble) declare(topology broker.Topology) {
	b.Helper()
	require.NoError(b, b.Declare(context.Background(), topology))
}

func (b bubble) queue(q broker.Queue) { b.declare(broker.Topology{Queues: []broker.Queue{q}}) }

// deadLetters declares a dead-letter exchange "dlx" with its queue "dead".
func (b bubble) deadLetters() {
	b.declare(broker.Topology{
		Exchanges: []broker.Exchange{{Name: "dlx", Kind: broker.Fanout}},
		Queues:    []broker.Queue{{Name: "dead"}},
		Bindings:  []broker.Binding{{Exchange: "dlx", Queue: "dead"}},
	})
}

func (b bubble) send(want broker.Confirm, messages ...broker.Message) {
	b.Helper()
	confirms, err := b.Publish(context.Background(), messages)
	require.NoError(b, err)
	for _, c := range confirms {
		require.Equal(b, want, c)
	}
}

func (b bubble) consume(queue string, prefetch int) broker.Consumer {
	b.Helper()
	c, err := b.Consume(context.Background(), queue, prefetch)
	require.NoError(b, err)
	return c
}

func (b bubble) ready(queue string) int {
	b.Helper()
	info, err := b.Inspect(context.Background(), queue)
	require.NoError(b, err)
	return info.Ready
}

func (b bubble) gone(queue string) bool {
	_, err := b.Inspect(context.Background(), queue)
	return err != nil
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestExpiryIsExactToTheNanosecond(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.deadLetters()
		b.queue(broker.Queue{Name: "work", TTL: time.Minute, DeadLetterExchange: "dlx"})
		b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
		pass(time.Minute - 1)
		require.Equal(b, 0, b.ready("dead"))
		pass(1)
		require.Equal(b, 1, b.ready("dead"))
		require.Equal(b, 0, b.ready("work"))
	})
}

func TestShortMessageWaitsBehindALongOne(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.deadLetters()
		b.queue(broker.Queue{Name: "work", DeadLetterExchange: "dlx"})
		for _, life := range []time.Duration{4 * time.Second, time.Second, 2 * time.Second, 9 * time.Second} {
			b.send(broker.Confirmed, broker.Message{RoutingKey: "work", Expiration: life})
		}
		pass(4*time.Second - 1)
		require.Equal(b, 0, b.ready("dead"))
		pass(1)
		require.Equal(b, 3, b.ready("dead"))
		pass(5 * time.Second)
		require.Equal(b, 4, b.ready("dead"))
	})
}

func TestShortBeforeLongIsExact(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.deadLetters()
		b.queue(broker.Queue{Name: "work", TTL: time.Hour, DeadLetterExchange: "dlx"})
		for n := 1; n <= 5; n++ {
			b.send(broker.Confirmed, broker.Message{RoutingKey: "work", Expiration: time.Duration(n) * time.Second})
		}
		for n := 1; n <= 5; n++ {
			pass(time.Second)
			require.Equal(b, n, b.ready("dead"))
		}
	})
}

func TestHeldMessageOutlivesItsTTLAndDiesWhenGivenBack(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.deadLetters()
		b.queue(broker.Queue{Name: "work", TTL: time.Second, DeadLetterExchange: "dlx"})
		b.send(broker.Confirmed, broker.Message{RoutingKey: "work", ID: "held"}, broker.Message{RoutingKey: "work", ID: "waits"})
		d := <-b.consume("work", 1).Deliveries()
		pass(time.Hour)
		require.Equal(b, 1, b.ready("dead"), "the one that was not taken")
		require.NoError(b, d.Nack(true))
		require.Equal(b, 2, b.ready("dead"))
	})
}

func TestUnusedQueueGoesWithoutDeadLettering(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.deadLetters()
		q := broker.Queue{Name: "work", TTL: 24 * time.Hour, DeadLetterExchange: "dlx", Expires: 10 * time.Second}
		b.queue(q)
		b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
		pass(9 * time.Second)
		b.queue(q) // declaring again counts as use; inspecting and publishing do not
		pass(9 * time.Second)
		c := b.consume("work", 1)
		pass(time.Hour)
		require.False(b, b.gone("work"))
		require.NoError(b, c.Cancel())
		pass(10*time.Second - 1)
		require.False(b, b.gone("work"))
		pass(1)
		require.True(b, b.gone("work"))
		pass(48 * time.Hour)
		require.Equal(b, 0, b.ready("dead"))
		b.send(broker.Returned, broker.Message{RoutingKey: "work"})
	})
}

func TestCycleOfExpiryIsDropped(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.declare(broker.Topology{
			Exchanges: []broker.Exchange{{Name: "x", Kind: broker.Fanout}, {Name: "y", Kind: broker.Fanout}},
			Queues: []broker.Queue{
				{Name: "one", TTL: time.Second, DeadLetterExchange: "y"},
				{Name: "two", TTL: time.Second, DeadLetterExchange: "x"},
			},
			Bindings: []broker.Binding{{Exchange: "x", Queue: "one"}, {Exchange: "y", Queue: "two"}},
		})
		b.send(broker.Confirmed, broker.Message{RoutingKey: "one"})
		pass(time.Second)
		require.Equal(b, 1, b.ready("two"))
		pass(time.Hour)
		require.Equal(b, 0, b.ready("one")+b.ready("two"))
		require.EqualValues(b, 1, b.Dropped())
	})
}

func TestRejectionBreaksTheCycleAndCounts(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.declare(broker.Topology{
			Exchanges: []broker.Exchange{{Name: "x", Kind: broker.Fanout}},
			Queues:    []broker.Queue{{Name: "work", DeadLetterExchange: "x"}},
			Bindings:  []broker.Binding{{Exchange: "x", Queue: "work"}},
		})
		b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
		c := b.consume("work", 1)
		for n := range 3 {
			d := <-c.Deliveries()
			require.Len(b, d.Deaths, min(n, 1))
			if n > 0 {
				require.Equal(b, n, d.Deaths[0].Count)
			}
			require.NoError(b, d.Nack(false))
		}
	})
}

func TestDeadLettersWithoutAPlaceAreCounted(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.declare(broker.Topology{
			Exchanges: []broker.Exchange{{Name: "dlx", Kind: broker.Fanout}},
			Queues: []broker.Queue{
				{Name: "no exchange", TTL: time.Second, DeadLetterExchange: "missing"},
				{Name: "work", TTL: time.Second, DeadLetterExchange: "dlx"},
				{Name: "dead", MaxLength: 1},
			},
			Bindings: []broker.Binding{{Exchange: "dlx", Queue: "dead"}},
		})
		b.send(broker.Confirmed, broker.Message{RoutingKey: "no exchange"},
			broker.Message{RoutingKey: "work"}, broker.Message{RoutingKey: "work"})
		pass(time.Second)
		require.Equal(b, 1, b.ready("dead"))
		require.EqualValues(b, 2, b.Dropped())
	})
}

func TestQueueMaxBoundsQueuesWithoutMaxLength(t *testing.T) {
	inBubble(t, memory.Config{QueueMax: 3}, func(b bubble) {
		b.queue(broker.Queue{Name: "work", TTL: time.Second})
		for range 3 {
			b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
		}
		b.send(broker.Nacked, broker.Message{RoutingKey: "work"})
		pass(time.Second)
		b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
	})
}

func TestGivenBackMessagesReturnToTheirOldPlaces(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.queue(broker.Queue{Name: "work"})
		for _, id := range []string{"0", "1", "2", "3", "4"} {
			b.send(broker.Confirmed, broker.Message{RoutingKey: "work", ID: id})
		}
		c := b.consume("work", 4)
		var held []broker.Delivery
		for range 3 {
			held = append(held, <-c.Deliveries())
		}
		require.NoError(b, c.Cancel()) // gives 3 back, which was not read
		require.NoError(b, held[2].Nack(true))
		require.NoError(b, held[0].Nack(true))
		require.NoError(b, held[1].Ack())
		second := b.consume("work", 5)
		for _, want := range []string{"0", "2", "3", "4"} {
			d := <-second.Deliveries()
			require.Equal(b, want, d.ID)
			require.Equal(b, want != "4", d.Redelivered)
		}
	})
}

func TestConsumersTakeTurns(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		b.queue(broker.Queue{Name: "work"})
		consumers := []broker.Consumer{b.consume("work", 10), b.consume("work", 2), b.consume("work", 10)}
		for range 16 {
			b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
		}
		require.Len(b, consumers[0].Deliveries(), 7)
		require.Len(b, consumers[1].Deliveries(), 2, "bounded by its prefetch")
		require.Len(b, consumers[2].Deliveries(), 7)
	})
}

func TestLastCloseEndsTheBroker(t *testing.T) {
	inBubble(t, memory.Config{}, func(b bubble) {
		other, err := b.Connect()
		require.NoError(b, err)
		b.queue(broker.Queue{Name: "work", TTL: time.Hour, Expires: time.Hour})
		b.send(broker.Confirmed, broker.Message{RoutingKey: "work"})
		require.NoError(b, b.Close())
		info, err := other.Inspect(context.Background(), "work")
		require.NoError(b, err)
		require.Equal(b, broker.QueueInfo{Ready: 1}, info)
		require.NoError(b, other.Close())
		_, err = other.Connect()
		require.ErrorIs(b, err, broker.ErrClosed)
	})
}
