package node_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/rogue"
	"github.com/troupe-run/troupe/test/servers"
)

// peersLease is long enough for a busy machine to do within a fifth of it what a node has to.
const peersLease = 6 * time.Second

// acquainted is a node that knows its peers, with a network of its own to the store.
type acquainted struct {
	*kit
	name    string
	keeper  *node.Keeper
	addr    string // of its API; each incarnation has it
	store   *proxy.Proxy
	gate    *gate
	stopped chan time.Time // one for each run whose context has ended
}

// acquaint starts two nodes on one Postgres that reach each other and each serve a pack of their own.
func acquaint(t *testing.T) (a, b *acquainted) {
	t.Helper()
	servers.Unraced(t)
	store := database(t)
	a, b = newAcquainted(t, "a", store), newAcquainted(t, "b", store)
	for _, n := range []*acquainted{a, b} {
		n.reaches("1 of 1 reached")
		n.until("it may declare others dead", func() bool {
			all, err := n.Store().ListNodes(t.Context())
			return err == nil && time.Since(all[0].SteadySince) > peersLease
		})
	}
	return a, b
}

func newAcquainted(t *testing.T, name, store string) *acquainted {
	t.Helper()
	at, err := url.Parse(store)
	require.NoError(t, err)
	n := &acquainted{name: name, store: proxy.New(t, at.Host), gate: newGate(), stopped: make(chan time.Time, 8)}
	at.Host = n.store.Addr()
	work := func(ctx context.Context, task *messages.Task) (any, error) {
		result, err := n.gate.run(ctx, task)
		if ctx.Err() != nil {
			n.stopped <- time.Now()
		}
		return result, err
	}
	keeper, log := keep(t, func(c *node.Config) {
		paired(c, at.String())
		c.Name, c.Lease, c.BeatEvery = name, peersLease, peersLease/6
		c.Peers = peers.Settings{Listen: "127.0.0.1:0"}
		c.Handlers = map[string]messages.Handler{name + ".work": work}
	}, packOf(t, name, "pools:\n  - name: lab\n    runtime: go\n    workers: 1\n", files{
		"actions/work.yaml": "name: work\nruntime: go\npool: lab\nentrypoint: " + name + ".work\nidempotent: true\non_no_worker: wait\n",
	}))
	n.keeper, n.addr, n.kit = keeper, keeper.Addr(), &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t, log: log}
	return n
}

// reaches waits until the node shows that it stands so with its peers.
func (n *acquainted) reaches(state string) {
	n.t.Helper()
	n.until("peers: "+state, func() bool {
		info, _ := n.Registry().Get("troupe/peers")
		return info.State == state
	})
}

// works submits an execution that runs on the node until its gate opens.
func (n *acquainted) works(name string) messages.ExecutionID {
	n.t.Helper()
	id := n.submit(name+".work", nil)
	require.Equal(n.t, id, n.gate.next(n.t).ID)
	return id
}

// stops waits for the end of a run's context, and returns when that was.
func (n *acquainted) stops() time.Time {
	n.t.Helper()
	select {
	case at := <-n.stopped:
		return at
	case <-time.After(patience):
		require.FailNow(n.t, "the node's work was not stopped")
		return time.Time{}
	}
}

// says waits for a text in the node's log.
func (n *acquainted) says(text string) {
	n.t.Helper()
	n.until("the log says "+text, func() bool { return strings.Contains(n.log.String(), text) })
}

// returns waits for another incarnation than the one before, and looks at that from then on.
func (n *acquainted) returns(before messages.Incarnation) {
	n.t.Helper()
	n.until("a new incarnation is ready", func() bool {
		return n.keeper.Node().Incarnation() != before && readyz(n.t, n.addr).Ready
	})
	n.Node, n.Backend = n.keeper.Node(), n.keeper.Backend()
}

// Of two nodes one alone loses the store. The other says that it renews: the one stops its work before its lease ends, and
// so before the other takes it up, and comes back as a new incarnation.
func TestANodeThatAloneLosesTheStoreFencesItself(t *testing.T) {
	t.Parallel()
	a, b := acquaint(t)
	id, first := a.works("a"), a.Incarnation()
	a.store.Cut()
	cut := time.Now()
	took := a.stops().Sub(cut)
	require.NotContains(t, b.log.String(), "node is down", "it was in time")
	t.Logf("fenced after %s", took.Round(time.Millisecond))
	require.Less(t, took, peersLease, "the lease was renewed before the cut")
	a.says("fenced: its lease was not renewed, and 1 of 1 peers renew theirs")
	b.says("node is down: node=a")
	a.store.Heal()
	a.returns(first)
	require.Contains(t, readyz(t, a.addr).Notes,
		"the incarnation before this one was fenced: its lease was not renewed, and 1 of 1 peers renew theirs")
	require.Equal(t, id, a.gate.next(t).ID, "its work is repeated")
	close(a.gate.open)
	e := a.await(id)
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.Equal(t, messages.Attempt(2), e.Attempt)
	a.reaches("1 of 1 reached")
	b.reaches("1 of 1 reached")
	require.NotContains(t, b.log.String(), "fenced")
}

