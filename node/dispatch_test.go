package node_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/test/servers"
)

// TestRings runs the tests that start a ring of nodes, in three rows: one for nodes whose work goes over a RabbitMQ that they share, one for
// nodes that hand work to each other directly, and one for such nodes beside a RabbitMQ. More rings that run at the same time make each
// other so slow, under the race detector on two cores, that leases end.
func TestRings(t *testing.T) {
	t.Parallel()
	t.Run("broker", inARow(join,
		part{"OneRouterForThePoolOfThreeNodes", oneRouterForThePoolOfThreeNodes},
		part{"WorkGoesWhereWorkersAreFree", workGoesWhereWorkersAreFree},
		part{"TheRouterStopsAndAnotherGoesOn", theRouterStopsAndAnotherGoesOn},
		part{"ARouterThatCannotBeReached", aRouterThatCannotBeReached},
		part{"ASessionOverNodes", aSessionOverNodes},
		part{"AFollowerDies", aFollowerDies},
	))
	t.Run("direct", inARow(directly,
		part{"OneRouterForThePoolOfThreeNodes", oneRouterForThePoolOfThreeNodes},
		part{"WorkGoesWhereWorkersAreFree", workGoesWhereWorkersAreFree},
		part{"TheRouterStopsAndAnotherGoesOn", theRouterStopsAndAnotherGoesOn},
		part{"ARouterThatCannotBeReached", aRouterThatCannotBeReached},
		part{"ASessionOverNodes", aSessionOverNodes},
		part{"AFollowerDies", aFollowerDies},
		part{"ASilentFollowerDies", aSilentFollowerDies},
		part{"TheClusterIsRecorded", alone(theClusterIsRecorded)},
	))
	t.Run("beside", inARow(directlyBesideRabbitMQ,
		part{"TheRouterStopsAndAnotherGoesOn", theRouterStopsAndAnotherGoesOn},
		part{"ASessionOverNodes", aSessionOverNodes},
		part{"EachNodesOwnHeartbeatIntervalCounts", alone(eachNodesOwnHeartbeatIntervalCounts)},
		part{"AClusterThatChangesItsDispatch", alone(aClusterThatChangesToNoRabbitMQ)},
		part{"AClusterThatChangesItsDispatchBesideRabbitMQ", alone(aClusterThatChangesBesideRabbitMQ)},
	))
}

func aClusterThatChangesToNoRabbitMQ(t *testing.T)   { aClusterThatChangesItsDispatch(t, false) }
func aClusterThatChangesBesideRabbitMQ(t *testing.T) { aClusterThatChangesItsDispatch(t, true) }

