package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/test/servers"
)

// TestSharedQueuesOfOtherSettings starts a node whose shared queues were made with every setting otherwise, its
// dead-letter exchange's name too: it uses them as they are, works off what waited in them, and says what to do.
func TestSharedQueuesOfOtherSettings(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	client, err := rabbitmq.Open(t.Context(), rabbitmq.Config{URL: url, WaitAtOpen: true})
	require.NoError(t, err)
	before := broker.Settings{Prefix: prefix, RequestsMax: 7, DeadLetterTTL: time.Hour}
	now := broker.Settings{Prefix: prefix, WorkerTTL: 3 * time.Minute, Classic: true}
	older := before
	older.DeadLetterExchange = prefix + ".old"
	t.Cleanup(func() {
		for _, queue := range []string{before.RequestsQueue(), before.DeadLetterQueue(), older.DeadLetterQueue(), prefix + ".answers"} {
			require.NoError(t, client.Delete(context.Background(), queue))
		}
		require.NoError(t, client.Close())
	})
	require.NoError(t, client.Declare(t.Context(), older.Shared()))
	require.NoError(t, client.Declare(t.Context(), broker.Topology{Queues: before.Shared().Queues[1:]}))
	o := &outsider{Broker: client, t: t, settings: now}
	answers, replies := o.listen("answers", "")
	ask := func() {
		confirms, err := client.Publish(t.Context(), []broker.Message{{
			RoutingKey: now.RequestsQueue(), ID: messages.NewExecutionID().String(), ReplyTo: answers, Body: []byte(`{"action_ref": "t.noop"}`),
		}})
		require.NoError(t, err)
		require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
	}
	ask()

	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.Peers.Listen = peers.Off
		c.Broker, c.StoreURL, c.BrokerURL, c.Listen = now, database(t), url, "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": ""}))
	for range 2 {
		reply, _ := hears[messages.SubmitReply](t, replies)
		require.Nil(t, reply.Error)
		require.Equal(t, messages.Completed, k.await(reply.ID).Status)
		ask() // the second one while the node runs
	}
	ready := k.call("GET", "/readyz", "")
	require.Equal(t, 200, ready.status, ready.body)
	require.Contains(t, ready.body, now.RequestsQueue()+", "+now.DeadLetterQueue()+" exists with other arguments than configured and is used as it is")
	require.Contains(t, ready.body, "delete it (rabbitmqctl delete_queue)")
	require.Equal(t, 2, k.logged("a shared queue exists with other arguments than configured"), "once for each queue")
}

// lame is a broker that cannot use one of its queues.
type lame struct {
	broker.Broker
	queue string
}

func (l *lame) Declare(ctx context.Context, t broker.Topology) error {
	err := fmt.Errorf("%w: %s", broker.ErrBroken, l.queue)
	for _, q := range t.Queues {
		if q.Name == l.queue {
			return err
		}
	}
	for _, b := range t.Bindings {
		if b.Queue == l.queue {
			return err
		}
	}
	return l.Broker.Declare(ctx, t)
}

// TestGoesOnWithoutABrokenQueue: a shared queue that the broker cannot use is named, with what to do, and ends no node.
func TestGoesOnWithoutABrokenQueue(t *testing.T) {
	t.Parallel()
	settings := broker.Settings{Prefix: "blue"}
	for _, queue := range []string{settings.RequestsQueue(), settings.DeadLetterQueue()} {
		b := &lame{memory.New(memory.Config{}), queue}
		notes, err := node.DeclareShared(t.Context(), b, settings.Shared())
		require.NoError(t, err)
		require.Equal(t, []string{"the broker cannot use " + queue + ", and the node goes on without it: " + broker.Unbreak}, notes)
		for _, q := range settings.Shared().Queues {
			_, err := b.Inspect(t.Context(), q.Name)
			require.Equal(t, q.Name == queue, err != nil, q.Name)
		}
		require.NoError(t, b.Close())
	}
}
