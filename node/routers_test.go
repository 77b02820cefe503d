package node_test

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// ring is some nodes that share one Postgres and, but for some tests of the direct dispatch, one RabbitMQ. They serve the same pack, and reach each other.
type ring struct {
	t     *testing.T
	nodes []*linked
	gate  *gate
	// change is made to each node's configuration.
	change func(*node.Config)
}

// linked is one node of a ring, with networks of its own to the store and from the others.
type linked struct {
	*kit
	name  string
	store *proxy.Proxy
	peers *proxy.Proxy // by which the others reach it
}

// ringPack has one pool; its handlers say on which node they run.
const ringPool = "t.lab"

func ringPack(t *testing.T) string {
	t.Helper()
	action := func(name, more string) string {
		return "name: " + name + "\nruntime: go\npool: lab\nentrypoint: t." + name + "\non_no_worker: wait\n" + more
	}
	return packOf(t, "t", "pools:\n  - name: lab\n    runtime: go\n    workers: 3\n", files{
		"actions/where.yaml": action("where", ""),
		"actions/hold.yaml":  action("hold", "idempotent: true\n"),
	})
}

// join starts the nodes and waits until one of them leads the pool and all others follow.
func join(t *testing.T, names ...string) *ring {
	t.Helper()
	return joinAs(t, ringPack(t), func(*node.Config) {}, names...)
}

// joining starts the nodes of a ring and waits until they are settled.
type joining func(t *testing.T, names ...string) *ring

// directly starts nodes that hand work to each other, without a RabbitMQ.
func directly(t *testing.T, names ...string) *ring {
	t.Helper()
	servers.Unraced(t)
	return startRing(t, ringPack(t), "", broker.Settings{}, func(*node.Config) {}, names)
}

// directlyBesideRabbitMQ starts nodes that hand work to each other, with a RabbitMQ for all else.
func directlyBesideRabbitMQ(t *testing.T, names ...string) *ring {
	t.Helper()
	return joinAs(t, ringPack(t), func(c *node.Config) { c.Dispatch = node.DispatchDirect }, names...)
}

// part is a test of a row.
type part struct {
	name string
	test func(t *testing.T, join func(names ...string) *ring)
}

// alone is a part that starts its nodes itself.
func alone(test func(*testing.T)) func(*testing.T, func(...string) *ring) {
	return func(t *testing.T, _ func(...string) *ring) { t.Helper(); test(t) }
}

// inARow runs tests one after the other, and beside other rows.
func inARow(joining joining, parts ...part) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) {
				p.test(t, func(names ...string) *ring { return joining(t, names...) })
			})
		}
	}
}

// joinAs starts them with a pack and a change of their configuration.
func joinAs(t *testing.T, pack string, change func(*node.Config), names ...string) *ring {
	t.Helper()
	servers.Unraced(t)
	amqp, settings := ringBroker(t)
	return startRing(t, pack, amqp, settings, change, names)
}

// ringBroker is the RabbitMQ of a ring, whose shared queues are deleted in the end.
func ringBroker(t *testing.T) (amqp string, settings broker.Settings) {
	t.Helper()
	amqp, prefix := servers.RabbitMQ(t)
	settings = broker.Settings{Prefix: prefix, Classic: true}
	t.Cleanup(func() { // after the nodes' end
		client, err := rabbitmq.Open(context.Background(), rabbitmq.Config{URL: amqp, WaitAtOpen: true})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, client.Delete(ctx, settings.RequestsQueue()))
		require.NoError(t, client.Delete(ctx, settings.DeadLetterQueue()))
		require.NoError(t, client.Close())
	})
	return amqp, settings
}

// startRing starts the nodes of a ring on a RabbitMQ, or on none where the address is empty.
func startRing(t *testing.T, pack, amqp string, settings broker.Settings, change func(*node.Config), names []string) *ring {
	t.Helper()
	r := &ring{t: t, gate: newGate(), change: change}
	database := database(t)
	for _, name := range names {
		r.nodes = append(r.nodes, r.start(name, database, amqp, settings, pack))
	}
	r.settled(len(names))
	return r
}

func (r *ring) start(name, database, amqp string, settings broker.Settings, pack string) *linked {
	r.t.Helper()
	at, err := url.Parse(database)
	require.NoError(r.t, err)
	n := &linked{name: name, store: proxy.New(r.t, at.Host)}
	at.Host = n.store.Addr()
	query := at.Query()
	query.Set("pool_max_conns", "3")
	at.RawQuery = query.Encode()
	listen := servers.OwnAddress()
	n.peers = proxy.New(r.t, listen)
	n.kit = lab(r.t, func(c *node.Config) {
		c.Name, c.Lease, c.BeatEvery = name, peersLease, peersLease/6
		c.StoreURL, c.BrokerURL, c.Broker, c.EventsAll = at.String(), amqp, settings, true
		c.Peers = peers.Settings{Listen: listen, Advertise: n.peers.Addr()}
		c.Handlers = map[string]messages.Handler{
			"t.where": func(context.Context, *messages.Task) (any, error) { return object{"node": name}, nil },
			"t.hold":  r.gate.run,
		}
		r.change(c)
	}, pack)
	return n
}

