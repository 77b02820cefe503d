package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
	"github.com/troupe-run/troupe/test/netns"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// backTime bounds the time until a fleet is ready again after a fault: the start of a server on a busy machine, and the nodes'
// own waits.
const backTime = 60 * time.Second

// sideMark is a header of the messages that the test makes up. The nodes do not know it.
const sideMark = "x-chaos"

// full is a fleet of nodes on one Postgres and one RabbitMQ.
type full struct {
	t        *testing.T
	postgres string // URLs
	rabbit   string
	// The private servers. They are nil if the fleet uses shared servers, into which no fault may be injected.
	ownPostgres *servers.PostgresServer
	ownRabbit   *servers.RabbitMQServer
	net         *netns.Network // the nodes' network; nil: this machine's own
	way         *proxy.Proxy   // from the nodes to RabbitMQ; nil: they connect to it directly
	settings    broker.Settings
	troupe      string // the binary of nodes that a history joins
	effects     string
	env         []string
	nodes       []*node
	side        broker.Broker // the test's own connection
	letters     deadLetterLog
	calls       *caller // logs the executions that faults submit, if they are part of the suite's history

	mu    sync.Mutex
	taken []taking
}

// taking is the time of a fault of a node: it was killed or frozen, or its network was cut.
type taking struct {
	node string
	at   time.Time
}

// newFull prepares a fleet with private servers, into which the test may inject faults.
func newFull(t *testing.T, env ...string) *full {
	t.Helper()
	f := &full{t: t}
	f.serve(servers.PostgresOptions{}, servers.RabbitMQOptions{})
	f.prepare(f.ownPostgres.URL, f.ownRabbit.URL, "chaos", env)
	return f
}

// serve starts private servers.
func (f *full) serve(p servers.PostgresOptions, r servers.RabbitMQOptions) {
	f.t.Helper()
	var failed error
	started := make(chan struct{})
	go func() {
		defer close(started)
		f.ownRabbit, failed = servers.StartRabbitMQ(r)
	}()
	f.ownPostgres = servers.PrivatePostgres(f.t, p)
	<-started
	require.NoError(f.t, failed)
	f.t.Cleanup(func() { require.NoError(f.t, f.ownRabbit.Close()) })
}

// sharedRabbit is a RabbitMQ that fleets share if they inject no faults into it. Only this package uses it: queues of killed nodes
// remain for twice their TTL, and those of a few fleets need more files than the 1,024 that many installations allow.
var sharedRabbit = sync.OnceValues(func() (*servers.RabbitMQServer, error) {
	return servers.StartRabbitMQ(servers.RabbitMQOptions{}) // it ends with this process
})

// newShared prepares a fleet on shared servers.
func newShared(t *testing.T, env ...string) *full {
	t.Helper()
	f := &full{t: t}
	f.share(servers.RoomyPostgres(t), env)
	return f
}

// newOwnPostgres prepares a fleet with a private Postgres: three nodes use a third of a server's default connections. The RabbitMQ is
// shared. In a whole run, which measures for long, it is private too.
func newOwnPostgres(t *testing.T, env ...string) *full {
	t.Helper()
	if whole {
		return newFull(t, env...)
	}
	f := &full{t: t}
	f.ownPostgres = servers.PrivatePostgres(t, servers.PostgresOptions{Unsafe: true})
	f.share(f.ownPostgres.URL, env)
	return f
}

// share lets the fleet use the shared RabbitMQ, with names of its own.
func (f *full) share(postgres string, env []string) {
	f.t.Helper()
	rabbit, err := sharedRabbit()
	require.NoError(f.t, err)
	f.prepare(postgres, rabbit.URL, "troupe.test."+uuid.NewString(), env)
}

func (f *full) prepare(postgres, rabbit, prefix string, env []string) {
	f.t.Helper()
	f.postgres, f.rabbit, f.settings = postgres, rabbit, broker.Settings{Prefix: prefix}
	f.effects = filepath.Join(f.t.TempDir(), "effects.log")
	f.env = append([]string{"TROUPE_STORE_URL=" + postgres, "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=" + rabbit,
		"TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX=" + prefix}, env...)
	side, err := rabbitmq.Open(f.t.Context(), rabbitmq.Config{URL: rabbit, Name: "chaos", ConfirmTimeout: 5 * time.Second, WaitAtOpen: true})
	require.NoError(f.t, err)
	f.side = side
	f.t.Cleanup(func() { require.NoError(f.t, side.Close()) })
}

// connectThrough lets the nodes that join connect to RabbitMQ through a proxy. The test's own connection stays direct.
func (f *full) connectThrough() {
	f.t.Helper()
	at, err := url.Parse(f.rabbit)
	require.NoError(f.t, err)
	f.way = proxy.New(f.t, at.Host)
	at.Host = f.way.Addr()
	f.env = append(f.env, "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL="+at.String())
}

// join adds a node of the given binary to the fleet, and does not start it.
func (f *full) join(name, troupe, pack string, env ...string) *node {
	f.t.Helper()
	n := newNodeOf(f.t, troupe, pack, f.effects, slices.Concat(f.env, []string{"TROUPE_NODE_NAME=" + name}, env)...)
	n.name, n.look = name, 50*time.Millisecond
	f.nodes = append(f.nodes, n)
	return n
}

// start starts all nodes.
func (f *full) start() {
	f.t.Helper()
	var wait sync.WaitGroup
	failures := make([]error, len(f.nodes))
	for i, n := range f.nodes {
		wait.Go(func() { failures[i] = n.tryStart() })
	}
	wait.Wait()
	for _, err := range failures {
		require.NoError(f.t, err)
	}
	f.well()
}

