package node_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/test/servers"
)

// TestRings runs the tests that start a ring of nodes, one after the other: rings that run at the same time make each other so slow, under
// the race detector on two cores, that leases end. Together they take one place among the tests that run in parallel, and none waits
// in a place for another.
func TestRings(t *testing.T) {
	t.Parallel()
	t.Run("OneRouterForThePoolOfThreeNodes", inEachDispatch(oneRouterForThePoolOfThreeNodes))
	t.Run("WorkGoesWhereWorkersAreFree", inEachDispatch(workGoesWhereWorkersAreFree))
	t.Run("TheRouterStopsAndAnotherGoesOn", inEachDispatch(theRouterStopsAndAnotherGoesOn))
	t.Run("ARouterThatCannotBeReached", inEachDispatch(aRouterThatCannotBeReached))
	t.Run("ASessionOverNodes", inEachDispatch(aSessionOverNodes))
	t.Run("AFollowerDies", inEachDispatch(aFollowerDies))
	t.Run("EachNodesOwnHeartbeatIntervalCounts", eachNodesOwnHeartbeatIntervalCounts)
	t.Run("AClusterThatChangesItsDispatch", aClusterThatChangesItsDispatch)
	t.Run("TheClusterIsRecorded", theClusterIsRecorded)
}

// A cluster changes from RabbitMQ to the direct dispatch and back, node by node, while it has work. Nodes of both kinds hand work to each
// other; everything ends once, and no attempt starts twice.
func aClusterThatChangesItsDispatch(t *testing.T) {
	t.Helper()
	servers.Unraced(t)
	amqp, prefix := servers.RabbitMQ(t)
	settings := broker.Settings{Prefix: prefix, Classic: true}
	var starts sync.Map // by execution and attempt
	var twice atomic.Int64
	database, pack := database(t), ringPack(t)
	r := &ring{t: t, gate: newGate(), change: func(c *node.Config) {
		where := c.Handlers["t.where"]
		c.Handlers["t.where"] = func(ctx context.Context, task *messages.Task) (any, error) {
			if _, again := starts.LoadOrStore(messages.Placement{Execution: task.ID, Attempt: task.Attempt}, true); again {
				twice.Add(1)
			}
			return where(ctx, task)
		}
	}}
	start := func(name, amqp string) *linked {
		n := r.start(name, database, amqp, settings, pack)
		r.nodes = append(r.nodes, n)
		return n
	}
	var ids []messages.ExecutionID
	work := func(count int) {
		for i := range count {
			ids = append(ids, r.nodes[i%len(r.nodes)].submit("t.where", nil))
		}
	}
	ran := func() map[string]int {
		nodes := map[string]int{}
		for _, id := range ids {
			e := r.nodes[0].await(id)
			require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
			nodes[nodeOf(t, &e)]++
		}
		return nodes
	}
	leave := func(n *linked) {
		require.NoError(t, n.stop())
		r.nodes = r.others(n)
	}

	first, second := start("a", amqp), start("b", amqp)
	r.settled(2)
	work(100)
	leave(first)
	start("c", "")
	r.settled(2)
	work(200)
	require.Positive(t, ran()["c"], "the node without RabbitMQ has work")
	work(100)
	leave(second) // the node without RabbitMQ routes now
	start("d", "")
	r.settled(2)
	work(100)
	start("e", amqp)
	r.settled(3)
	work(300)
	require.Positive(t, ran()["e"], "the node with RabbitMQ has work of a router without")
	require.Zero(t, twice.Load(), "attempts started twice")
}
