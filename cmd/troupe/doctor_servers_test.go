package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// sound is a report on a Postgres that nothing is wrong with.
func sound(change func(*postgres.Report)) *postgres.Report {
	r := &postgres.Report{Version: "15.18", Schema: 2, Newest: 2, MayCreate: true, ConnectionsFree: 50,
		Settings: map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}}
	change(r)
	return r
}

func TestDoctorJudgesPostgres(t *testing.T) {
	t.Parallel()
	now := time.Now()
	live := func(name string) store.Node { return store.Node{Name: name, LeaseUntil: now.Add(time.Second)} }
	reached := func(name, scope string) store.Node {
		return store.Node{Name: name, LeaseUntil: now.Add(time.Second), PeerAddress: "127.0.0.1:1", PeerScope: scope, PeerProof: 1}
	}
	for name, c := range map[string]struct {
		change        func(*postgres.Report)
		check, state  string
		detail, doing string
	}{
		"sound":        {func(*postgres.Report) {}, "postgres", "ok", "15.18", ""},
		"too old":      {func(r *postgres.Report) { r.Unfit = errors.New("the server is Postgres 14") }, "postgres", "fail", "Postgres 14", ""},
		"replica":      {func(r *postgres.Report) { r.Standby = true }, "postgres", "fail", "replica", "primary"},
		"settings":     {func(r *postgres.Report) { r.Dropped = []string{"jit", "statement_timeout"} }, "postgres", "fail", "jit, statement_timeout", "drops them"},
		"pooler":       {func(r *postgres.Report) { r.Pooled = true }, "postgres", "warn", "pooler", "own address"},
		"old schema":   {func(r *postgres.Report) { r.Schema = 1 }, "schema", "ok", "1 of 2", ""},
		"newer schema": {func(r *postgres.Report) { r.Schema = 9 }, "schema", "fail", "version 9", "newer troupe"},
		"may not migrate": {func(r *postgres.Report) { r.Schema, r.MayCreate = 0, false }, "schema", "fail",
			"may not create tables", "troupe migrate"},
		"no rights": {func(r *postgres.Report) { r.Forbidden = []string{"request", "execution_seq"} }, "store rights", "fail",
			"request, execution_seq", "GRANT"},
		"fsync": {func(r *postgres.Report) { r.Settings["fsync"] = "off" }, "durability", "warn", "fsync is off", "ALTER SYSTEM"},
		"synchronous_commit": {func(r *postgres.Report) { r.Settings["synchronous_commit"] = "off" }, "durability", "warn",
			"may lose submissions and outcomes", "switch on"},
		"full": {func(r *postgres.Report) { r.ConnectionsFree = 3 }, "connections", "warn", "3 are free", "max_connections"},
		"fast clock": {func(r *postgres.Report) { r.Ahead, r.AheadError = 3*time.Second, time.Second }, "store clock", "warn",
			"3s ahead of", "NTP"},
		"slow clock": {func(r *postgres.Report) { r.Ahead, r.AheadError = -3*time.Second, time.Second }, "store clock", "warn",
			"3s behind", "NTP"},
		"unsure clock": {func(r *postgres.Report) { r.Ahead, r.AheadError = 3*time.Second, 3*time.Second }, "store clock", "ok",
			"as far as can be seen in 3s", ""},
		"twins": {func(r *postgres.Report) {
			r.Now, r.Nodes = now, []store.Node{live("b"), live("a"), live("b"), {Name: "a", LeaseUntil: now.Add(-time.Second)}}
		}, "live nodes", "warn", "2 are named b", "--name"},
		"one node": {func(r *postgres.Report) { r.Now, r.Nodes = now, []store.Node{live("a")} }, "peers", "ok", "cannot ask", ""},
		"nodes of one machine": {func(r *postgres.Report) {
			r.Now, r.Nodes = now, []store.Node{reached("a", "m/1"), reached("b", "m/1"), {Name: "c", PeerAddress: "x:1"}}
		}, "peers", "ok", "cannot ask", ""},
		"peers off": {func(r *postgres.Report) { r.Now, r.Nodes = now, []store.Node{live("a"), live("b")} }, "peers", "ok",
			"no live node listens", ""},
		"nodes of two machines": {func(r *postgres.Report) {
			r.Now, r.Nodes = now, []store.Node{reached("c", "m/2"), reached("b", "m/1"), reached("a", "m/1"), live("d")}
		}, "peers", "warn", "a, b / c / d", "node.peers_listen"},
		"a node of an older release": {func(r *postgres.Report) {
			r.Now, r.Nodes = now, []store.Node{reached("a", "m/1"), {Name: "b", LeaseUntil: now.Add(time.Second), PeerAddress: "x:1", PeerScope: "m/1"}}
		}, "peers", "warn", "takes commands from whoever reaches its port for peers: b", "upgrade"},
		"all told":   {func(*postgres.Report) {}, "notices", "ok", "every outcome is told", ""},
		"being told": {func(r *postgres.Report) { r.Notices = store.NoticesPending{Count: 7, Age: time.Second} }, "notices", "ok", "7 outcomes", ""},
		"told late": {func(r *postgres.Report) { r.Notices = store.NoticesPending{Count: 7, More: true, Age: time.Minute} }, "notices", "warn",
			"more than 7 outcomes are not told on the executions exchange yet, the oldest for 1m0s", "RabbitMQ"},
		"webhooks told":     {func(*postgres.Report) {}, "webhooks", "ok", "nothing is due", ""},
		"webhooks due":      {func(r *postgres.Report) { r.Webhooks = store.WebhookCounts{Due: 3, Late: time.Second} }, "webhooks", "ok", "3 are due", ""},
		"webhooks late":     {func(r *postgres.Report) { r.Webhooks = store.WebhookCounts{Due: 3, Late: time.Hour} }, "webhooks", "warn", "the oldest for 1h0m0s", "--state due"},
		"webhooks given up": {func(r *postgres.Report) { r.Webhooks = store.WebhookCounts{GivenUp: 2} }, "webhooks", "warn", "2 were given up", "retry ID"},
	} {
		findings := storeFindings(sound(c.change), nil, true)
		for _, f := range findings {
			if f.Check != c.check {
				continue
			}
			require.Equal(t, c.state, f.State, "%s: %v", name, f)
			require.Contains(t, f.Detail, c.detail, name)
			require.Contains(t, f.Advice, c.doing, name)
		}
		require.Condition(t, func() bool { return len(findings) == 10 }, name)
	}
	f := storeFindings(nil, errors.New(`unsupported startup parameter: jit`), true)
	require.Equal(t, "fail", f[0].State)
	require.Contains(t, f[0].Advice, "pooler")
}

