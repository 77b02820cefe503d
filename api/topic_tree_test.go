package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// troop is a registry whose actors a test changes.
type troop struct {
	mu    sync.Mutex
	infos []actors.Info
}

func (r *troop) change(change func(infos []actors.Info) []actors.Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.infos = change(r.infos)
}

func (r *troop) Snapshot() []actors.Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(slices.Values(r.infos), func(a, b actors.Info) int { return strings.Compare(a.ID, b.ID) })
}
func (r *troop) Get(string) (actors.Info, bool)        { return actors.Info{}, false }
func (r *troop) Failure(string) (actors.Failure, bool) { return actors.Failure{}, false }
func (r *troop) DeadLetters() map[string]int64         { return map[string]int64{"*x.Y": 3} }

func ofPool(slot, state string) actors.Info {
	return actors.Info{ID: "troupe/pools/go/" + slot, Parent: "troupe/pools/go", Kind: "worker", State: state, Since: time.Unix(1, 5), Handled: 7}
}

func newTroop() (*troop, debug.Config) {
	r := &troop{infos: []actors.Info{
		{ID: "troupe", Kind: "root"}, {ID: "troupe/pools", Parent: "troupe", Kind: "pools"}, {ID: "troupe/pools/go", Parent: "troupe/pools", Kind: "pool"},
		ofPool("0.1", "ready"), ofPool("1.1", "ready"), {ID: "stray", Parent: "gone", Kind: "worker"},
	}}
	return r, debug.Config{Node: "a", Source: r}
}

// forestOf puts the entries of the topic together as the documentation says, and sorts the actors.
func forestOf(t *testing.T, entries []live.Entry) *debug.Forest {
	t.Helper()
	forest, of := &debug.Forest{}, map[string][]*debug.Branch{}
	for _, e := range entries {
		if e.Key == "at" {
			require.NoError(t, json.Unmarshal(e.Value, &forest.At))
			continue
		}
		words := strings.SplitN(e.Key, "/", 3)
		require.Equal(t, "nodes", words[0])
		if len(words) == 2 {
			var p debug.Part
			require.NoError(t, json.Unmarshal(e.Value, &p))
			require.Equal(t, p.Incarnation.String(), words[1])
			forest.Nodes = append(forest.Nodes, p)
			continue
		}
		var b debug.Branch
		require.NoError(t, json.Unmarshal(e.Value, &b))
		require.Equal(t, b.ID, words[2])
		of[words[1]] = append(of[words[1]], &b)
	}
	for i := range forest.Nodes {
		tree, all := forest.Nodes[i].Tree, of[forest.Nodes[i].Incarnation.String()]
		slices.SortFunc(all, func(a, b *debug.Branch) int { return debug.CompareIDs(a.ID, b.ID) })
		for _, b := range all {
			above := slices.IndexFunc(all, func(other *debug.Branch) bool { return other.ID == b.Parent })
			if above < 0 {
				tree.Roots = append(tree.Roots, b)
			} else {
				all[above].Children = append(all[above].Children, b)
			}
		}
	}
	return forest
}

// timeless leaves out of a forest what changes by itself, and sorts its actors.
func timeless(f *debug.Forest) *debug.Forest {
	var walk func([]*debug.Branch)
	walk = func(branches []*debug.Branch) {
		slices.SortFunc(branches, func(a, b *debug.Branch) int { return debug.CompareIDs(a.ID, b.ID) })
		for _, b := range branches {
			b.Handled = 0
			walk(b.Children)
		}
	}
	f.At = time.Time{}
	for i := range f.Nodes {
		p := &f.Nodes[i]
		p.SeenAt, p.Tree.At = time.Time{}, time.Time{}
		walk(p.Tree.Roots)
	}
	return f
}

