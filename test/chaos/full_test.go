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
	"github.com/troupe-run/troupe/test/servers"
)

// backTime bounds how long a fleet may take to be well again after a strike: a server's start on a busy machine, and the
// node's own waits.
const backTime = 60 * time.Second

// sideMark is the header of the messages that the test makes up. The engine knows nothing of it.
const sideMark = "x-chaos"

// full is a fleet of nodes on one Postgres and one RabbitMQ.
type full struct {
	t        *testing.T
	postgres string // URLs
	rabbit   string
	// The private servers; nil where the fleet runs on shared ones, which nothing may happen to.
	ownPostgres *servers.PostgresServer
	ownRabbit   *servers.RabbitMQServer
	net         *netns.Network // that its nodes are on; nil: this machine's own
	settings    broker.Settings
	troupe      string // the binary of its nodes, where a history joins them
	effects     string
	env         []string
	nodes       []*node
	side        broker.Broker // the test's own connection
	letters     letterbox
	calls       *caller // of the work that faults have nodes run, where a suite takes it into its history

	mu    sync.Mutex
	taken []taking
}

// taking is the moment at which a node's power was taken away, or its time.
type taking struct {
	node string
	at   time.Time
}

// newFull prepares a fleet on private servers, which are the test's to kill.
func newFull(t *testing.T, env ...string) *full {
	t.Helper()
	f := &full{t: t}
	f.serve(servers.PostgresOptions{}, servers.RabbitMQOptions{})
	f.prepare(f.ownPostgres.URL, f.ownRabbit.URL, "chaos", env)
	return f
}

// serve starts servers of the fleet's own.
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

// frequented is the RabbitMQ that fleets share which do nothing to it. It is this package's own: queues of nodes that were killed
// stay for twice their TTL, and those of a few fleets fill a server that may have 1,024 files open, as many installations may.
var frequented = sync.OnceValues(func() (*servers.RabbitMQServer, error) {
	return servers.StartRabbitMQ(servers.RabbitMQOptions{}) // its keeper ends it
})

// newShared prepares a fleet on servers that other tests use too.
func newShared(t *testing.T, env ...string) *full {
	t.Helper()
	f := &full{t: t}
	f.share(servers.Postgres(t), env)
	return f
}

// newAmple prepares a fleet with a Postgres of its own: three nodes take a third of the connections that one has by default. Its
// RabbitMQ is one that other tests use too; in a whole run, which measures for long, that is its own as well.
func newAmple(t *testing.T, env ...string) *full {
	t.Helper()
	if whole {
		return newFull(t, env...)
	}
	f := &full{t: t}
	f.ownPostgres = servers.PrivatePostgres(t, servers.PostgresOptions{Unsafe: true})
	f.share(f.ownPostgres.URL, env)
	return f
}

// share puts the fleet on the RabbitMQ of all, under names of its own.
func (f *full) share(postgres string, env []string) {
	f.t.Helper()
	rabbit, err := frequented()
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

// join adds a node of the given binary to the fleet, which has not been started.
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

// well waits until every node says that it is ready.
func (f *full) well() {
	f.t.Helper()
	for _, n := range f.nodes {
		n.eventually(backTime, "node "+n.name+" is ready again", func(ctx context.Context) bool {
			r, err := n.readiness(ctx)
			return err == nil && r.Ready
		})
	}
}

// readiness is what the node says of itself; one that is frozen says nothing.
func (n *node) readiness(ctx context.Context) (r api.Readiness, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = n.client.Load().Get(ctx, "/readyz", &r)
	return r, err
}

// incarnation is the newest of a node's, as another node knows it.
func (n *node) incarnation(of string) (newest store.Node) {
	n.t.Helper()
	var list api.NodeList
	n.get("/api/v1/nodes", &list)
	for _, candidate := range list.Nodes {
		if candidate.Name == of && bytes.Compare(candidate.Incarnation[:], newest.Incarnation[:]) > 0 { // by this machine's clock
			newest = candidate.Node
		}
	}
	return newest
}

// take notes that a node's power goes now.
func (f *full) take(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = append(f.taken, taking{n.name, time.Now()})
}

// signal sends the node's own process a signal.
func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	require.NoError(n.t, n.command.Process.Signal(s))
}

// caller speaks to all nodes of the fleet in turn.
func (f *full) caller() *caller {
	return &caller{node: f.nodes[0], others: f.nodes[1:], patience: 8 * time.Second}
}

// any is one of the nodes.
func (f *full) any(random *rand.Rand) *node { return f.nodes[random.IntN(len(f.nodes))] }

// history gathers what a run left, with what was dead-lettered by the engine's forensic rows too, but for letters that the test
// made up or sent again: they are no evidence that the broker gave a message up.
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

// letterbox has a copy of everything that the broker dead-letters.
type letterbox struct {
	mu   sync.Mutex
	seen []messages.Placement
	kept []broker.Message
}

// keptMax bounds the dead letters that are kept to be sent again.
const keptMax = 1000

// collect fills the letterbox until the test ends.
func (f *full) collect() {
	f.t.Helper()
	queue := f.letterQueue()
	require.NoError(f.t, f.side.Declare(f.t.Context(), f.settings.Shared()))
	require.NoError(f.t, f.bindLetters())
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

func (f *full) letterQueue() string { return f.settings.Prefix + ".letters" }

// bindLetters has the dead-letter exchange send copies to the test's own queue.
func (f *full) bindLetters() error {
	return f.side.Declare(f.t.Context(), broker.Topology{
		Queues:   []broker.Queue{{Name: f.letterQueue(), Quorum: true}},
		Bindings: []broker.Binding{{Exchange: f.settings.Shared().Exchanges[1].Name, Queue: f.letterQueue()}},
	})
}

// collectOnce reads letters until its connection goes.
func (f *full) collectOnce(ctx context.Context, queue string) {
	consumer, err := f.side.Consume(ctx, queue, 100)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // until the next try
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
			_ = d.Ack() // one that cannot be acked comes again
		case <-ctx.Done():
			_ = consumer.Cancel()
			return
		}
	}
}

// add keeps a letter, unless it is one of those that the test made up.
func (l *letterbox) add(d broker.Delivery) {
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

// placements are those of all workers of one message.
func placements(work []broker.Work) []messages.Placement {
	var all []messages.Placement
	for i := range work {
		all = append(all, work[i].Placements...)
	}
	return all
}

func (l *letterbox) all() []messages.Placement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

func (l *letterbox) copies() []broker.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// letter makes up the dead letter of a placement, marked as the test's.
func (f *full) letter(worker messages.WorkerKey, p messages.Placement) broker.Message {
	body, err := broker.Work{Worker: worker, Placements: []messages.Placement{p}}.Encode()
	require.NoError(f.t, err)
	return broker.Message{ID: "made up " + p.Execution.String() + " " + strconv.Itoa(int(p.Attempt)), Body: body}
}

// post sends dead letters again, each as often as is said. What cannot be sent now is left out: no letter is owed.
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

// parameters is how long a run takes.
func parameters(length time.Duration) json.RawMessage {
	return json.RawMessage(`{"ms":` + strconv.FormatInt(length.Milliseconds(), 10) + `}`)
}
