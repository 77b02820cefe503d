package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// companyLease is so long that a busy machine fences no node whose peers a test takes away: that is not what these tests
// look at.
const companyLease = 20 * time.Second

// company is a Postgres and a RabbitMQ that several nodes share.
type company struct {
	store, rabbit string
	settings      broker.Settings
}

func newCompany(t *testing.T) *company {
	t.Helper()
	servers.Unraced(t)
	url, prefix := servers.RabbitMQ(t)
	return &company{store: database(t), rabbit: url, settings: broker.Settings{Prefix: prefix, Classic: true}}
}

// steerable is a node that other nodes reach through a proxy.
type steerable struct {
	*kit
	gate   *gate
	wire   *proxy.Proxy
	drains chan struct{}
}

// newSteerable starts a node of the company. It serves pack c, as every node does, and a pack of its own, so that a test says
// where something runs.
func (c *company) newSteerable(t *testing.T, name string, change ...func(*node.Config)) *steerable {
	t.Helper()
	listen := servers.OwnAddress()
	n := &steerable{gate: newGate(), wire: proxy.New(t, listen), drains: make(chan struct{}, 8)}
	pack := func(of string) string {
		return packOf(t, of, "pools:\n  - name: lab\n    runtime: go\n    workers: 2\n  - name: sh\n    runtime: shell\n    workers: 1\n", files{
			"actions/work.yaml": "name: work\nruntime: go\npool: lab\nentrypoint: " + of + ".work\nidempotent: true\non_no_worker: wait\n",
			"actions/talk.yaml": "name: talk\nruntime: go\npool: lab\nentrypoint: " + of + ".talk\non_no_worker: wait\n",
			"actions/say.yaml": "name: say\nruntime: shell\npool: sh\non_no_worker: wait\n" +
				"command: [sh, -c, 'for i in 1 2 3 4 5; do echo line $i; echo err $i >&2; sleep 1; done']\n",
		})
	}
	n.kit = lab(t, func(cfg *node.Config) {
		cfg.Name, cfg.Listen = name, "127.0.0.1:0"
		cfg.StoreURL, cfg.BrokerURL, cfg.Broker = c.store, c.rabbit, c.settings
		cfg.Lease, cfg.BeatEvery = companyLease, companyLease/20
		cfg.Peers = peers.Settings{Listen: listen, Advertise: n.wire.Addr()}
		cfg.Drain = func() { n.drains <- struct{}{} }
		cfg.Handlers = map[string]messages.Handler{}
		for _, of := range []string{"c", name} {
			cfg.Handlers[of+".work"], cfg.Handlers[of+".talk"] = n.gate.run, n.talk
		}
		for _, f := range change {
			f(cfg)
		}
	}, pack("c"), pack(name))
	return n
}

// talk is a handler that says something, waits to be let go on, and says more.
func (n *steerable) talk(ctx context.Context, t *messages.Task) (any, error) {
	t.Progress(0.5, "half")
	t.Log("info", "before")
	if err := t.Chunk(object{"attempt": t.Attempt}); err != nil {
		return nil, err
	}
	_, err := n.gate.run(ctx, t)
	t.Log("info", "after")
	return "said", err
}

// pair is two nodes that reach each other.
func (c *company) pair(t *testing.T) (a, b *steerable) {
	t.Helper()
	a, b = c.newSteerable(t, "a"), c.newSteerable(t, "b")
	for _, n := range []*steerable{a, b} {
		n.meets(1)
	}
	return a, b
}

// meets waits until the node reaches so many others.
func (n *steerable) meets(others int) {
	n.t.Helper()
	n.until(fmt.Sprintf("it reaches %d others", others), func() bool {
		return len(slices.DeleteFunc(n.nodes(), func(v view.Node) bool { return v.Reach != "reached" })) == others
	})
}

func (n *steerable) nodes() []view.Node {
	n.t.Helper()
	all, err := n.Nodes(n.t.Context())
	require.NoError(n.t, err)
	return all
}