// A cluster changes from RabbitMQ to the direct dispatch and back, node by node, while it has work. Nodes of both kinds hand work to each
// other; everything ends once, no execution starts twice, and sessions go in order. beside: the nodes with the direct dispatch have the RabbitMQ too.
func aClusterThatChangesItsDispatch(t *testing.T, beside bool) {
	t.Helper()
	servers.Unraced(t)
	amqp, prefix := servers.RabbitMQ(t)
	settings := broker.Settings{Prefix: prefix, Classic: true}
	var starts sync.Map // by execution
	var twice atomic.Int64
	var inOrder sync.Mutex
	ordered := map[string][]messages.ExecutionID{} // as they ran, by session
	database, pack := database(t), ringPack(t)
	r := &ring{t: t, gate: newGate(), change: func(c *node.Config) {
		where := c.Handlers["t.where"]
		c.Handlers["t.where"] = func(ctx context.Context, task *messages.Task) (any, error) {
			if _, again := starts.LoadOrStore(task.ID, true); again {
				twice.Add(1)
			}
			inOrder.Lock()
			ordered[task.Session] = append(ordered[task.Session], task.ID)
			inOrder.Unlock()
			return where(ctx, task)
		}
	}}
	where := r.change
	start := func(name string, direct bool) *linked {
		url := amqp
		if direct && !beside {
			url = ""
		}
		r.change = func(c *node.Config) {
			if where(c); direct && beside {
				c.Dispatch = node.DispatchDirect
			}
		}
		n := r.start(name, database, url, settings, pack)
		r.nodes = append(r.nodes, n)
		return n
	}
	var ids []messages.ExecutionID
	submitted := map[string][]messages.ExecutionID{} // by session
	work := func(count int) {
		for i := range count {
			name, with := "", []request(nil)
			if i%4 == 0 {
				name = fmt.Sprint("s", i%3)
				with = append(with, session(name, messages.AffinityStrict))
			}
			id := r.nodes[i%len(r.nodes)].submit("t.where", nil, with...)
			ids, submitted[name] = append(ids, id), append(submitted[name], id)
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

	first, second := start("a", false), start("b", false)
	r.settled(2)
	work(100)
	leave(first)
	start("c", true)
	r.settled(2)
	work(200)
	require.Positive(t, ran()["c"], "the node with the direct dispatch has work")
	work(100)
	leave(second) // the node with the direct dispatch routes now
	start("d", true)
	r.settled(2)
	work(100)
	start("e", false)
	r.settled(3)
	work(300)
	require.Positive(t, ran()["e"], "the node that takes work over RabbitMQ has work of a router without")
	require.Equal(t, "mixed", r.nodes[0].pool(ringPool).Dispatch)
	for _, id := range ids[len(ids)-300:] { // of a router with the direct dispatch
		if e := r.nodes[0].get(id); e.Session == "" {
			require.Equal(t, nodeOf(t, &e) == "e", slices.Contains(r.nodes[0].statuses(id), messages.Scheduled), "%s on %s", id, e.WorkerID)
		}
	}
	require.Zero(t, twice.Load(), "executions started twice")
	delete(submitted, "")
	for name, list := range submitted {
		require.Equal(t, list, ordered[name], "session %s", name)
	}
}

// One node is started again with the other dispatch, three times, while work waits, is claimed ahead and runs, and with a session. Nothing is lost,
// nothing starts twice, and RabbitMQ keeps no queue of its workers.
func TestANodeChangesItsDispatch(t *testing.T) {
	t.Parallel()
	amqp, prefix := servers.RabbitMQ(t)
	settings, database, data := broker.Settings{Prefix: prefix, Classic: true}, database(t), t.TempDir()
	client, err := rabbitmq.Open(t.Context(), rabbitmq.Config{URL: amqp, WaitAtOpen: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, queue := range []string{settings.RequestsQueue(), settings.DeadLetterQueue()} {
			require.NoError(t, client.Delete(context.Background(), queue))
		}
		require.NoError(t, client.Close())
	})
	var mu sync.Mutex
	starts, ordered := map[messages.ExecutionID]int{}, []messages.ExecutionID(nil)
	count := func(run messages.Handler) messages.Handler {
		return func(ctx context.Context, task *messages.Task) (any, error) {
			mu.Lock()
			if starts[task.ID]++; task.Session != "" {
				ordered = append(ordered, task.ID)
			}
			mu.Unlock()
			return run(ctx, task)
		}
	}
	pack := goPack(t, map[string]string{"noop": "idempotent: true\n", "hold": ""})
	start := func(dispatch string, g *gate) *kit {
		return boot(t, data, func(c *node.Config) {
			handle(map[string]messages.Handler{"noop": count(noop), "hold": count(g.run)})(c)
			c.StoreURL, c.BrokerURL, c.Broker, c.Dispatch, c.Workers["go"] = database, amqp, settings, dispatch, 4
		}, pack)
	}
	var all, inSession []messages.ExecutionID
	for _, dispatch := range []string{node.DispatchBroker, node.DispatchDirect, ""} {
		g := newGate()
		k := start(dispatch, g)
		for range 40 { // the router learns that runs are short
			require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
		}
		for range 4 { // all workers
			all = append(all, k.submit("t.hold", nil))
			g.next(t)
		}
		for i := range 400 {
			var with []request
			if i%8 == 0 {
				with = append(with, session("s", messages.AffinityStrict))
			}
			id := k.submit("t.noop", nil, with...)
			if all = append(all, id); with != nil {
				inSession = append(inSession, id)
			}
		}
		stopped := make(chan error, 1)
		go func() { stopped <- k.stop() }()
		k.until("it stops", func() bool { return k.Ready(t.Context()).Draining })
		close(g.open)
		require.NoError(t, <-stopped)
		_, err := client.Inspect(t.Context(), settings.PoolQueueName("test", "go", k.Incarnation()))
		require.ErrorIs(t, err, broker.ErrNoQueue)
	}
	k := start(node.DispatchDirect, newGate())
	for _, id := range all {
		e := k.await(id)
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range all {
		require.Equal(t, 1, starts[id], "starts of %s", id)
	}
	require.Equal(t, inSession, ordered)
}
