package node_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// outsider is another program's connection to the node's RabbitMQ.
type outsider struct {
	*rabbitmq.Broker
	t        *testing.T
	settings broker.Settings
	database string // the node's
}

// onServers starts a node on a Postgres and a RabbitMQ, and connects another program to the latter.
func onServers(t *testing.T, change func(*node.Config), packs ...string) (*kit, *outsider) {
	t.Helper()
	return onDatabase(t, database(t), change, packs...)
}

func onDatabase(t *testing.T, database string, change func(*node.Config), packs ...string) (*kit, *outsider) {
	t.Helper()
	url, prefix := servers.RabbitMQ(t)
	client, err := rabbitmq.Open(t.Context(), rabbitmq.Config{URL: url, WaitAtOpen: true})
	require.NoError(t, err)
	o := &outsider{Broker: client, t: t, settings: broker.Settings{Prefix: prefix, Classic: true}, database: database}
	t.Cleanup(func() { // after the node's end
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, queue := range []string{"answers", "ears"} {
			require.NoError(t, client.Delete(ctx, prefix+"."+queue))
		}
		require.NoError(t, client.Delete(ctx, o.settings.RequestsQueue()))
		require.NoError(t, client.Delete(ctx, o.settings.DeadLetterQueue()))
		require.NoError(t, client.Close())
	})
	k := lab(t, func(c *node.Config) {
		c.Peers.Listen = peers.Off
		change(c)
		c.Broker = o.settings
		c.StoreURL, c.BrokerURL = o.database, url
	}, packs...)
	return k, o
}

// listen makes a queue of the outsider's own and consumes it.
func (o *outsider) listen(name, key string) (queue string, c broker.Consumer) {
	o.t.Helper()
	queue = o.settings.Prefix + "." + name
	topology := broker.Topology{Queues: []broker.Queue{{Name: queue}}}
	if key != "" {
		topology.Bindings = []broker.Binding{{Exchange: o.settings.ExecutionsExchange(), Queue: queue, Key: key}}
	}
	require.NoError(o.t, o.Declare(o.t.Context(), topology))
	c, err := o.Consume(o.t.Context(), queue, 100)
	require.NoError(o.t, err)
	return queue, c
}

// Another program submits by RabbitMQ, gets its answer there, and hears of the outcome.
func TestSubmitAndListenByAMQP(t *testing.T) {
	t.Parallel()
	k, o := onServers(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{"echo": ""}))
	answers, replies := o.listen("answers", "")
	_, notices := o.listen("ears", "execution.*.t.echo")
	submit := func(id, body string) messages.SubmitReply {
		confirms, err := o.Publish(t.Context(), []broker.Message{{
			RoutingKey: o.settings.RequestsQueue(), ID: id, Body: []byte(body), ReplyTo: answers, CorrelationID: "c/" + id,
			Headers: map[string]string{"traceparent": traced, "tracestate": "a=1"},
		}})
		require.NoError(t, err)
		require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
		r, d := hears[messages.SubmitReply](t, replies)
		require.Equal(t, "c/"+id, d.CorrelationID)
		return r
	}
	r := submit("order-1", `{"action_ref": "t.echo", "parameters": {"n": 1}}`)
	require.Nil(t, r.Error)
	n, d := hears[messages.ExecutionCompleted](t, notices)
	require.Equal(t, r.ID, n.ExecutionID)
	require.Equal(t, messages.Completed, n.Status)
	require.JSONEq(t, `{"parameters": {"n": 1}, "trace": "`+traced+`", "state": "a=1"}`, string(n.Result))
	require.Equal(t, r.ID.String(), d.ID)
	require.Equal(t, "execution.completed.t.echo", d.RoutingKey)
	require.Equal(t, traced, d.Headers["traceparent"])
	require.Equal(t, "a=1", d.Headers["tracestate"])
	require.Equal(t, r.ID, submit("order-1", `{"action_ref": "t.echo", "parameters": {"n": 1}}`).ID)
	require.Equal(t, "action_not_found", submit("order-2", `{"action_ref": "t.nothing"}`).Error.Code)
	letter := k.letters(1)[0]
	require.Equal(t, "refused", letter.Reason)
	require.Equal(t, o.settings.RequestsQueue(), letter.Queue)
	k.until("the outbox is empty", func() bool {
		pending, err := k.Store().PendingNotices(t.Context())
		return err == nil && pending.Count == 0
	})
}