// reach is who reaches whom, as the nodes say to this one.
func (n *steerable) reach() (lines []string) {
	n.t.Helper()
	all, _, err := n.Backend.Reach(n.t.Context())
	require.NoError(n.t, err)
	for _, from := range all {
		for _, to := range from.Others {
			lines = append(lines, from.Node+" to "+to.Node+": "+to.Reach)
		}
	}
	return lines
}

// view is how the node sees another incarnation.
func (n *steerable) view(of messages.Incarnation) view.Node {
	n.t.Helper()
	all := n.nodes()
	i := slices.IndexFunc(all, func(v view.Node) bool { return v.Incarnation == of })
	require.GreaterOrEqual(n.t, i, 0)
	return all[i]
}

// sees waits until a worker looks so from the node.
func (n *steerable) sees(id messages.WorkerID, what string, holds func(*view.WorkerDetail) bool) (d view.WorkerDetail) {
	n.t.Helper()
	n.until(string(id)+" is "+what, func() bool {
		var err error
		d, err = n.Worker(n.t.Context(), id)
		require.NoError(n.t, err)
		return holds(&d)
	})
	return d
}

func ready(d *view.WorkerDetail) bool { return d.State == "ready" && d.Health == "healthy" }

// Every verb on a worker of another node does what it does at that node, once for each generation, and says who asked.
func TestAWorkerIsSteeredFromAnotherNode(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	const id = messages.WorkerID("b/b.sh/0")
	d := a.sees(id, "ready", ready)
	require.Equal(t, "b", d.Node)
	require.NotEmpty(t, d.History)
	require.WithinDuration(t, time.Now(), d.SeenAt, patience)

	probed, err := a.Backend.ProbeWorker(t.Context(), id, "ana")
	require.NoError(t, err)
	require.Equal(t, id, probed.ID)
	require.Equal(t, "healthy", probed.Health)
	require.Contains(t, b.log.String(), "worker is probed for an operator: worker=b/b.sh/0 by=ana")

	for _, on := range []bool{true, true, false} { // it may come twice
		require.NoError(t, a.Backend.CordonWorker(t.Context(), id, on, "ana"))
		b.sees(id, fmt.Sprint("cordoned ", on), func(d *view.WorkerDetail) bool { return d.Cordoned == on })
	}

	require.NoError(t, a.Backend.KillWorker(t.Context(), id, "ana"))
	killed := a.sees(id, "replaced", func(k *view.WorkerDetail) bool { return ready(k) && k.Generation > d.Generation })
	require.Contains(t, b.log.String(), fmt.Sprintf("worker is killed by an operator: worker=b/b.sh/0 generation=%d by=ana", d.Generation))
	late := wire.Kill{Pool: "b.sh", Slot: 0, Generation: d.Generation, By: "ana"}
	reply, err := a.AskPeer(t.Context(), b.Incarnation(), messages.Placement{}, late)
	require.NoError(t, err)
	require.Equal(t, wire.Ack{}, reply, "the repeated request finds it done")
	require.Equal(t, messages.Completed, b.run("b.say", nil).Status)
	require.Equal(t, killed.Generation, a.sees(id, "ready", ready).Generation, "and kills nobody else")

	for _, id := range []messages.WorkerID{"b/b.sh/7", "b/none/0"} {
		_, err = a.Worker(t.Context(), id)
		require.Equal(t, 404, api.StatusOf(refused(t, err)))
		require.Contains(t, refused(t, err).Message, fmt.Sprintf("there is no worker %q", id))
		require.Equal(t, 404, api.StatusOf(refused(t, a.Backend.KillWorker(t.Context(), id, "ana"))))
		require.Equal(t, 404, api.StatusOf(refused(t, a.Backend.CordonWorker(t.Context(), id, true, "ana"))))
	}
	_, err = a.Worker(t.Context(), "z/go/0")
	require.Equal(t, "worker z/go/0: there is no node z; `troupe nodes` lists them", refused(t, err).Message)
	byIncarnation, err := a.Worker(t.Context(), messages.NewWorkerID(b.Incarnation().String(), "b.sh", 0))
	require.NoError(t, err)
	require.Equal(t, id, byIncarnation.ID)
}