func TestDoctorJudgesRabbitMQ(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r     rabbitmq.Report
		state string
		says  string
	}{
		{rabbitmq.Report{Product: "RabbitMQ", Version: "3.10.8"}, "ok", "3.10.8"},
		{rabbitmq.Report{Product: "RabbitMQ", Version: "4.1.0"}, "ok", "4.1.0"},
		{rabbitmq.Report{Product: "RabbitMQ", Version: "3.9.27"}, "fail", "too old"},
		{rabbitmq.Report{Product: "Other", Version: "9.9"}, "warn", "Other"},
		{rabbitmq.Report{Product: "RabbitMQ", Version: "3.12.1", Blocked: "low on disk"}, "fail", "low on disk"},
	} {
		f := brokerServer(&c.r)
		require.Equal(t, c.state, f.State)
		require.Contains(t, f.Detail, c.says)
	}
	f := brokerRights(&rabbitmq.Report{Write: errors.New("ACCESS_REFUSED")}, broker.Settings{Prefix: "p"})
	require.Equal(t, "fail", f.State)
	require.Contains(t, f.Detail, "second pattern")
}

func TestDoctorJudgesTimes(t *testing.T) {
	t.Parallel()
	const broker = "message_queue: {rabbitmq: "
	for text, wants := range map[string][]string{
		"":                                       {"queue ttl ok", "dead letters ok"},
		broker + "{worker_queue_ttl_ms: 60000}}": {"queue ttl warn", "dead letters ok"},
		broker + "{worker_queue_ttl_ms: 200000}}":   {"queue ttl warn", "dead letters ok"},
		broker + "{dead_letter: {enabled: false}}}": {"queue ttl ok", "dead letters warn"},
		"executor: {claim_sweep: false}":            {"queue ttl ok", "dead letters ok", "claim sweep warn"},
	} {
		file := t.TempDir() + "/c.yaml"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		l, err := config.Load(config.Sources{File: file, Environ: []string{"HOME=/h"}})
		require.NoError(t, err)
		var have []string
		for _, f := range timeouts(l) {
			have = append(have, f.Check+" "+f.State)
		}
		require.Equal(t, wants, have, text)
	}
}

// findings are the doctor's by their checks.
func (r result) findings(t *testing.T) map[string]finding {
	t.Helper()
	var list []finding
	require.NoError(t, json.Unmarshal([]byte(r.out), &list), r.out+r.err)
	by := map[string]finding{}
	for _, f := range list {
		by[f.Check] = f
	}
	return by
}