// well waits until every node is ready.
func (f *full) well() {
	f.t.Helper()
	for _, n := range f.nodes {
		n.eventually(backTime, "node "+n.name+" is ready again", func(ctx context.Context) bool {
			r, err := n.readiness(ctx)
			return err == nil && r.Ready
		})
	}
}

// readiness is the node's answer to /readyz. A frozen node gives none.
func (n *node) readiness(ctx context.Context) (r api.Readiness, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = n.client.Load().Get(ctx, "/readyz", &r)
	return r, err
}

// incarnation is the newest incarnation of a node, according to n.
func (n *node) incarnation(of string) (newest store.Node) {
	n.t.Helper()
	var list api.NodeList
	n.get("/api/v1/nodes", &list)
	for _, candidate := range list.Nodes {
		if candidate.Name == of && bytes.Compare(candidate.Incarnation[:], newest.Incarnation[:]) > 0 { // an incarnation begins with its time
			newest = candidate.Node
		}
	}
	return newest
}

// take notes the time of a fault of a node.
func (f *full) take(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = append(f.taken, taking{n.name, time.Now()})
}

// signal sends a signal to the node's own process.
func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	require.NoError(n.t, n.command.Process.Signal(s))
}

// caller calls all nodes of the fleet in turn.
func (f *full) caller() *caller {
	return &caller{node: f.nodes[0], others: f.nodes[1:], patience: 8 * time.Second}
}

// any is one of the nodes.
func (f *full) any(random *rand.Rand) *node { return f.nodes[random.IntN(len(f.nodes))] }

// history gathers the records of a run. The dead letters are those that the test received and those in the nodes' store. It
// leaves out dead letters that the test made up or sent again, because the broker did not dead-letter them.
func (f *full) history(c *caller) *chaos.History {
	f.t.Helper()
	h := f.nodes[0].history(c)
	h.DeadLetters = f.letters.all()
	cursor := ""
	for {
		var page api.DeadLetterList
		f.nodes[0].get("/api/v1/dead-letters?limit=1000&cursor="+url.QueryEscape(cursor), &page)
		for _, row := range page.DeadLetters {
			if !bytes.Contains(row.Headers, []byte(sideMark)) {
				h.DeadLetters = append(h.DeadLetters, messages.Placement{Execution: row.Execution, Attempt: row.Attempt})
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return h
		}
	}
}

// deadLetterLog has a copy of everything that the broker dead-letters.
type deadLetterLog struct {
	mu   sync.Mutex
	seen []messages.Placement
	kept []broker.Message
}

// keptMax bounds the dead letters that are kept to be sent again.
const keptMax = 1000

// collect fills the log of dead letters until the test ends.
func (f *full) collect() {
	f.t.Helper()
	queue := f.deadLetterQueue()
	require.NoError(f.t, f.side.Declare(f.t.Context(), f.settings.Shared()))
	require.NoError(f.t, f.bindDeadLetters())
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			f.collectOnce(ctx, queue)
		}
	})
	f.t.Cleanup(func() {
		cancel()
		work.Wait()
	})
}

func (f *full) deadLetterQueue() string { return f.settings.Prefix + ".letters" }

// bindDeadLetters makes the dead-letter exchange send copies to the test's own queue.
func (f *full) bindDeadLetters() error {
	return f.side.Declare(f.t.Context(), broker.Topology{
		Queues:   []broker.Queue{{Name: f.deadLetterQueue(), Quorum: true}},
		Bindings: []broker.Binding{{Exchange: f.settings.Shared().Exchanges[1].Name, Queue: f.deadLetterQueue()}},
	})
}

// collectOnce reads dead letters until its connection is lost.
func (f *full) collectOnce(ctx context.Context, queue string) {
	consumer, err := f.side.Consume(ctx, queue, 100)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		return
	}
	for {
		select {
		case d, open := <-consumer.Deliveries():
			if !open {
				return
			}
			f.letters.add(d)
			_ = d.Ack() // without an ack it is delivered again
		case <-ctx.Done():
			_ = consumer.Cancel()
			return
		}
	}
}

// add stores a dead letter, unless the test made it up.
func (l *deadLetterLog) add(d broker.Delivery) {
	work, err := broker.DecodeWork(d.Body)
	if _, ours := d.Headers[sideMark]; err != nil || ours {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, placements(work)...)
	if len(l.kept) < keptMax {
		l.kept = append(l.kept, broker.Message{ID: d.ID, Body: d.Body})
	}
}

// placements are the placements of all workers in one message.
func placements(work []broker.Work) []messages.Placement {
	var all []messages.Placement
	for i := range work {
		all = append(all, work[i].Placements...)
	}
	return all
}

func (l *deadLetterLog) all() []messages.Placement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

func (l *deadLetterLog) copies() []broker.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// letter makes up the dead letter of a placement. It has the test's mark.
func (f *full) letter(worker messages.WorkerKey, p messages.Placement) broker.Message {
	body, err := broker.Work{Worker: worker, Placements: []messages.Placement{p}}.Encode()
	require.NoError(f.t, err)
	return broker.Message{ID: "made up " + p.Execution.String() + " " + strconv.Itoa(int(p.Attempt)), Body: body}
}

// post sends each dead letter again, so many times. It ignores errors, because no test depends on a particular one.
func (f *full) post(letters []broker.Message, times int) {
	exchange := f.settings.Shared().Exchanges[1].Name
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	var all []broker.Message
	for _, m := range letters {
		m.Exchange, m.Headers = exchange, map[string]string{sideMark: "again"}
		all = append(all, slices.Repeat([]broker.Message{m}, times)...)
	}
	_, _ = f.side.Publish(ctx, all)
}

// parameters has the duration of a run.
func parameters(length time.Duration) json.RawMessage {
	return json.RawMessage(`{"ms":` + strconv.FormatInt(length.Milliseconds(), 10) + `}`)
}