// A node is cordoned, uncordoned and drained from another, and a pool's cordon reaches the others at once.
func TestANodeIsSteeredFromAnother(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	slow := func(cfg *node.Config) { cfg.HeartbeatInterval = time.Hour } // no look at the store's cordons comes by itself
	a, b := c.newSteerable(t, "a", slow), c.newSteerable(t, "b", slow)
	a.meets(1)
	b.stored("b.lab", 2)
	for _, on := range []bool{true, true, false} {
		require.NoError(t, a.Backend.CordonNode(t.Context(), "b", on, "ana"))
		require.Equal(t, on, a.view(b.Incarnation()).Cordoned)
		require.Equal(t, on, b.share("b.lab").Cordoned)
	}
	require.Contains(t, b.log.String(), "node is cordoned or uncordoned by an operator: node=b cordoned=true by=ana")
	require.NoError(t, a.Backend.CordonPool(t.Context(), "b.lab", true, "ana"), "a pool that the node does not serve itself")
	b.until("its pool is cordoned", func() bool { return b.share("b.lab").Cordoned })
	require.Equal(t, 404, api.StatusOf(refused(t, a.Backend.CordonPool(t.Context(), "none", true, "ana"))))

	require.NoError(t, a.Backend.DrainNode(t.Context(), "b", "ana"))
	require.NoError(t, a.Backend.DrainNode(t.Context(), b.Incarnation().String(), "ana"))
	require.Len(t, b.drains, 2)
	require.Contains(t, b.log.String(), "node is drained by an operator: node=b by=ana")
	require.NoError(t, b.stop())
	err := a.Backend.DrainNode(t.Context(), "b", "ana")
	require.Equal(t, 404, api.StatusOf(refused(t, err)))
	require.Contains(t, refused(t, err).Message, "node b is dead: incarnation "+b.Incarnation().String()+" has ended")
	require.Equal(t, "there is no node z; `troupe nodes` lists them", refused(t, a.Backend.DrainNode(t.Context(), "z", "ana")).Message)
	require.Empty(t, a.view(b.Incarnation()).Reach)
}

// share is the node's own share of a pool.
func (n *steerable) share(pool string) view.Pool {
	n.t.Helper()
	all, err := n.Backend.Pools(n.t.Context(), n.Incarnation().String())
	require.NoError(n.t, err)
	i := slices.IndexFunc(all.Pools, func(p view.Pool) bool { return p.Name == pool })
	require.GreaterOrEqual(n.t, i, 0)
	return all.Pools[i]
}

func ids(list []view.Worker) (all []string) {
	for _, w := range list {
		all = append(all, string(w.ID))
	}
	return all
}

// The workers and pools of all nodes are listed and summed at any of them, or those of the one that is named.
func TestWorkersAndPoolsOfAllNodes(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	for _, n := range []*steerable{a, b} {
		all, err := n.Backend.Workers(t.Context(), "c.lab", "")
		require.NoError(t, err)
		require.Empty(t, all.Unreached)
		require.Equal(t, []string{"a/c.lab/0", "b/c.lab/0", "a/c.lab/1", "b/c.lab/1"}, ids(all.Workers))
		for _, w := range all.Workers {
			require.False(t, w.Stale)
			require.WithinDuration(t, time.Now(), w.SeenAt, patience)
		}
		one, err := n.Backend.Workers(t.Context(), "", "b")
		require.NoError(t, err)
		require.Equal(t, []string{"b/b.lab/0", "b/b.lab/1", "b/b.sh/0", "b/c.lab/0", "b/c.lab/1", "b/c.sh/0"}, ids(one.Workers))
		_, err = n.Backend.Workers(t.Context(), "", "z")
		require.Equal(t, 404, api.StatusOf(refused(t, err)))

		both, only := n.pool("c.lab"), n.pool("b.lab")
		require.Equal(t, []int{2, 4, 1, 2}, []int{both.Nodes, both.Workers, only.Nodes, only.Workers})
		require.Equal(t, 2, b.share("c.lab").Workers)
	}
}