// The full mode, on real servers: an empty database, a migration, live nodes of one name, queues of a dead one, a shared
// queue of other arguments, servers that are not there.
func TestMigrateAndDoctorOnServers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs servers: not with -short")
	}
	t.Parallel()
	ctx, database := t.Context(), servers.Postgres(t)
	url, prefix := servers.RabbitMQ(t)
	environ := []string{"TROUPE_DATA=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TROUPE_LISTEN=" + servers.OwnAddress(), "TROUPE_STORE_URL=" + database}
	full := append([]string{"TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=" + url, "TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX=" + prefix,
		"TROUPE_MESSAGE_QUEUE_RABBITMQ_QUEUE_TYPE=classic"}, environ...)

	r := call(t, "", full, "doctor", "-o", "json")
	require.Equal(t, 0, r.code, r.out+r.err)
	require.Contains(t, r.findings(t)["schema"].Detail, "version 0 of")
	r = call(t, "", environ, "migrate", "--status")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `1\s+00001_init\s+missing`, r.out)
	r = call(t, "", environ, "migrate")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "went from version 0 to ")
	r = call(t, "", environ, "migrate")
	require.Contains(t, r.out, "already; nothing was to be done")
	r = call(t, "", environ, "migrate", "--status", "-o", "json")
	require.NotContains(t, r.out, "missing")

	s, err := postgres.Open(ctx, postgres.Config{URL: database, Conns: 2})
	require.NoError(t, err)
	gone := messages.NewIncarnation()
	for _, inc := range []messages.Incarnation{messages.NewIncarnation(), messages.NewIncarnation(), gone} {
		require.NoError(t, s.Join(ctx, store.Node{Incarnation: inc, Name: "box", Version: "1"}, time.Minute))
	}
	require.NoError(t, s.SaveWorkers(ctx, []store.Worker{
		{Key: messages.WorkerKey{Incarnation: gone, Pool: "python"}, ID: "box/python/0", Runtime: "python", Active: true},
		{Key: messages.WorkerKey{Incarnation: gone, Pool: "go"}, ID: "box/go/0", Runtime: "go", Active: true},
	}))
	require.NoError(t, s.SetNode(ctx, gone, store.NodeDead))
	lives := messages.NewIncarnation()
	require.NoError(t, s.Join(ctx, store.Node{Incarnation: lives, Name: "near", Version: "1"}, time.Minute))
	require.NoError(t, s.SaveWorkers(ctx, []store.Worker{
		{Key: messages.WorkerKey{Incarnation: lives, Pool: "python"}, ID: "near/python/0", Runtime: "python", Active: true},
		{Key: messages.WorkerKey{Incarnation: lives, Pool: "python", Slot: 1}, ID: "near/python/1", Runtime: "python", Active: true},
		{Key: messages.WorkerKey{Incarnation: lives, Pool: "go"}, ID: "near/go/0", Runtime: "go", Active: true},
	}))
	require.NoError(t, s.Close())
	b, err := rabbitmq.Open(ctx, rabbitmq.Config{URL: url, WaitAtOpen: true})
	require.NoError(t, err)
	settings := broker.Settings{Prefix: prefix, Classic: true} // a quorum queue tells its length late
	own, pooled := settings.WorkerQueueName("box/python/0", gone), settings.PoolQueueName("box", "go", gone)
	require.NoError(t, b.Declare(ctx, settings.Shared()))
	require.NoError(t, b.Declare(ctx, settings.WorkQueue(own)))
	require.NoError(t, b.Declare(ctx, settings.WorkQueue(pooled)))
	living := settings.PoolQueueName("near", "go", lives)
	require.NoError(t, b.Declare(ctx, settings.WorkQueue(living)))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		for _, name := range []string{own, pooled, living, settings.DeadLetterQueue(), settings.RequestsQueue()} {
			require.NoError(t, b.Delete(ctx, name))
		}
		require.NoError(t, b.Close())
	})
	confirms, err := b.Publish(ctx, []broker.Message{{RoutingKey: own}, {RoutingKey: own}, {RoutingKey: pooled}})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Confirmed, broker.Confirmed, broker.Confirmed}, confirms)

	r = call(t, "", full, "doctor", "-o", "json")
	require.Equal(t, 0, r.code, r.out)
	require.Equal(t, "2 queues of ended nodes are left, with 3 messages", r.findings(t)["left queues"].Detail)
	require.Contains(t, r.findings(t)["left queues"].Advice, own+" (2)")
	require.Contains(t, r.findings(t)["left queues"].Advice, "goes by itself 10m0s after")
	require.Equal(t, "warn", r.findings(t)["live nodes"].State)
	require.Equal(t, "ok", r.findings(t)["dispatch"].State)
	require.Contains(t, r.findings(t)["dispatch"].Advice, "these pools do otherwise: python on node near: direct. That works while")
	r = call(t, "", append(full, "TROUPE_DISPATCH=direct"), "doctor", "-o", "json")
	require.Contains(t, r.findings(t)["dispatch"].Advice, "these pools do otherwise: go on node near: broker. That works while")
	r = call(t, "", append(full, "TROUPE_POOLS=python:direct"), "doctor", "-o", "json")
	require.Empty(t, r.findings(t)["dispatch"].Advice)
	r = call(t, "", full, "doctor", "-o", "json")
	require.Contains(t, r.findings(t)["shared queues"].Detail, settings.DeadLetterQueue()+" holds 0")

	require.Equal(t, "ok", r.findings(t)["shared exchanges"].State)
	require.NoError(t, servers.DeleteExchange(url, settings.ExecutionsExchange()))
	r = call(t, "", full, "doctor", "-o", "json")
	require.Equal(t, 1, r.code, r.out)
	require.Equal(t, "fail", r.findings(t)["shared exchanges"].State)
	require.Contains(t, r.findings(t)["shared exchanges"].Detail, settings.ExecutionsExchange()+" was deleted")
	require.NoError(t, b.Declare(ctx, settings.Shared()))

	r = call(t, "", append(full, "TROUPE_MESSAGE_QUEUE_RABBITMQ_QUEUE_TYPE=quorum"), "doctor", "-o", "json")
	require.Equal(t, 0, r.code, r.out)
	require.Equal(t, "warn", r.findings(t)["shared queues"].State)
	for _, name := range []string{settings.DeadLetterQueue(), settings.RequestsQueue()} {
		require.Contains(t, r.findings(t)["shared queues"].Detail, name+" holds 0 and is used as it is, though declare queue "+name+": queue exists with other arguments")
	}
	require.Contains(t, r.findings(t)["shared queues"].Advice, "delete it (rabbitmqctl delete_queue)")
	r = call(t, "", append(full, "TROUPE_STORE_URL=postgres://nobody@"+servers.OwnAddress()+"/x", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqp://"+servers.OwnAddress()+"/x"),
		"doctor", "-o", "json")
	require.Equal(t, 1, r.code, r.out)
	require.Equal(t, []string{"fail", "fail"}, []string{r.findings(t)["postgres"].State, r.findings(t)["rabbitmq"].State})
}

