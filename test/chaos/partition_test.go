package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
)

// cuts are the ways to cut one node off, to kill it or to freeze it, and to undo that. The reduced suite has the first ones.
// A node that cannot survive a cut is cut off until the others have declared it dead.
var cuts = []fault{
	{"store cut off", fatal(func(f *full, n *node) { n.host.Cut(f.net.Outside(storeSide)) })},
	{"all peers cut off", harmless(func(f *full, n *node, _ *rand.Rand) { n.host.Cut(addresses(f.others(n)...)...) })},
	{"store not heard", fatal(func(f *full, n *node) { n.host.Deafen(f.net.Outside(storeSide)) })},
	{"broker cut off", harmless(func(f *full, n *node, _ *rand.Rand) { n.host.Cut(f.net.Outside(brokerSide)) })},
	{"unplugged", fatal(func(_ *full, n *node) { n.host.Unplug() })},
	{"one peer not reached", harmless(func(f *full, n *node, r *rand.Rand) { n.host.Mute(f.other(n, r).host.Addr) })},
	{"store not reached", fatal(func(f *full, n *node) { n.host.Mute(f.net.Outside(storeSide)) })},
	{"store and all peers cut off", fatal(func(f *full, n *node) {
		n.host.Cut(append(addresses(f.others(n)...), f.net.Outside(storeSide))...)
	})},
	{"store cut off, peers not heard", fatal(func(f *full, n *node) {
		n.host.Cut(f.net.Outside(storeSide))
		n.host.Deafen(addresses(f.others(n)...)...)
	})},
	{"one peer cut off", harmless(func(f *full, n *node, r *rand.Rand) { n.host.Cut(f.other(n, r).host.Addr) })},
	{"broker not heard", harmless(func(f *full, n *node, _ *rand.Rand) { n.host.Deafen(f.net.Outside(brokerSide)) })},
	{"broker not reached", harmless(func(f *full, n *node, _ *rand.Rand) { n.host.Mute(f.net.Outside(brokerSide)) })},
	{"node killed", killOne},
	freeze,
	{"node stopped and started", restartOne},
}

// fatalCuts is how many of them begin with a run on the node, which is then repeated elsewhere.
const fatalCuts = 6

// reducedCuts is how many of them the reduced suite has.
const reducedCuts = 6

func TestPartitions(t *testing.T) {
	t.Parallel()
	partitions(t, storm{executions: 900, injections: reducedCuts, sessions: 16, callers: 24, stretch: 8})
}

func TestWholePartitions(t *testing.T) {
	wholeOnly(t)
	partitions(t, storm{executions: 15_000, injections: 3 * len(cuts), sessions: 64, callers: 32, stretch: 8})
}

// partitions cuts off one of three nodes under load, in each way, in the order of the seed.
func partitions(t *testing.T, s storm) {
	random := rand.New(rand.NewPCG(seed(t), 6))
	f := newSeparateHosts(t, "TROUPE_EXECUTOR_CLAIM_TIMEOUT=3")
	f.start()
	c := f.caller()
	f.calls = c
	plan := s.plan(random)
	for _, w := range plan { // a message may expire, because its TTL is the timeout of its run
		mayExpire(w)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(s.executions)*60*time.Millisecond)
	defer cancel()
	var finished, gate atomic.Int64
	load := startGated(ctx, c, s, plan, random.Uint64(), &finished, &gate)
	f.injectAll(ctx, s, s.order(cuts, random), random, &finished, &gate)
	f.ended(load)
	f.nodes[0].settled(backTime)
	f.agree()
	h := f.history(c)
	f.nodes[0].verdict(h)
	f.report(c, h)
	gaps := chaos.Gaps(h)
	t.Logf("%d attempts followed another of their execution, the soonest %s after its last sign, p50 %s", len(gaps), quantile(gaps, 0), quantile(gaps, 0.5))
	require.GreaterOrEqual(t, len(gaps), s.injections*fatalCuts/len(cuts), "a cut met no run that was repeated")
}

// other is a node of the fleet except n.
func (f *full) other(n *node, random *rand.Rand) *node {
	rest := f.others(n)
	return rest[random.IntN(len(rest))]
}

