package memory_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
)

// history runs random operations on one queue. The property: every published message is always in exactly one place:
// ready, unsettled at one consumer, dead-lettered, or acked.
type history struct {
	b         *memory.Broker
	published int
	settled   int // acked or rejected
	dead      int // rejected
	consumers []broker.Consumer
	prefetch  []int
	held      [][]broker.Delivery
}

func TestEveryMessageIsInOnePlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := &history{b: memory.New(memory.Config{})}
		defer func() { require.NoError(t, h.b.Close()) }()
		require.NoError(t, h.b.Declare(context.Background(), broker.Topology{
			Exchanges: []broker.Exchange{{Name: "dlx", Kind: broker.Fanout}},
			Queues:    []broker.Queue{{Name: "work", DeadLetterExchange: "dlx"}, {Name: "dead"}},
			Bindings:  []broker.Binding{{Exchange: "dlx", Queue: "dead"}},
		}))
		t.Repeat(map[string]func(*rapid.T){
			"publish": h.publish, "consume": h.consume, "read": h.read, "ack": h.ack, "nack": h.nack, "cancel": h.cancel, "": h.check,
		})
	})
}

func (h *history) publish(t *rapid.T) {
	n := rapid.IntRange(1, 5).Draw(t, "n")
	messages := make([]broker.Message, n)
	for i := range messages {
		messages[i] = broker.Message{RoutingKey: "work", ID: strconv.Itoa(h.published + i)}
	}
	confirms, err := h.b.Publish(context.Background(), messages)
	require.NoError(t, err)
	require.NotContains(t, confirms, broker.Nacked)
	h.published += n
}

func (h *history) consume(t *rapid.T) {
	prefetch := rapid.IntRange(1, 4).Draw(t, "prefetch")
	c, err := h.b.Consume(context.Background(), "work", prefetch)
	require.NoError(t, err)
	h.consumers, h.prefetch, h.held = append(h.consumers, c), append(h.prefetch, prefetch), append(h.held, nil)
}

// pick returns a consumer for which ok is true.
func (h *history) pick(t *rapid.T, ok func(i int) bool) int {
	var fit []int
	for i := range h.consumers {
		if ok(i) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(fit).Draw(t, "consumer")
}

func (h *history) holds(i int) bool { return len(h.held[i]) > 0 }

func (h *history) read(t *rapid.T) {
	i := h.pick(t, func(i int) bool { return len(h.consumers[i].Deliveries()) > 0 })
	h.held[i] = append(h.held[i], <-h.consumers[i].Deliveries())
}

func (h *history) take(t *rapid.T) broker.Delivery {
	i := h.pick(t, h.holds)
	at := rapid.IntRange(0, len(h.held[i])-1).Draw(t, "which")
	d := h.held[i][at]
	h.held[i] = slices.Delete(h.held[i], at, at+1)
	return d
}

func (h *history) ack(t *rapid.T) {
	d := h.take(t)
	require.NoError(t, d.Ack())
	require.ErrorIs(t, d.Ack(), broker.ErrClosed)
	h.settled++
}

func (h *history) nack(t *rapid.T) {
	requeue := rapid.Bool().Draw(t, "requeue")
	require.NoError(t, h.take(t).Nack(requeue))
	if !requeue {
		h.settled++
		h.dead++
	}
}

func (h *history) cancel(t *rapid.T) {
	i := h.pick(t, func(i int) bool { return h.prefetch[i] > 0 })
	require.NoError(t, h.consumers[i].Cancel())
	_, open := <-h.consumers[i].Deliveries()
	require.False(t, open)
	h.prefetch[i] = 0
}

func (h *history) check(t *rapid.T) {
	info, err := h.b.Inspect(context.Background(), "work")
	require.NoError(t, err)
	free, held := 0, 0
	for i, c := range h.consumers {
		unsettled := len(c.Deliveries()) + len(h.held[i])
		held += unsettled
		if h.prefetch[i] > 0 {
			require.LessOrEqual(t, unsettled, h.prefetch[i])
			free += h.prefetch[i] - unsettled
		}
	}
	require.Equal(t, h.published, info.Ready+held+h.settled)
	require.True(t, info.Ready == 0 || free == 0, "nothing waits while a consumer is free")
	deadLetters, err := h.b.Inspect(context.Background(), "dead")
	require.NoError(t, err)
	require.Equal(t, h.dead, deadLetters.Ready)
}