// Without RabbitMQ nothing is told, and what a time with RabbitMQ has left untold waits for one.
func TestDoctorJudgesNoticesWithoutRabbitMQ(t *testing.T) {
	t.Parallel()
	f := storeNotices(sound(func(*postgres.Report) {}), false)
	require.Equal(t, []string{"ok", "none are told, without RabbitMQ"}, []string{f.State, f.Detail})
	f = storeNotices(sound(func(r *postgres.Report) { r.Notices = store.NoticesPending{Count: 7, Age: time.Second} }), false)
	require.Equal(t, "warn", f.State)
	require.Contains(t, f.Advice, "message_queue.rabbitmq.url")
}

func TestDoctorSaysHowWorkIsHandedOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url, dispatch string
		pools         node.PoolSettings
		detail, off   string // off: the state where the node reaches no other one
	}{
		{"", "", nil, "direct: nodes hand work to each other, without RabbitMQ", "warn"},
		{"", "direct", node.PoolSettings{"go": {Dispatch: "direct"}}, "direct: nodes hand work to each other, without RabbitMQ", "warn"},
		{"amqp://h/", "", nil, "broker: work goes over RabbitMQ, because message_queue.rabbitmq.url is set", "ok"},
		{"amqp://h/", "broker", nil, "broker: work goes over RabbitMQ, because dispatch says so", "ok"},
		{"amqp://h/", "direct", nil, "direct: dispatch says so; RabbitMQ carries submissions, notices and dead letters of other programs", "warn"},
		{"amqp://h/", "", node.PoolSettings{"go": {Dispatch: "direct"}, "b": {Dispatch: "broker"}},
			"broker: work goes over RabbitMQ, because message_queue.rabbitmq.url is set; pool go: direct", "warn"},
	} {
		l := &config.Loaded{}
		l.Broker.RabbitMQ.URL, l.Dispatch, l.Pools = c.url, c.dispatch, c.pools
		f := dispatch(l)
		require.Equal(t, []string{"ok", c.detail}, []string{f.State, f.Detail})
		l.Node.Peers.Listen = peers.Off
		f = dispatch(l)
		require.Equal(t, c.off, f.State, c.detail)
		if c.off == "warn" {
			require.Contains(t, f.Advice, "node.peers_listen")
		}
	}
}
