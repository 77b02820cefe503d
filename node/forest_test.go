package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// shown is within what a change on one node must show on any other.
const shown = 2 * time.Second

// treeNode starts a node with one go worker in the pool lab, whose peers reach it where it advertises.
func treeNode(t *testing.T, name, store string, reached peers.Settings, workers int) *acquainted {
	t.Helper()
	n := &acquainted{gate: newGate()}
	keeper, log := keep(t, func(c *node.Config) {
		paired(c, store)
		c.Name, c.Peers = name, reached
		c.Lease, c.BeatEvery = peersLease, peersLease/12
		c.HeartbeatInterval = 2 * time.Second // it writes a row for each of many workers
		c.Workers = map[messages.Runtime]int{"go": workers}
		c.Handlers = map[string]messages.Handler{"lab.work": n.gate.run}
	}, packOf(t, "lab", "", files{
		"actions/work.yaml": "name: work\nruntime: go\nentrypoint: lab.work\nidempotent: true\non_no_worker: wait\n",
	}))
	n.keeper, n.addr, n.kit = keeper, keeper.Addr(), &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t, log: log}
	return n
}

// actors asks the node's debug endpoint, and returns the status. An answer of another status than that is left alone.
func (n *acquainted) actors(path string, status int, v any) int {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.addr+"/debug/actors"+path, nil)
	require.NoError(n.t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(n.t, err)
	defer response.Body.Close()
	if response.StatusCode == status {
		require.NoError(n.t, json.NewDecoder(response.Body).Decode(v))
	}
	return response.StatusCode
}

// refused asks for what is refused, and returns why.
func (n *acquainted) refused(path string, status int) string {
	n.t.Helper()
	var body struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	n.until(path+" is refused", func() bool { return n.actors(path, status, &body) == status })
	return body.Error.Code + ": " + body.Error.Message
}

// forest is what the node shows of all, by name.
func (n *acquainted) forest() map[string]debug.Part {
	n.t.Helper()
	var f debug.Forest
	require.Equal(n.t, http.StatusOK, n.actors("?cluster=1", http.StatusOK, &f))
	parts := map[string]debug.Part{}
	for _, p := range f.Nodes {
		parts[p.Node] = p
	}
	require.Len(n.t, parts, len(f.Nodes))
	return parts
}

// ids are the ids of all actors of a tree.
func idsIn(t *debug.Tree) map[string]bool {
	found := map[string]bool{}
	var walk func([]*debug.Branch)
	walk = func(branches []*debug.Branch) {
		for _, b := range branches {
			found[b.ID] = true
			walk(b.Children)
		}
	}
	if t != nil {
		walk(t.Roots)
	}
	return found
}

// sees waits until the node shows an actor of another, and returns how long that took.
func (n *acquainted) sees(other, id string) time.Duration {
	n.t.Helper()
	begun := time.Now()
	n.until(other+" shows "+id, func() bool { return idsIn(n.forest()[other].Tree)[id] })
	return time.Since(begun)
}

// Any node shows the actors of all: a worker that is killed on one shows its next generation on the other within two
// seconds; an actor of the other is shown with its history; and what cannot be shown is refused with the reason.
func TestAnyNodeShowsTheTreeOfAll(t *testing.T) {
	t.Parallel()
	servers.Unraced(t)
	store, listen := database(t), peers.Settings{Listen: "127.0.0.1:0"}
	a, b := treeNode(t, "a", store, listen, 2), treeNode(t, "b", store, listen, 2)
	a.sees("b", "troupe/pools/go/1.1")
	b.sees("a", "troupe/pools/go/1.1")
	var parts map[string]debug.Part
	a.until("both are shown as they are", func() bool {
		parts = a.forest()
		return len(parts) == 2 && parts["b"].Error == "" && *parts["b"].AgeMS < shown.Milliseconds()
	})
	for name, n := range map[string]*acquainted{"a": a, "b": b} {
		p := parts[name]
		require.Equal(t, n.Incarnation(), p.Incarnation)
		require.Equal(t, "active", p.State)
		require.Equal(t, n.addr, p.Address)
		require.Equal(t, p.Tree.Count, len(idsIn(p.Tree)), "the tree is whole")
		require.Zero(t, p.Tree.Shown)
	}
	require.True(t, parts["a"].Own)
	require.Zero(t, *parts["a"].AgeMS)

	fastest := time.Hour // a machine that other tests keep busy adds to each; debug.TestAChangeShowsInTime bounds the worst
	for generation, id := range []string{"0.2", "0.3", "0.4"} {
		b.ready("b/go/0", messages.Generation(generation))
		require.NoError(t, b.KillWorker(t.Context(), "b/go/0"))
		took := a.sees("b", "troupe/pools/go/"+id)
		t.Logf("worker %s of b shows on a %s after the kill", id, took.Round(time.Millisecond))
		fastest = min(fastest, took)
	}
	require.Less(t, fastest, shown)

	for _, name := range []string{"b", b.Incarnation().String(), "a"} {
		var d debug.Detail
		a.until("the actor of "+name+" is shown", func() bool {
			return a.actors("/troupe/pools/go/1.1?node="+name, http.StatusOK, &d) == http.StatusOK
		})
		require.True(t, d.Live)
		require.Equal(t, name == "a", d.Node == "a")
		require.Equal(t, "init_complete", d.History.([]any)[0].(map[string]any)["reason"])
	}
	var part debug.Part
	require.Equal(t, http.StatusOK, a.actors("?node=b&children=1", http.StatusOK, &part))
	require.Equal(t, "b", part.Node)
	require.Less(t, part.Tree.Shown, part.Tree.Count)
	require.Contains(t, a.refused("?node=c", http.StatusNotFound), "not_found: no live node c is known here; live are a, b")
	require.Contains(t, a.refused("/troupe?node=c", http.StatusNotFound), "not_found: no live node c is known here")
	require.Contains(t, a.refused("/troupe/nobody?node=b", http.StatusNotFound), "not_found: node b: actor troupe/nobody is not alive here")
	require.Contains(t, a.refused("?node=b&cluster=1", http.StatusBadRequest), "exclude each other")
	require.Contains(t, a.refused("?children=x", http.StatusBadRequest), "children must be a whole number")
}