// While no queue is bound, most notices are not published. A program that binds one hears of all that ends later.
func TestAListenerThatBindsLateHearsOfAllThatEndsLater(t *testing.T) {
	t.Parallel()
	k, o := onServers(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{"echo": ""}))
	run := func() map[messages.ExecutionID]bool {
		const n = 100
		list := make([]submit.Request, n)
		for i := range list {
			list[i] = ask("t.echo", object{})
		}
		submitted, err := k.Submit(t.Context(), list)
		require.NoError(t, err)
		ids := map[messages.ExecutionID]bool{}
		for _, s := range submitted {
			ids[s.Execution.ID] = true
		}
		k.until("all are told", func() bool {
			pending, err := k.Store().PendingNotices(t.Context())
			left, failed := k.Store().List(t.Context(), store.Filter{Statuses: []messages.Status{messages.Requested, messages.Scheduled, messages.Running}})
			return err == nil && failed == nil && pending.Count == 0 && len(left.Executions) == 0
		})
		return ids
	}
	for range 3 {
		run()
	}
	_, notices := o.listen("ears", "execution.#")
	for range 2 {
		for ids := run(); len(ids) > 0; {
			n, _ := hears[messages.ExecutionCompleted](t, notices)
			delete(ids, n.ExecutionID)
		}
	}
	shown := httptest.NewRecorder()
	k.Metrics().ServeHTTP(shown, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Contains(t, shown.Body.String(), `troupe_notices_total{result="unheard"} 300`)
	require.Contains(t, shown.Body.String(), `troupe_notices_total{result="told"} 200`)
}

// Another program submits by inserting a row into Postgres, in a transaction of its own, and hears of the outcome on
// RabbitMQ.
func TestSubmitBySQL(t *testing.T) {
	t.Parallel()
	k, o := onServers(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{"echo": ""}))
	_, notices := o.listen("ears", "execution.completed.#")
	id := messages.NewExecutionID()
	require.NoError(t, servers.Execute(o.database, `INSERT INTO submission (action) VALUES ('t.nothing')`))
	require.NoError(t, servers.Execute(o.database, `INSERT INTO submission (id, action, parameters, priority, labels, timeout)
 VALUES ('`+id.String()+`', 't.echo', '{"n": 1}', 7, '{"team": "a"}', '90 seconds')`))
	n, _ := hears[messages.ExecutionCompleted](t, notices)
	require.Equal(t, id, n.ExecutionID)
	require.JSONEq(t, `{"parameters": {"n": 1}, "trace": "", "state": ""}`, string(n.Result))
	e := k.get(id)
	require.Equal(t, []any{messages.Priority(7), map[string]string{"team": "a"}, 90 * time.Second, "sql"},
		[]any{e.Priority, e.Labels, e.Timeout, e.CreatedBy})
	k.until("both are settled", func() bool {
		return servers.Execute(o.database, `DO $$ BEGIN
 ASSERT (SELECT refused FROM submission WHERE state = 'refused') LIKE '%there is no action "t.nothing"%';
 ASSERT (SELECT state FROM submission WHERE id = '`+id.String()+`') = 'accepted'; END $$`) == nil
	})
	k.until("the outbox is empty", func() bool {
		pending, err := k.Store().PendingNotices(t.Context())
		return err == nil && pending.Count == 0
	})
}

// What a column's type allows and a submission does not is refused once, with the reason, and never taken again.
func TestRowsThatAreNoSubmissionAreRefusedOnce(t *testing.T) {
	t.Parallel()
	k, o := onServers(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{"echo": ""}))
	const none = "00000000-0000-0000-0000-000000000000"
	for label, row := range map[string][2]string{
		"ahead": {"run_at", "'infinity'"}, "behind": {"run_at", "'-infinity'"}, "far": {"run_at", "'9999-01-01'"},
		"before": {"run_at", "'4000-01-01 BC'"}, "first": {"run_at", "'0001-01-01 00:00+00'"}, "nil": {"id", "'" + none + "'"},
		"long": {"timeout", "'1000 years'"}, "longest": {"timeout", "'100000000 years'"}, "back": {"timeout", "'-1000 years'"},
	} {
		require.NoError(t, servers.Execute(o.database, `INSERT INTO submission (action, created_by, `+row[0]+`) VALUES ('t.echo', '`+label+`', `+row[1]+`)`))
	}
	var said map[string]string
	k.until("all are settled", func() bool {
		rows, err := servers.Query(o.database, "SELECT created_by, coalesce(refused, '') FROM submission WHERE state <> 'waiting'")
		require.NoError(t, err)
		said = map[string]string{}
		for _, r := range rows {
			said[r[0]] = r[1]
		}
		return len(said) == 9
	})
	for label, want := range map[string]string{
		"ahead": "run_at is infinity", "behind": "run_at is -infinity", "far": "run_at is in the year 9999", "before": "run_at is in the year -3999",
		"first": "run_at is in the year 1", "nil": "id is the nil UUID", "long": "timeout is too long", "longest": "timeout is too long",
		"back": "timeout is too long",
	} {
		require.Contains(t, said[label], want, label)
	}
	page, err := k.Store().List(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Empty(t, page.Executions, "none of them made an execution")
}