// fatal cuts one node off until the others have declared it dead, and up to 2 s longer. Then it restores the network. The node
// must come back as another incarnation by itself.
func fatal(cut func(*full, *node)) func(*full, *rand.Rand) {
	return func(f *full, random *rand.Rand) {
		n := f.any(random)
		other := f.other(n, random)
		before := other.incarnation(n.name).Incarnation
		f.occupy(f.calls, n, fmt.Sprintf("cut%d", len(f.taken)))
		f.take(n)
		cut(f, n)
		other.eventually(backTime, "node "+n.name+", which is cut off, is declared dead", func(context.Context) bool {
			now := other.incarnation(n.name)
			return now.Incarnation == before && now.State == store.NodeDead
		})
		moment(random, 2*time.Second)
		n.host.Heal()
		other.eventually(backTime, "node "+n.name+", which was cut off, is back as another incarnation", func(context.Context) bool {
			now := other.incarnation(n.name)
			return now.Incarnation != before && now.State == store.NodeActive
		})
	}
}

// harmless cuts one node off from something that it can survive without, one time in three for longer than a lease. The node must
// keep its incarnation.
func harmless(cut func(*full, *node, *rand.Rand)) func(*full, *rand.Rand) {
	return func(f *full, random *rand.Rand) {
		n := f.any(random)
		before := n.incarnation(n.name).Incarnation
		cut(f, n, random)
		time.Sleep(outage(random))
		n.host.Heal()
		now := n.incarnation(n.name)
		require.Equal(f.t, before, now.Incarnation, "node %s did not live through it", n.name)
		require.Equal(f.t, store.NodeActive, now.State, "node %s", n.name)
	}
}

// restartOne stops a node in order and starts it again.
func restartOne(f *full, random *rand.Rand) {
	n := f.any(random)
	n.stop()
	n.start()
}

// agree waits until all nodes report the same nodes, each is ready and trusts its peers, and no message is left on a queue. No
// operator helps.
func (f *full) agree() {
	f.t.Helper()
	f.well()
	var why string
	f.nodes[0].eventually(backTime, "all nodes agree", func(ctx context.Context) bool {
		why = f.disagreement(ctx)
		if ctx.Err() != nil {
			f.t.Errorf("the nodes do not agree: %s", why)
		}
		return why == ""
	})
}

// disagreement says what is still wrong in the fleet; empty: nothing.
func (f *full) disagreement(ctx context.Context) string {
	var first string
	for _, n := range f.nodes {
		var list api.NodeList
		if err := n.client.Load().Get(ctx, "/api/v1/nodes", &list); err != nil {
			return err.Error()
		}
		states := ""
		for _, known := range list.Nodes {
			if known.State != store.NodeDead {
				states += fmt.Sprintf("%s %s %s; ", known.Name, known.Incarnation, known.State)
			}
		}
		if first == "" {
			first = states
		}
		if states != first || strings.Count(states, string(store.NodeActive)) != len(f.nodes) {
			return fmt.Sprintf("%s says %s, %s says %s", f.nodes[0].name, first, n.name, states)
		}
		r, err := n.readiness(ctx)
		if err != nil || !r.Ready {
			return fmt.Sprintf("%s is not ready: %v %v", n.name, r.WaitsFor, err)
		}
		for _, note := range r.Notes {
			if strings.HasPrefix(note, "peers:") || strings.HasPrefix(note, "membership:") {
				return n.name + " says " + note
			}
		}
	}
	return f.leftOnQueues()
}

// leftOnQueues names the messages on the queues of the fleet and of its live nodes; empty: there are none. Messages on a dead
// node's queues expire there, and the queues then too.
func (f *full) leftOnQueues() (left string) {
	f.t.Helper()
	if f.ownRabbit == nil {
		return "" // other tests use this server
	}
	var list api.NodeList
	f.nodes[0].get("/api/v1/nodes", &list)
	out, err := f.ownRabbit.Ctl("-q", "list_queues", "--no-table-headers", "name", "messages")
	require.NoError(f.t, err)
	for line := range strings.Lines(out) {
		var name string
		var count int
		if n, _ := fmt.Sscan(line, &name, &count); n == 2 && count > 0 && !ofTheDead(name, list.Nodes) {
			left += fmt.Sprintf("%d messages on %s; ", count, name)
		}
	}
	return left
}

// ofTheDead reports whether a queue belongs to a dead incarnation.
func ofTheDead(queue string, nodes []view.Node) bool {
	for _, n := range nodes {
		if n.State == store.NodeDead && strings.Contains(queue, n.Incarnation.String()) {
			return true
		}
	}
	return false
}
