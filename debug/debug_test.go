package debug

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/actors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a registry at one moment.
type fixed struct {
	infos    []actors.Info
	failures map[string]actors.Failure
}

func (f fixed) Snapshot() []actors.Info {
	infos := slices.Clone(f.infos)
	slices.SortFunc(infos, func(a, b actors.Info) int { return strings.Compare(a.ID, b.ID) })
	return infos
}

func (f fixed) Get(id string) (actors.Info, bool) {
	for _, i := range f.infos {
		if i.ID == id {
			return i, true
		}
	}
	return actors.Info{}, false
}

func (f fixed) Failure(id string) (actors.Failure, bool) {
	failure, ok := f.failures[id]
	return failure, ok
}

func (f fixed) DeadLetters() map[string]int64 { return map[string]int64{"*x.Y": 3} }

var some = fixed{
	infos: []actors.Info{
		{ID: "troupe", Kind: "root"}, {ID: "troupe/pools", Parent: "troupe", Kind: "pools"},
		{ID: "troupe/pools/go/0.1", Parent: "troupe/pools", Kind: "worker", State: "ready", MailboxDepth: 2},
		{ID: "ustray<script>", Parent: "gone", Kind: "worker"},
	},
	failures: map[string]actors.Failure{
		"troupe/pools/go/0.1": {Actor: "troupe/pools/go/0.1", Reason: "panic: x"}, "dead": {Actor: "dead", Reason: "panic: y"},
	},
}

func look[T any](t *testing.T, h http.Handler, path string, status int) T {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.NotContains(t, w.Body.String(), "<script>")
	var v T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}

func TestTree(t *testing.T) {
	t.Parallel()
	h := Actors(Config{Node: "n1", Source: some})
	tree := look[Tree](t, h, "/debug/actors", 200)
	require.Equal(t, "n1", tree.Node)
	require.Equal(t, 4, tree.Count)
	require.Len(t, tree.Roots, 2, "an actor whose parent is not there is shown all the same")
	require.Equal(t, 2, tree.Roots[0].Children[0].Children[0].MailboxDepth)
	require.Equal(t, map[string]int64{"*x.Y": 3}, tree.DeadLetters)
	workers := look[Tree](t, h, "/debug/actors?kind=worker", 200)
	require.Len(t, workers.Roots, 2)
	require.Equal(t, 2, workers.Count)
}

func TestOneActor(t *testing.T) {
	t.Parallel()
	h := Actors(Config{Source: some, History: func(_ context.Context, i actors.Info) (any, error) {
		if i.Kind != "worker" {
			return nil, errors.New("the store is away")
		}
		return []string{"ready"}, nil
	}})
	d := look[Detail](t, h, "/debug/actors/troupe/pools/go/0.1", 200)
	require.True(t, d.Live)
	require.Equal(t, "panic: x", d.Failure.Reason)
	require.Equal(t, []any{"ready"}, d.History)
	pools := look[Detail](t, h, "/debug/actors/troupe%2Fpools", 200)
	require.Equal(t, []string{"troupe/pools/go/0.1"}, pools.Children)
	require.Contains(t, pools.History, "error", "what cannot be read does not hide the rest")
	dead := look[Detail](t, h, "/debug/actors/dead", 200)
	require.False(t, dead.Live)
	require.Equal(t, "panic: y", dead.LastFailure)
	missing := look[map[string]map[string]string](t, New(some), "/debug/actors/%3Cscript%3E", 404)
	require.Equal(t, "not_found", missing["error"]["code"])
}

// Whatever the parents, every actor of an acyclic list is in the tree exactly once.
func TestGrowLosesNobody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "actors")
		infos := make([]actors.Info, n)
		for i := range infos {
			infos[i].ID = string(rune('A' + i))
			infos[i].Parent = string(rune('A' + rapid.IntRange(-1, i).Draw(t, "parent")))
		}
		seen := map[string]int{}
		var count func([]*Branch)
		count = func(branches []*Branch) {
			for _, b := range branches {
				seen[b.ID]++
				count(b.Children)
			}
		}
		count(Grow(infos))
		require.Len(t, seen, n)
		for id, times := range seen {
			require.Equal(t, 1, times, id)
		}
	})
}

func TestProfilerIsLocal(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "nonsense", "example.com:0"} {
		_, _, err := Profiler(address)
		require.ErrorContains(t, err, "profiler address", address)
	}
	server, listener, err := Profiler("127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	for host, status := range map[string]int{"": 200, "evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/debug/pprof/cmdline", nil)
		require.NoError(t, err)
		r.Close = true
		if host != "" {
			r.Host = host
		}
		response, err := (&http.Client{Timeout: 5 * time.Second}).Do(r)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode)
	}
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-done, http.ErrServerClosed)
}

func TestActorsAreOrderedAsPeopleDo(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"p/9.1", "p/10.1"}, {"p/1.2", "p/1.10"}, {"a", "b"}, {"p", "p/0"}, {"p/2", "p/x"}} {
		require.Negative(t, CompareIDs(pair[0], pair[1]), pair)
		require.Positive(t, CompareIDs(pair[1], pair[0]), pair)
	}
	require.Zero(t, CompareIDs("p/10.1", "p/10.1"))
}