// A snapshot of the trees and the differences behind it are what the endpoint answers.
func TestTheFollowedTreeIsTheEndpoints(t *testing.T) {
	t.Parallel()
	source, shown := newTroop()
	hubs := hub.New(hub.Config{ID: "i"})
	h := New(Config{Backend: newBackend(t), Hub: hubs, Debug: debug.Actors(shown), Tree: shown.Follow})
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		written := flowing(t, h, ctx, "tree:node=a,tree")
		var state []live.Entry
		had, events := 0, 0
		last := func() string {
			time.Sleep(treeTick)
			synctest.Wait()
			text := written()[had:]
			had += len(text)
			for line := range strings.Lines(text) {
				if data, is := strings.CutPrefix(line, "data: "); is && strings.Contains(data, `"topic":"tree",`) {
					shownBy(t, &state, sent{data: data})
					events++
				}
			}
			return text
		}
		same := func() {
			t.Helper()
			answer := read[debug.Forest](t, ask(t, h, http.MethodGet, "/debug/actors?cluster=1&children=1000", ""), http.StatusOK)
			require.Equal(t, timeless(&answer), timeless(forestOf(t, state)))
		}
		require.Contains(t, last(), `"topic":"tree:node=a"`, "one node")
		same()
		source.change(func(infos []actors.Info) []actors.Info {
			infos[3].State, infos[3].Execution = "busy", messages.NewExecutionID()
			infos[4].Handled++
			return infos
		})
		text := last()
		require.Contains(t, text, `troupe/pools/go/0.1`)
		require.NotContains(t, text, `troupe/pools/go/1.1`, "it has only handled messages")
		same()
		source.change(func(infos []actors.Info) []actors.Info {
			return append(slices.Delete(infos, 3, 4), ofPool("0.2", "starting"), ofPool("10.1", "ready"))
		})
		text = last()
		require.Contains(t, text, `"gone":["nodes/`)
		require.NotContains(t, text, `"keys":`)
		same()
		require.GreaterOrEqual(t, events, 3)
		require.LessOrEqual(t, events, 4, "it is read every two seconds")
		leave()
		synctest.Wait()
		hubs.Close()
		synctest.Wait()
	})
}

// Who may follow the trees is who may ask for them, and so it is with every topic that is the answer of a route.
func TestWhoMayFollowIsWhoMayAsk(t *testing.T) {
	t.Parallel()
	scopes := map[string]Scope{}
	for _, rt := range routes() {
		scopes[rt.method+" "+rt.path] = rt.scope
	}
	for _, k := range topicKinds() {
		if k.path != "" {
			require.Equal(t, liveRoute().scope, scopes["GET "+k.path], k.name)
		}
	}
	_, shown := newTroop()
	h := New(Config{Backend: newBackend(t), Debug: debug.Actors(shown), Tree: shown.Follow, Access: withTokens(t, []Token{
		{Name: "sender", Secret: submitToken, Scopes: []Scope{ScopeSubmit}},
	})})
	for _, path := range []string{"/debug/actors?cluster=1", topicsQuery("tree"), topicsQuery("tree:node=a")} {
		refused(t, ask(t, h, http.MethodGet, path, "", "Authorization", "Bearer "+submitToken), http.StatusForbidden, messages.CodeForbidden, `lacks the scope "read"`)
	}
	none := New(Config{Backend: newBackend(t)})
	refused(t, ask(t, none, http.MethodGet, topicsQuery("tree"), ""), http.StatusUnprocessableEntity, messages.CodeInvalidTopic, `topic "tree": this node has no actor tree`)
	refused(t, ask(t, h, http.MethodGet, "/debug/actors?kind=worker", ""), http.StatusUnauthorized, messages.CodeUnauthorized, "token")
	for topic, want := range map[string]string{"tree:cluster=1": `unknown query parameter "cluster"`, "tree:children=5": "children", "tree:kind=worker": "kind"} {
		with := New(Config{Backend: newBackend(t), Tree: shown.Follow})
		refused(t, ask(t, with, http.MethodGet, topicsQuery(topic), ""), http.StatusUnprocessableEntity, messages.CodeInvalidTopic, want)
	}
}

// A node that is not there is a problem of the topic.
func TestTheTreeOfANodeThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, shown := newTroop()
	h := New(Config{Backend: newBackend(t), Tree: shown.Follow})
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		written := flowing(t, h, ctx, "tree:node=b")
		synctest.Wait()
		require.Contains(t, written(), `{"topic":"tree:node=b","problem":{"code":"not_found","message":"no live node b is known here; live are a"}`)
		leave()
		synctest.Wait()
	})
}