// ready waits until a worker is ready, of a generation above the given one.
func (n *acquainted) ready(id messages.WorkerID, above messages.Generation) {
	n.t.Helper()
	n.until(string(id)+" is ready", func() bool {
		list, err := n.Workers(n.t.Context(), "go")
		require.NoError(n.t, err)
		i := slices.IndexFunc(list, func(w view.Worker) bool { return w.ID == id })
		return i >= 0 && list[i].State == "ready" && list[i].Generation > above
	})
}

// A node that lives and cannot be reached is shown as it was, with the age of that and the reason, and comes back by
// itself; whoever asks about one of its actors is told to call it directly. One that has never been reached is named.
func TestANodeThatCannotBeReachedIsShownAsItWas(t *testing.T) {
	t.Parallel()
	servers.Unraced(t)
	store := database(t)
	listen := servers.OwnAddress()
	way := proxy.New(t, listen)
	a := treeNode(t, "a", store, peers.Settings{Listen: "127.0.0.1:0"}, 1)
	b := treeNode(t, "b", store, peers.Settings{Listen: listen, Advertise: way.Addr()}, 1)
	deaf := treeNode(t, "deaf", store, peers.Settings{}, 1)
	a.sees("b", "troupe/pools/go/0.1")
	a.until("deaf is known", func() bool { return a.forest()["deaf"].Node != "" })
	require.Contains(t, a.forest()["deaf"].Error, "it listens for no peers that this node can reach")
	require.Contains(t, a.refused("?node=deaf", http.StatusServiceUnavailable), "node_unreachable: node deaf cannot be asked")
	for _, p := range deaf.forest() {
		require.Equal(t, p.Own, p.Error == "")
		require.True(t, p.Own || strings.Contains(p.Error, "this node listens for no peers"))
	}

	way.Blackhole()
	begun := time.Now()
	a.until("the age of b grows", func() bool {
		p := a.forest()["b"]
		return p.Error != "" && *p.AgeMS > shown.Milliseconds() && idsIn(p.Tree)["troupe/pools/go/0.1"]
	})
	least := time.Since(begun)
	p := a.forest()["b"]
	require.False(t, p.SeenAt.After(begun), "nothing was seen since")
	require.GreaterOrEqual(t, *p.AgeMS, least.Milliseconds())
	require.Contains(t, a.refused("/troupe?node=b", http.StatusServiceUnavailable),
		"node_unreachable: node b cannot be asked: it does not answer; call it directly at "+b.addr)
	way.Heal()
	a.until("b is reached again", func() bool {
		p := a.forest()["b"]
		return p.Error == "" && *p.AgeMS < shown.Milliseconds()
	})

	require.NoError(t, b.keeper.Stop(t.Context()))
	a.until("b is gone", func() bool { _, there := a.forest()["b"]; return !there })
}

// A node streams the actors that it answers with.
func TestTheTreeOfANodeIsFollowed(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.Listen = "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": ""}))
	k.ready("go", 0, 0)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+k.Addr()+"/api/v1/stream?topics=tree", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is && strings.Contains(data, `"topic":"tree"`) {
			require.Contains(t, data, `["nodes/`+k.Incarnation().String()+`",{"node":"test",`)
			require.Contains(t, data, `["nodes/`+k.Incarnation().String()+`/troupe/pools/go/0.1",{"id":"troupe/pools/go/0.1",`)
			return
		}
	}
	require.Fail(t, "no tree came", "%v", lines.Err())
}

// A tree that is larger than what fits into one envelope arrives whole.
func TestALargeTreeTravelsInPages(t *testing.T) {
	t.Parallel()
	servers.Unraced(t)
	const workers = 1_500
	store, listen := database(t), peers.Settings{Listen: "127.0.0.1:0"}
	a, b := treeNode(t, "a", store, listen, 1), treeNode(t, "b", store, listen, workers)
	b.until("all workers are ready", func() bool {
		info, _ := b.Registry().Get("troupe/pools/go")
		return b.Registry().Len() > workers && info.ID != ""
	})
	var p debug.Part
	a.until("the whole tree is there", func() bool {
		p = debug.Part{}
		return a.actors("?node=b", http.StatusOK, &p) == http.StatusOK && p.Tree.Count > workers && p.Tree.Shown == 0
	})
	require.Len(t, idsIn(p.Tree), p.Tree.Count)
	begun := time.Now()
	require.Equal(t, http.StatusOK, a.actors("?node=b&"+url.Values{"children": {"16"}}.Encode(), http.StatusOK, &p))
	t.Logf("%d actors of another node in %s, at an age of %d ms", p.Tree.Count, time.Since(begun).Round(time.Millisecond), *p.AgeMS)
}