// Both lose the store, for longer than their leases: nobody is fenced, what runs goes on, and nothing is repeated.
func TestNodesThatAllLoseTheStoreGoOn(t *testing.T) {
	t.Parallel()
	a, b := acquaint(t)
	ids := []messages.ExecutionID{a.works("a"), b.works("b")}
	a.store.Cut()
	b.store.Cut()
	a.membership("outage")
	b.membership("outage")
	for n, other := range map[*acquainted]*acquainted{a: b, b: a} {
		n.until("it says that the store is away for both", func() bool {
			all, err := n.Nodes(t.Context())
			require.NoError(t, err)
			i := slices.IndexFunc(all, func(v view.Node) bool { return v.Incarnation == other.Incarnation() })
			return len(all) == 2 && all[i].Reach == "store_away" && !*all[i].StoreSeen
		})
		w, err := n.Worker(t.Context(), messages.NewWorkerID(other.name, other.name+".lab", 0))
		require.NoError(t, err, "what needs no store goes on")
		require.Equal(t, "busy", w.State)
	}
	over := time.Now().Add(peersLease)
	a.until("a lease has passed", func() bool {
		require.Empty(t, a.stopped)
		require.Empty(t, b.stopped)
		return time.Now().After(over)
	})
	a.store.Heal()
	b.store.Heal()
	a.membership("steady")
	b.membership("steady")
	close(a.gate.open)
	close(b.gate.open)
	for i, n := range []*acquainted{a, b} {
		n.until("the node takes calls again", func() bool { return readyz(t, n.addr).Ready })
		e := n.await(ids[i])
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.Equal(t, messages.Attempt(1), e.Attempt)
		require.NotContains(t, n.log.String(), "fenced")
		require.NotContains(t, n.log.String(), "node is down")
	}
}

// Both lose the store, and one gets it back: the other stops its work before the one may declare it dead.
func TestANodeThatDoesNotGetTheStoreBackFencesItself(t *testing.T) {
	t.Parallel()
	a, b := acquaint(t)
	a.works("a")
	first := a.Incarnation()
	a.store.Cut()
	b.store.Cut()
	a.membership("outage")
	b.membership("outage")
	over := time.Now().Add(peersLease)
	a.until("both leases have run out", func() bool { return time.Now().After(over) })
	require.Empty(t, a.stopped)
	b.store.Heal()
	b.membership("steady")
	a.stops()
	require.NotContains(t, b.log.String(), "node is down", "it was in time")
	a.says("fenced: its lease was not renewed, and 1 of 1 peers renew theirs")
	b.says("node is down: node=a")
	require.NotContains(t, b.log.String(), "fenced")
	a.store.Heal()
	close(a.gate.open)
	a.returns(first)
}

// Where a node listens for its peers is judged before it starts, and shown where it does.
func TestWhereANodeListensForItsPeers(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:0": "nobody can dial the wildcard address", "10.0.0.5:7071": "other machines could speak for a node", "x": "must be host:port",
	} {
		cfg, _ := short(t, t.TempDir())
		paired(&cfg, "postgres://h/db")
		cfg.Peers.Listen = listen
		_, err := node.New(cfg)
		require.ErrorContains(t, err, want)
	}
	cfg, _ := short(t, t.TempDir())
	cfg.Peers.Listen = "127.0.0.1:0"
	_, err := node.New(cfg)
	require.ErrorContains(t, err, "a node on the embedded store has no peers")
	cfg.Peers.Listen = peers.Off
	_, err = node.New(cfg)
	require.NoError(t, err)
}

// own is a node's row, and whether its tree has the actor of the peers.
func own(k *kit) (row store.Node, looks bool) {
	all, err := k.Store().ListNodes(k.t.Context())
	require.NoError(k.t, err)
	for _, n := range all {
		if n.Incarnation == k.Incarnation() {
			_, looks = k.Registry().Get("troupe/peers")
			return n, looks
		}
	}
	require.FailNow(k.t, "the node has no row")
	return row, false
}