func (n *linked) routing() view.Routing { return n.pool(ringPool).Routing }

// settled waits until one of so many nodes leads and the others follow it, and returns the router.
func (r *ring) settled(count int, but ...*linked) (router *linked) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		modes := map[string]int{}
		router = nil
		for _, n := range r.nodes {
			if slices.Contains(but, n) {
				continue
			}
			at := n.routing()
			modes[at.Mode]++
			if at.Mode == "leading" && at.Followers == count-1 {
				router = n
			}
		}
		if router != nil && modes["leading"] == 1 && modes["following"] == count-1 {
			return router
		}
		require.Less(r.t, time.Now(), deadline, "one node must lead and the others follow: %v", modes)
		time.Sleep(20 * time.Millisecond)
	}
}

// others are the nodes beside one.
func (r *ring) others(than *linked) (list []*linked) {
	for _, n := range r.nodes {
		if n != than {
			list = append(list, n)
		}
	}
	return list
}

var wasteCounts = regexp.MustCompile(`(?m)^troupe_(?:stale_writes|take_backs)_total\{.*\} .*$`)

// waste is what the node has counted of tries in vain and of take backs.
func (n *linked) waste() []string { return wasteCounts.FindAllString(n.scrape(), -1) }

func nodeOf(t *testing.T, e *messages.Execution) string {
	t.Helper()
	name, _, _, ok := e.WorkerID.Split()
	require.True(t, ok, "worker %q", e.WorkerID)
	return name
}

// Of three nodes one routes for all: whatever is submitted anywhere runs on the workers of all of them, each once, and no
// try is in vain.
func oneRouterForThePoolOfThreeNodes(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b", "c")
	const each = 60
	var all sync.WaitGroup
	ids := make([][]messages.ExecutionID, len(r.nodes))
	for i, n := range r.nodes {
		all.Go(func() {
			for range each {
				ids[i] = append(ids[i], n.submit("t.where", nil))
			}
		})
	}
	all.Wait()
	ran := map[string]int{}
	for i, n := range r.nodes {
		for _, id := range ids[i] {
			e := n.await(id)
			require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
			require.Equal(t, messages.Attempt(1), e.Attempt)
			require.JSONEq(t, fmt.Sprintf(`{"node":%q}`, nodeOf(t, &e)), string(e.Result))
			ran[nodeOf(t, &e)]++
		}
	}
	t.Logf("ran by node: %v", ran)
	require.Len(t, ran, 3, "the workers of all nodes are used")
	for _, n := range r.nodes {
		require.Empty(t, n.waste(), "node %s has tried in vain", n.name)
	}
}

// While the workers of one node alone are busy, what is submitted there runs on the others at once.
func workGoesWhereWorkersAreFree(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b")
	router := r.settled(2)
	follower := r.others(router)[0]
	var held []messages.ExecutionID
	for range 6 { // three workers each
		held = append(held, follower.submit("t.hold", nil))
	}
	nodes := map[string]int{}
	for range held {
		r.gate.next(t)
	}
	waits := follower.submit("t.hold", nil)
	follower.until("the router says why it waits", func() bool {
		why, err := follower.Why(t.Context(), waits)
		require.NoError(t, err)
		return why.Reason == "workers_busy" && why.Line != nil && why.Line.Ahead == 0 && why.Line.Of == "pool"
	})
	close(r.gate.open)
	for _, id := range append(held, waits) {
		e := follower.await(id)
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.Equal(t, messages.Attempt(1), e.Attempt)
		nodes[nodeOf(t, &e)]++
	}
	require.GreaterOrEqual(t, nodes["a"], 3)
	require.GreaterOrEqual(t, nodes["b"], 3)
}

// The router ends in order: another takes over, and what is submitted meanwhile does not wait for long.
func theRouterStopsAndAnotherGoesOn(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b", "c")
	router := r.settled(3)
	rest := r.others(router)
	stopped := make(chan error, 1)
	go func() { stopped <- router.stop() }()
	var longest time.Duration
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		for _, n := range rest {
			began := time.Now()
			e := n.run("t.where", nil)
			require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
			longest = max(longest, time.Since(began))
		}
	}
	require.NoError(t, <-stopped)
	t.Logf("longest from submit to outcome while the router stopped: %s", longest.Round(time.Millisecond))
	require.Less(t, longest, 5*time.Second)
	next := r.settled(2, router)
	require.Greater(t, next.routing().Epoch, int64(1))
}

