package node_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// On a node with RabbitMQ one pool gets its work directly and another over the broker: each has its queue in one place, the store has the
// placement of the latter alone, and what other programs do over RabbitMQ works for both.
func TestAPoolsDispatchBesideTheNodes(t *testing.T) {
	t.Parallel()
	for name, dispatch := range map[string]node.Dispatching{
		"the pool is direct":  {Pools: node.PoolSettings{"t.near": {Dispatch: node.DispatchDirect}}},
		"the other is broker": {Dispatch: node.DispatchDirect, Pools: node.PoolSettings{"t.far": {Dispatch: node.DispatchBroker}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := func(pool string) string {
				return "name: " + pool + "\nruntime: go\npool: " + pool + "\nentrypoint: t.echo\n"
			}
			pack := packOf(t, "t", "pools:\n  - {name: near, runtime: go, workers: 2}\n  - {name: far, runtime: go, workers: 2}\n", files{
				"actions/near.yaml": action("near"), "actions/far.yaml": action("far"),
			})
			k, o := onServers(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"echo": echo})(c)
				c.Dispatching, c.EventsAll = dispatch, true
			}, pack)
			answers, replies := o.listen("answers", "")
			_, notices := o.listen("ears", "execution.*.#")
			for pool, stored := range map[string]bool{"near": false, "far": true} {
				e := k.run("t."+pool, nil)
				require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
				require.Equal(t, stored, slices.Contains(k.statuses(e.ID), messages.Scheduled), "pool %s: %v", pool, k.statuses(e.ID))
				n, _ := hears[messages.ExecutionCompleted](t, notices)
				require.Equal(t, e.ID, n.ExecutionID)
				_, err := o.Inspect(t.Context(), o.settings.PoolQueueName("test", "t."+pool, e.Worker.Incarnation))
				if stored {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, broker.ErrNoQueue)
				}
				_, err = o.Publish(t.Context(), []broker.Message{{
					RoutingKey: o.settings.RequestsQueue(), ID: pool, Body: []byte(`{"action_ref":"t.` + pool + `"}`), ReplyTo: answers,
				}})
				require.NoError(t, err)
				r, _ := hears[messages.SubmitReply](t, replies)
				require.Nil(t, r.Error)
				n, _ = hears[messages.ExecutionCompleted](t, notices)
				require.Equal(t, []any{r.ID, messages.Completed}, []any{n.ExecutionID, n.Status})
				in := k.run("t."+pool, nil, session("s", messages.AffinityStrict))
				require.Equal(t, messages.Completed, in.Status)
				require.Contains(t, k.statuses(in.ID), messages.Scheduled, "with a session the store has the placement in either case")
				n, _ = hears[messages.ExecutionCompleted](t, notices)
				require.Equal(t, in.ID, n.ExecutionID)
				require.Equal(t, map[bool]string{true: "broker", false: "direct"}[stored], k.pool("t."+pool).Dispatch)
			}
			require.NoError(t, k.stop())
			_, err := o.Inspect(t.Context(), o.settings.PoolQueueName("test", "t.far", k.Incarnation()))
			require.ErrorIs(t, err, broker.ErrNoQueue, "nothing stays behind")
		})
	}
}

// statuses are those that an execution went through, by its events.
func (k *kit) statuses(id messages.ExecutionID) (list []messages.Status) {
	k.t.Helper()
	events, err := k.Events(k.t.Context(), id)
	require.NoError(k.t, err)
	for _, e := range events {
		list = append(list, e.To)
	}
	return list
}

// A broker that is away hinders no pool that does without it: the node is ready, says what waits for the broker, and runs everything. It also
// starts without one.
func TestABrokerThatNoPoolUsesMayBeAway(t *testing.T) {
	t.Parallel()
	for reason, status := range map[string]broker.Status{
		"away": {Reason: "connection reset"}, "blocked": {Up: true, Blocked: true, Reason: "low on memory"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			b, s := newSwitchedBroker(), &switchedStore{}
			b.set(status)
			k := lab(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"noop": noop})(c)
				s.open(c)
				b.open(c)
				c.Listen, c.Dispatch = "127.0.0.1:0", node.DispatchDirect
				c.Pools = node.PoolSettings{"go": {}, "gone": {}}
			}, goPack(t, map[string]string{"noop": ""}))
			k.ready("go", 0, 0)
			for range 20 {
				require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
				require.Equal(t, messages.Completed, k.run("t.noop", nil, session("s", messages.AffinityStrict)).Status)
			}
			require.Zero(t, b.refused.Load(), "the server gets no placement")
			ready := k.call("GET", "/readyz", "")
			require.Equal(t, 200, ready.status, ready.body)
			require.Contains(t, ready.body, status.Reason+": work goes on without it; submissions and notices by AMQP wait for it")
			require.Contains(t, ready.body, "pools: the node has no pool gone, and its settings have no effect")
			b.set(broker.Status{Up: true})
			k.until("nothing is said of it any more", func() bool { return !strings.Contains(k.call("GET", "/readyz", "").body, "broker") })
			require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
		})
	}
}

// A message that expires on a queue in memory beside a server is handled as one on the server is, and stays out of the server's
// dead-letter queue.
func TestAMessageThatExpiresBesideAServer(t *testing.T) {
	t.Parallel()
	paused, b, s := newPausedBroker(), newSwitchedBroker(), &switchedStore{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		s.open(c)
		b.open(c)
		c.ClaimSweepOff, c.ClaimTimeout, c.WrapBroker = true, 50*time.Millisecond, paused.wrap
		c.Broker.WorkerTTL, c.Dispatch = 200*time.Millisecond, node.DispatchDirect
	}, goPack(t, map[string]string{"noop": ""}))
	e := k.run("t.noop", nil, session("s", messages.AffinityStrict))
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeQueueTimeout, e.Error.Code)
	letter := k.letters(1)[0]
	require.Equal(t, []any{e.ID, "expired", "failed"}, []any{letter.Execution, letter.Reason, letter.Resolution})
	info, err := b.Inspect(t.Context(), broker.Defaults().DeadLetterQueue())
	require.NoError(t, err)
	require.Zero(t, info.Ready)
	_, err = b.Inspect(t.Context(), broker.Defaults().PoolQueueName("test", "go", e.Worker.Incarnation))
	require.ErrorIs(t, err, broker.ErrNoQueue)
}

func TestDispatchWithoutAServer(t *testing.T) {
	t.Parallel()
	cfg, _ := short(t, t.TempDir())
	cfg.Dispatch = node.DispatchBroker
	cfg.Pools = node.PoolSettings{"a": {Dispatch: node.DispatchBroker}, "b": {Dispatch: "none"}, "c": {Dispatch: node.DispatchDirect}}
	_, err := node.New(cfg)
	require.ErrorContains(t, err, "dispatch: broker needs a RabbitMQ: set message_queue.rabbitmq.url, or use direct")
	require.ErrorContains(t, err, "pools: a.dispatch: broker needs a RabbitMQ")
	require.ErrorContains(t, err, `pools: b.dispatch: must be direct, broker or empty, got "none"`)
	require.NotContains(t, err.Error(), "c.dispatch")
	cfg.OpenBroker = func(context.Context) (broker.Broker, error) { return newSwitchedBroker(), nil }
	cfg.Pools = nil
	_, err = node.New(cfg)
	require.NoError(t, err)
}