// A node that shares its servers, and of which nothing else is said, listens for those of its machine.
func TestPeersAreOnInTheFullMode(t *testing.T) {
	t.Parallel()
	servers.Unraced(t)
	k, _ := onServers(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.Peers = peers.Settings{}
	}, goPack(t, map[string]string{"noop": ""}))
	row, looks := own(k)
	require.True(t, looks)
	host, port, err := net.SplitHostPort(row.PeerAddress)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.NotEqual(t, "0", port)
	require.NotEmpty(t, row.PeerScope, "the address is this machine's alone")
	conn, err := net.Dial("tcp", row.PeerAddress)
	require.NoError(t, err, "it listens there")
	require.NoError(t, conn.Close())
}

func TestPeersMayBeOff(t *testing.T) {
	t.Parallel()
	k, _ := onServers(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.Peers.Listen = peers.Off
	}, goPack(t, map[string]string{"noop": ""}))
	row, looks := own(k)
	require.False(t, looks)
	require.Empty(t, row.PeerAddress)
	require.Empty(t, row.PeerScope)
}

func TestANodeOnTheEmbeddedStoreHasNoPeers(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	row, looks := own(k)
	require.False(t, looks)
	require.Empty(t, row.PeerAddress)
}

// Another user of the machine who reaches a node's port for its peers, as the other node of an older release or as that itself, does
// not steer the node: it has no token, and knows no secret. It is told once, and counted.
func TestAnotherUserDoesNotSteerANode(t *testing.T) {
	t.Parallel()
	a, b := acquaint(t)
	id := a.works("a")
	before, err := a.Workers(t.Context(), "a.lab")
	require.NoError(t, err)
	at, own := peerOf(a), peerOf(b)
	key, err := store.NewSecretKey(make([]byte, store.SecretSize))
	require.NoError(t, err)
	guessed := &rogue.Insider{
		Own:    proof.Party{Incarnation: b.Incarnation(), Address: own},
		Secret: store.ClusterSecret{ID: 1, Key: key},
	}
	const tries = 3
	for range tries {
		for _, as := range []*rogue.Insider{nil, guessed} {
			p, err := rogue.Dial(t.Context(), at, nil, as, patience)
			require.NoError(t, err)
			require.NoError(t, p.Greet(own))
			for _, body := range []wire.Body{
				wire.Kill{Pool: "a.lab", Generation: before[0].Generation, By: "mallory"}, wire.Cordon{Cordoned: true, By: "mallory"}, wire.Drain{By: "mallory"},
			} {
				data, err := rogue.Envelope(b.Incarnation(), body)
				require.NoError(t, err)
				if p.Write(rogue.EnvelopeType, rogue.Target, data) != nil { // told by Ended
					break
				}
			}
			require.ErrorContains(t, p.Ended(), "did not get the proof")
			require.NoError(t, p.Close())
		}
	}
	require.Equal(t, 1, strings.Count(a.log.String(), "connection of a peer refused"))
	require.NotContains(t, a.log.String(), "mallory")
	require.Regexp(t, `troupe_peer_messages_dropped\{reason="unproven"\} [1-9]`, a.call("GET", "/metrics", "").body)
	after, err := a.Workers(t.Context(), "a.lab")
	require.NoError(t, err)
	require.Equal(t, before[0].Generation, after[0].Generation)
	require.Equal(t, messages.Running, a.get(id).Status)
	nodes, err := a.Store().ListNodes(t.Context())
	require.NoError(t, err)
	for _, n := range nodes {
		require.Equal(t, store.NodeActive, n.State, n.Name)
		require.False(t, n.Cordoned, n.Name)
		require.Equal(t, proof.Version, n.PeerProof, n.Name)
	}
	close(a.gate.open)
}

// A rotation while nodes work leaves them reached, and their work where it is.
func TestARotationUnderALiveCluster(t *testing.T) {
	t.Parallel()
	a, b := acquaint(t)
	id := a.works("a")
	incarnations := []messages.Incarnation{a.Incarnation(), b.Incarnation()}
	secrets := a.Adapter().(store.ClusterSecrets)
	for _, overlap := range []time.Duration{time.Hour, 0} {
		number, err := secrets.RotateClusterSecret(t.Context(), overlap)
		require.NoError(t, err)
		known, err := secrets.ClusterSecrets(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, known[0].By, "the role that rotated it")
		for _, n := range []*acquainted{a, b} {
			n.says(fmt.Sprintf("number=%d by=%s", number, known[0].By))
			n.reaches("1 of 1 reached")
		}
	}
	require.NoError(t, b.CordonNode(t.Context(), "a", true), "they steer each other")
	close(a.gate.open)
	require.Equal(t, messages.Completed, a.await(id).Status)
	require.Equal(t, incarnations, []messages.Incarnation{a.Incarnation(), b.Incarnation()})
}

// peerOf is where a node's peers reach it.
func peerOf(n *acquainted) string {
	n.t.Helper()
	address, _ := n.Node.PeerAddress()
	return address
}