// A node that is not reached is named, with its workers as the store has them; nothing is done there; and it is told apart
// from one that has crashed.
func TestANodeThatIsNotReached(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	b.stored("c.lab", 4)
	require.Equal(t, []string{"a to b: reached", "b to a: reached"}, a.reach())
	a.wire.Cut()
	b.wire.Cut()
	all, err := a.Backend.Workers(t.Context(), "c.lab", "")
	require.NoError(t, err)
	require.Equal(t, []string{"a/c.lab/0", "b/c.lab/0", "a/c.lab/1", "b/c.lab/1"}, ids(all.Workers), "none is missing")
	require.Equal(t, []bool{false, true, false, true}, []bool{all.Workers[0].Stale, all.Workers[1].Stale, all.Workers[2].Stale, all.Workers[3].Stale})
	require.Equal(t, "b", all.Workers[1].Node)
	require.Equal(t, all.Workers[1].Heartbeat, all.Workers[1].SeenAt)
	require.Len(t, all.Unreached, 1)
	require.Equal(t, b.Incarnation(), all.Unreached[0].Incarnation)
	p := a.pool("c.lab")
	require.Equal(t, []int{4, 2, 2}, []int{p.Workers, p.Stale, p.Nodes})

	for verb, err := range map[string]error{
		"kill":   a.Backend.KillWorker(t.Context(), "b/c.sh/0", "ana"),
		"cordon": a.Backend.CordonWorker(t.Context(), "b/c.sh/0", true, "ana"),
		"drain":  a.Backend.DrainNode(t.Context(), "b", "ana"),
	} {
		p := refused(t, err)
		require.Equal(t, 503, api.StatusOf(p), verb)
		require.Equal(t, messages.CodeNodeUnreachable, p.Code, verb)
		require.Contains(t, p.Message, "node b cannot be reached from node a", verb)
		require.Contains(t, p.Message, "call it directly: --server http://"+b.Addr(), verb)
	}
	require.Empty(t, b.drains)

	require.Len(t, a.reach(), 1, "b does not say whom it reaches")
	a.until("it is told apart from a crash", func() bool { return a.view(b.Incarnation()).Reach == "partitioned" })
	require.Contains(t, a.view(b.Incarnation()).Why, "it is partitioned from here")
	a.until("membership says so", func() bool { return strings.Contains(a.log.String(), "reach=partitioned") })
	a.until("the tree says so", func() bool {
		info, _ := a.Registry().Get("troupe/peers")
		return strings.Contains(info.Why, "partitioned: it does not answer here and renews its lease")
	})
	a.wire.Heal()
	b.wire.Heal()
	a.meets(1)
	require.Equal(t, 1, strings.Count(a.log.String(), "reach=partitioned"), "once for each change")
	a.until("membership says that too", func() bool { return strings.Contains(a.log.String(), "reach=reached") })
	require.NoError(t, a.Backend.KillWorker(t.Context(), "b/c.sh/0", "ana"))
}

// A node whose network swallows everything holds a list up for a moment, and for less once it is known to be silent.
func TestASilentNodeHoldsListsUpForAMoment(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	b.stored("c.lab", 4)
	a.wire.Blackhole()
	b.wire.Blackhole()
	lists := func() time.Duration {
		began := time.Now()
		all, err := a.Backend.Workers(t.Context(), "c.lab", "")
		require.NoError(t, err)
		require.Len(t, all.Workers, 4)
		require.Len(t, all.Unreached, 1)
		return time.Since(began)
	}
	first := lists()
	a.until("it is known to be silent", func() bool {
		reach := a.view(b.Incarnation()).Reach
		return reach == "suspect" || reach == "partitioned"
	})
	second := lists()
	t.Logf("%s at first, %s once it is known to be silent", first.Round(time.Millisecond), second.Round(time.Millisecond))
	require.Less(t, first, 5*time.Second, "an API call has so long")
	require.Less(t, second, 3*time.Second)
}

