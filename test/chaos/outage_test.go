package chaos_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
)

// outageTime is how long the store is away for all nodes: three leases.
const outageTime = 12 * time.Second

// outages are the two ways in which the store is away.
var outages = []struct {
	name       string
	begin, end func(*full)
}{
	{"frozen", func(f *full) { require.NoError(f.t, f.ownPostgres.Freeze()) }, func(f *full) { require.NoError(f.t, f.ownPostgres.Thaw()) }},
	{"cut off from all", func(f *full) {
		for _, n := range f.nodes {
			n.host.Cut(f.net.Outside(storeSide))
		}
	}, func(f *full) {
		for _, n := range f.nodes {
			n.host.Heal()
		}
	}},
}

func TestAStoreOutageRepeatsNothing(t *testing.T) {
	t.Parallel()
	storeOutages(t, 1)
}

func TestWholeAStoreOutageRepeatsNothing(t *testing.T) {
	wholeOnly(t)
	storeOutages(t, 20)
}

// storeOutages takes the store away from three live nodes. Afterwards no node has declared another one dead, and no work was
// repeated, not even idempotent work. The two ways take turns; the seed decides the first.
func storeOutages(t *testing.T, rounds int) {
	random := rand.New(rand.NewPCG(seed(t), 8))
	f := newSeparateHosts(t)
	f.start()
	c := f.caller()
	before := f.incarnations()
	first := random.IntN(len(outages))
	for i := range rounds {
		o := outages[(first+i)%len(outages)]
		round := strconv.Itoa(i)
		f.submitAll(c, "chaos.redo", round, 4, outageTime+3*time.Second, messages.Completed)
		f.submitAll(c, "chaos.go_redo", round, 3, outageTime+3*time.Second, messages.Completed)
		f.submitAll(c, "chaos.go_work", round, 2, time.Second, messages.Completed)
		f.nodes[0].eventually(backTime, "the work runs", func(context.Context) bool { return len(f.nodes[0].with("running")) >= 7 })
		moment(random, time.Second)
		o.begin(f)
		time.Sleep(outageTime)
		for _, n := range f.nodes {
			require.True(t, n.logged("store is away"), "node %s has not noticed", n.name)
		}
		o.end(f)
		f.well()
		require.Equal(t, before, f.incarnations(), "incarnations of nodes after the store was %s", o.name)
		f.nodes[0].settled(backTime)
		t.Logf("the store was %s for %s", o.name, outageTime)
	}
	f.agree()
	h := f.history(c)
	f.nodes[0].verdict(h)
	starts := map[messages.ExecutionID]int{}
	for _, effect := range h.Effects {
		if effect.Kind == "start" {
			starts[effect.Execution]++
		}
	}
	for i := range h.Executions {
		e := &h.Executions[i]
		require.Equal(t, 1, starts[e.ID], "starts of %s %s: %v", e.ID, e.Action, e.Events)
		for _, ev := range e.Events {
			require.False(t, ev.Kind == "rescue" && !chaos.NotStarted(ev.Reason), "%s %s was rescued: %v", e.ID, e.Action, e.Events)
		}
	}
}

// incarnations are all incarnations in the store, with their states.
func (f *full) incarnations() map[messages.Incarnation]store.NodeState {
	f.t.Helper()
	var list api.NodeList
	f.nodes[0].get("/api/v1/nodes", &list)
	all := map[messages.Incarnation]store.NodeState{}
	for _, n := range list.Nodes {
		all[n.Incarnation] = n.State
	}
	return all
}