// Nobody reaches the router any more: the others route for themselves, and follow again once they do.
func aRouterThatCannotBeReached(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b")
	router := r.settled(2)
	follower := r.others(router)[0]
	router.peers.Cut()
	cut := time.Now()
	follower.until("it routes for itself", func() bool { return follower.routing().Mode == "alone" })
	t.Logf("alone after %s: %s", time.Since(cut).Round(time.Millisecond), follower.routing().Why)
	require.Equal(t, router.name, follower.routing().Router)
	for range 20 {
		require.Equal(t, messages.Completed, follower.run("t.where", nil).Status)
		require.Equal(t, messages.Completed, router.run("t.where", nil).Status)
	}
	router.peers.Heal()
	r.settled(2)
	require.Equal(t, messages.Completed, follower.run("t.where", nil).Status)
}

// A session of which every node submits executions stays on one worker, in one epoch, whichever node has it; and goes on
// elsewhere, in the next epoch, when that node ends.
func aSessionOverNodes(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b", "c")
	var runs []messages.Execution
	for i := range 30 {
		n := r.nodes[i%len(r.nodes)]
		runs = append(runs, n.run("t.where", nil, session("s", messages.AffinityStrict)))
	}
	for _, e := range runs {
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.Equal(t, runs[0].WorkerID, e.WorkerID)
		require.Equal(t, int64(1), e.SessionEpoch)
	}
	for i, n := range r.nodes { // any node ends it: its router, its worker's, another
		v, err := n.EndSession(t.Context(), ringPool, "s", "me")
		require.NoError(t, err)
		require.True(t, v.Worker.IsZero())
		e := r.nodes[(i+1)%len(r.nodes)].run("t.where", nil, session("s", messages.AffinityStrict))
		require.Equal(t, []any{messages.Completed, int64(i + 2), true}, []any{e.Status, e.SessionEpoch, e.SessionLost}, "%v", e.Error)
		runs[0] = e
	}
	var home *linked
	for _, n := range r.nodes {
		if n.name == nodeOf(t, &runs[0]) {
			home = n
		}
	}
	require.NoError(t, home.stop())
	e := r.others(home)[0].run("t.where", nil, session("s", messages.AffinityStrict))
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.NotEqual(t, home.name, nodeOf(t, &e))
	require.Equal(t, int64(5), e.SessionEpoch)
}

// A node that follows loses the store for good, and so is dead to the others: its work goes to them.
func aFollowerDies(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b", "c")
	router := r.settled(3)
	victim := r.others(router)[0]
	var ids []messages.ExecutionID
	for range 9 { // three workers each
		ids = append(ids, router.submit("t.hold", nil))
	}
	lost := map[messages.ExecutionID]bool{}
	for range ids {
		r.gate.next(t)
	}
	for _, id := range ids {
		if e := router.becomes(id, messages.Running); nodeOf(t, &e) == victim.name {
			lost[id] = true
		}
	}
	require.Len(t, lost, 3)
	victim.store.Cut()
	close(r.gate.open) // what ends on the victim has nowhere to be written
	for _, id := range ids {
		e := router.await(id)
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.NotEqual(t, victim.name, nodeOf(t, &e))
		require.Equal(t, lost[id], e.Attempt == 2, "attempt %d", e.Attempt)
	}
	r.settled(2, victim)
}

// A node falls silent, binds more sessions while it routes for itself, and is declared dead. The bindings to its workers end, whoever made them.
func aSilentFollowerDies(t *testing.T, join func(...string) *ring) {
	t.Helper()
	r := join("a", "b")
	router := r.settled(2)
	victim := r.others(router)[0]
	var left []string
	bind := func(from *linked, name string) {
		e := from.run("t.where", nil, session(name, messages.AffinityStrict))
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		if nodeOf(t, &e) == victim.name {
			left = append(left, name)
		}
	}
	for i := range 6 { // three workers each, the least recently used first
		bind(router, fmt.Sprint("together", i))
	}
	together := len(left)
	require.NotZero(t, together)
	router.peers.Cut()
	router.until("the follower has left the view", func() bool { return router.logged("follower is silent") > 0 })
	victim.until("it routes for itself", func() bool { return victim.routing().Mode == "alone" })
	for i := range 6 {
		bind(victim, fmt.Sprint("apart", i))
	}
	require.Greater(t, len(left), together)
	bound := victim.Incarnation()
	victim.store.Cut()
	for _, name := range left {
		router.until("the session "+name+" is unbound", func() bool {
			v, err := router.Session(t.Context(), ringPool, name)
			require.NoError(t, err)
			return v.Worker.Incarnation != bound
		})
		router.recorded("session " + ringPool + "/" + name + " unbound worker_gone ")
	}
}