// stored waits until so many workers of a pool stand in the store.
func (n *steerable) stored(pool string, count int) {
	n.t.Helper()
	n.until("its workers are in the store", func() bool {
		rows, err := n.Store().ListWorkers(n.t.Context(), pool)
		return err == nil && len(rows) == count && !slices.ContainsFunc(rows, func(w store.Worker) bool { return w.Beat.IsZero() })
	})
}

// Where peers are off the other's workers are shown from the store, and nothing is steered there.
func TestANodeWithoutPeers(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	off := func(cfg *node.Config) { cfg.Peers = peers.Settings{Listen: peers.Off} }
	a, b := c.newSteerable(t, "a", off), c.newSteerable(t, "b", off)
	a.until("it has seen the other", func() bool { return len(a.nodes()) == 2 && a.view(b.Incarnation()).Reach == "store_only" })
	b.stored("b.sh", 1)
	all, err := a.Backend.Workers(t.Context(), "b.sh", "")
	require.NoError(t, err)
	require.Equal(t, []string{"b/b.sh/0"}, ids(all.Workers))
	require.True(t, all.Workers[0].Stale)
	require.Contains(t, all.Unreached[0].Why, "this node listens for no peers (node.peers_listen)")
	require.Contains(t, refused(t, a.Backend.DrainNode(t.Context(), "b", "ana")).Message, "call it directly: --server http://"+b.Addr())
}

// Of two live nodes with one name none is guessed: the incarnation says which is meant, and so does a worker's id as it is
// listed.
func TestNobodyGuessesWhichTwinIsMeant(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	first, second := c.newSteerable(t, "twin"), c.newSteerable(t, "twin")
	other := c.newSteerable(t, "other")
	other.meets(2)
	first.meets(2)
	for _, n := range []*steerable{other, first} {
		p := refused(t, n.Backend.DrainNode(t.Context(), "twin", "ana"))
		require.Equal(t, 409, api.StatusOf(p))
		require.Equal(t, messages.CodeAmbiguousNode, p.Code)
		require.Contains(t, p.Message, "2 live nodes are named twin: name the incarnation that is meant")
		require.Contains(t, p.Message, first.Incarnation().String()+" at "+first.Addr())
		require.Contains(t, p.Message, second.Incarnation().String()+" at "+second.Addr())
	}
	require.NoError(t, other.Backend.DrainNode(t.Context(), second.Incarnation().String(), "ana"))
	require.Len(t, second.drains, 1)
	require.Empty(t, first.drains)
	all, err := other.Backend.Workers(t.Context(), "twin.sh", "")
	require.NoError(t, err)
	require.Equal(t, []string{"twin/twin.sh/0", "twin@" + second.Incarnation().Short() + "/twin.sh/0"}, ids(all.Workers))
	for i, n := range []*steerable{first, second} {
		id := all.Workers[i].ID
		require.NoError(t, other.Backend.CordonWorker(t.Context(), id, true, "ana"))
		other.sees(id, "cordoned", func(d *view.WorkerDetail) bool { return d.Cordoned })
		require.Contains(t, n.log.String(), "worker is cordoned or uncordoned by an operator: worker="+string(id))
	}
}

// A cancel reaches the node that runs it directly, with who asked.
func TestACancelReachesTheOtherNodeDirectly(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	id := b.submit("b.work", nil)
	require.Equal(t, id, b.gate.next(t).ID)
	asked := time.Now()
	_, err := a.Cancel(t.Context(), id, "ana")
	require.NoError(t, err)
	require.Equal(t, messages.Cancelled, a.await(id).Status)
	t.Logf("cancelled after %s", time.Since(asked).Round(time.Millisecond))
	b.until("the hint came", func() bool { return strings.Contains(b.log.String(), "run is to be cancelled, says a peer") })
}
