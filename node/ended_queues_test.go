package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// The queues of a node that was killed go as soon as it is dead, one with a message once that has gone, and one with a
// consumer never by us. Queues of living incarnations stay.
func TestQueuesOfADeadNodeAreRemoved(t *testing.T) {
	t.Parallel()
	database := database(t)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: database})
	require.NoError(t, err)
	defer s.Close()
	dead, lives := other("far", time.Hour), other("near", time.Hour)
	for _, n := range []store.Node{dead, lives} {
		require.NoError(t, s.Join(t.Context(), n, time.Hour))
		require.NoError(t, s.SaveWorkers(t.Context(), []store.Worker{
			worker(n, "py", 0, "python"), worker(n, "py", 1, "python"),
			worker(n, "py", 2, "python"), worker(n, "sh", 0, "shell"),
		}))
	}
	k, o := onDatabase(t, database, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.HeartbeatInterval = 300 * time.Millisecond // the round's
	}, goPack(t, map[string]string{"noop": ""}))
	queue := func(n store.Node, id messages.WorkerID) string { return o.settings.WorkerQueueName(id, n.Incarnation) }
	empty, pooled := queue(dead, "far/py/0"), o.settings.PoolQueueName("far", "sh", dead.Incarnation)
	full, used, living := queue(dead, "far/py/1"), queue(dead, "far/py/2"), queue(lives, "near/py/0")
	for i, name := range []string{empty, pooled, full, used, living} {
		topology := o.settings.WorkQueue(name)
		topology.Queues[0].Quorum = i%2 == 0 // both kinds
		require.NoError(t, o.Declare(t.Context(), topology))
		t.Cleanup(func() { require.NoError(t, o.Delete(context.Background(), name)) })
	}
	confirms, err := o.Publish(t.Context(), []broker.Message{{RoutingKey: full, Body: []byte("stale")}})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
	consumer, err := o.Consume(t.Context(), used, 1)
	require.NoError(t, err)
	k.until("the message is counted", func() bool {
		info, err := o.Inspect(t.Context(), full)
		return err == nil && info.Ready == 1
	})

	require.NoError(t, s.SetNode(t.Context(), dead.Incarnation, store.NodeDead))
	gone := func(name string) bool {
		_, err := o.Inspect(t.Context(), name)
		return err != nil
	}
	k.until("the empty ones are removed", func() bool { return gone(empty) && gone(pooled) })
	drain, err := o.Consume(t.Context(), full, 1)
	require.NoError(t, err)
	require.NoError(t, (<-drain.Deliveries()).Ack(), "what is in a queue stays with it")
	require.NoError(t, drain.Cancel())
	k.until("the one that is empty now is removed", func() bool { return gone(full) })
	require.False(t, gone(used), "somebody consumes it")
	require.NoError(t, consumer.Cancel())
	k.until("the last one is removed", func() bool { return gone(used) })
	require.False(t, gone(living))
}

func worker(n store.Node, pool string, slot messages.Slot, runtime messages.Runtime) store.Worker {
	return store.Worker{
		Key: messages.WorkerKey{Incarnation: n.Incarnation, Pool: pool, Slot: slot}, ID: messages.NewWorkerID(n.Name, pool, slot),
		Runtime: runtime, Active: true,
	}
}
