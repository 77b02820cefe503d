package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// fleet is a cluster of nodes that answer after a time, or not at all.
type fleet struct {
	own   messages.Incarnation
	mu    sync.Mutex
	nodes []*peer
}

type peer struct {
	Member
	shows  Config
	takes  time.Duration
	silent atomic.Bool
	fails  error
	asked  atomic.Int64
	now    atomic.Int64 // questions under way
}

func newFleet(names ...string) *fleet {
	f := &fleet{}
	for i, name := range names {
		m := Member{Incarnation: messages.NewIncarnation(), Name: name, State: "active", Address: name + ":7070", Started: time.Unix(int64(i), 0)}
		f.nodes = append(f.nodes, &peer{Member: m, shows: crowd(i), takes: 10 * time.Millisecond})
	}
	f.own = f.nodes[0].Incarnation
	return f
}

func (f *fleet) members(context.Context) (list []Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		list = append(list, n.Member)
	}
	return list
}

func (f *fleet) ask(ctx context.Context, to messages.Incarnation, q wire.Inspect) (wire.InspectResult, error) {
	for _, n := range f.nodes {
		if n.Incarnation != to {
			continue
		}
		n.asked.Add(1)
		if n.now.Add(1) > 1 {
			panic("a node is asked twice at a time")
		}
		defer n.now.Add(-1)
		wait := n.takes
		if n.silent.Load() {
			wait = time.Hour
		}
		select {
		case <-time.After(wait):
			return NewInspector(n.shows).Inspect(ctx, q), n.fails
		case <-ctx.Done():
			return wire.InspectResult{}, errors.New("it does not answer")
		}
	}
	return wire.InspectResult{}, errors.New("it is not known")
}

// config is what the first node of the fleet shows.
func (f *fleet) config(t *testing.T) *Config {
	cfg := f.nodes[0].shows
	cfg.Node = f.nodes[0].Name
	cfg.Cluster = NewCluster(ClusterConfig{Own: f.own, Members: f.members, Ask: f.ask})
	t.Cleanup(cfg.Cluster.Close)
	return &cfg
}

// view looks at all nodes, and says how long that took.
func (cfg *Config) view(t *testing.T) ([]Part, time.Duration) {
	begun := time.Now()
	forest := cfg.Cluster.view(t.Context(), cfg, filter{})
	return forest.Nodes, time.Since(begun)
}

func TestAllNodesAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("c", "b", "a")
		parts, took := f.config(t).view(t)
		require.Equal(t, 10*time.Millisecond, took, "they are asked at once")
		for i, name := range []string{"c", "a", "b"} {
			require.Equal(t, name, parts[i].Node, "this node comes first")
			require.Equal(t, i == 0, parts[i].Own)
			require.Empty(t, parts[i].Error)
			require.Equal(t, name+":7070", parts[i].Address)
		}
		require.Zero(t, *parts[0].AgeMS)
		require.Equal(t, int64(10), *parts[1].AgeMS)
		require.Equal(t, 6, parts[1].Tree.Count)
	})
}

// However many look, a node is asked once at a time, and not again while its answer is fresh.
func TestManyViewersAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b")
		cfg := f.config(t)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { cfg.view(t) })
		}
		all.Wait()
		require.EqualValues(t, 1, f.nodes[1].asked.Load())
		time.Sleep(freshTime / 2)
		parts, took := cfg.view(t)
		require.Zero(t, took)
		require.Equal(t, (freshTime/2 + 10*time.Millisecond).Milliseconds(), *parts[1].AgeMS)
		time.Sleep(freshTime)
		parts, _ = cfg.view(t)
		require.EqualValues(t, 2, f.nodes[1].asked.Load())
		require.EqualValues(t, 10, *parts[1].AgeMS)
	})
}

// A node that does not answer is waited for once, costs later viewers little, is shown as it was, and comes back by itself.
func TestASilentNodeIsShownAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b", "c")
		cfg := f.config(t)
		cfg.view(t)
		seen := time.Now()
		f.nodes[1].silent.Store(true)
		time.Sleep(time.Second)
		_, took := cfg.view(t)
		require.Equal(t, waitTime, took)
		_, took = cfg.view(t)
		require.Equal(t, failingTime+10*time.Millisecond, took, "only the first viewer waits so long")
		time.Sleep(3 * time.Second)
		parts, took := cfg.view(t)
		require.Equal(t, failingTime+10*time.Millisecond, took)
		require.Equal(t, "it does not answer", parts[1].Error)
		require.Equal(t, time.Since(seen)+10*time.Millisecond, time.Duration(*parts[1].AgeMS)*time.Millisecond)
		require.NotNil(t, parts[1].Tree)
		require.LessOrEqual(t, *parts[2].AgeMS, (failingTime + 10*time.Millisecond).Milliseconds(), "the others are fresh")
		f.nodes[1].silent.Store(false)
		time.Sleep(2 * askTime)
		parts, _ = cfg.view(t)
		require.Empty(t, parts[1].Error)
		require.Less(t, *parts[1].AgeMS, failingTime.Milliseconds())
	})
}

// A large node on a busy machine, whose pages come slowly, is shown in the end, and marked as late until then.
func TestASlowNodeIsShownInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b")
		f.nodes[1].shows, f.nodes[1].takes = crowd(3_000), 1500*time.Millisecond
		cfg := f.config(t)
		parts, took := cfg.view(t)
		require.Equal(t, waitTime, took)
		require.Equal(t, "it has not answered yet", parts[1].Error)
		time.Sleep(5 * time.Second)
		parts, _ = cfg.view(t)
		require.Empty(t, parts[1].Error)
		require.Equal(t, 3_004, parts[1].Tree.Count)
		require.Zero(t, parts[1].Tree.Shown)
	})
}

// A change on one node shows on another within two seconds to whoever looks once a second, also while a third is silent.
func TestAChangeShowsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b", "c")
		cfg := f.config(t)
		f.nodes[2].silent.Store(true)
		cfg.view(t)
		worst := time.Duration(0)
		for round := range 40 {
			time.Sleep(time.Duration(37*round) * time.Millisecond)
			f.mu.Lock()
			f.nodes[1].shows = crowd(10 + round)
			f.mu.Unlock()
			changed := time.Now()
			for {
				parts, took := cfg.view(t)
				if parts[1].Tree.Count == 14+round {
					break
				}
				time.Sleep(time.Second - took)
			}
			worst = max(worst, time.Since(changed))
		}
		t.Logf("at most %s", worst)
		require.Less(t, worst, 2*time.Second)
	})
}

func TestWhatHasEndedIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b", "c")
		cfg := f.config(t)
		cfg.view(t)
		require.Len(t, cfg.Cluster.known, 2)
		f.mu.Lock()
		f.nodes = f.nodes[:2]
		f.mu.Unlock()
		time.Sleep(time.Second)
		parts, _ := cfg.view(t)
		require.Len(t, parts, 2)
		require.Len(t, cfg.Cluster.known, 1)
	})
}

// So many silent nodes that some do not get their turn hold up neither the viewer nor those that answer, for long.
func TestManySilentNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a"}
		for i := range 3 * asksMax {
			names = append(names, fmt.Sprintf("n%03d", i))
		}
		f := newFleet(names...)
		cfg := f.config(t)
		cfg.view(t)
		for _, n := range f.nodes[2:] {
			n.silent.Store(true)
		}
		time.Sleep(time.Second)
		_, took := cfg.view(t)
		require.LessOrEqual(t, took, waitTime)
		time.Sleep(4 * time.Second)
		parts, took := cfg.view(t)
		require.LessOrEqual(t, took, waitTime)
		require.Empty(t, parts[1].Error)
		require.Less(t, *parts[1].AgeMS, 2*waitTime.Milliseconds())
	})
}

func TestCloseEndsTheQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b")
		f.nodes[1].silent.Store(true)
		cfg := f.config(t)
		go cfg.view(t)
		synctest.Wait()
		begun := time.Now()
		cfg.Cluster.Close()
		require.Zero(t, time.Since(begun))
		parts, _ := cfg.view(t)
		require.NotEmpty(t, parts[1].Error)
		require.EqualValues(t, 1, f.nodes[1].asked.Load())
	})
}

func TestANodeIsFoundByNameOrIncarnation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b", "twin", "twin")
		h := Actors(*f.config(t))
		ask := func(path string) (int, string) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
			return w.Code, w.Body.String()
		}
		for _, name := range []string{"a", "b", f.nodes[3].Incarnation.String(), "twin@" + f.nodes[2].Incarnation.Short()} {
			status, body := ask("/debug/actors?node=" + name)
			require.Equal(t, 200, status, body)
			require.Contains(t, body, `"age_ms":`)
			status, body = ask("/debug/actors/troupe?node=" + name)
			require.Equal(t, 200, status, body)
			require.Contains(t, body, `"incarnation":"`)
		}
		f.nodes[1].fails = errors.New("it runs another release")
		time.Sleep(time.Second)
		for path, want := range map[string]string{
			"?node=x":           "404 not_found no live node x is known here; live are a, b, twin, twin",
			"?node=twin":        fmt.Sprintf("409 ambiguous_node 2 live nodes are called twin; name one by its incarnation: %s, %s", f.nodes[2].Incarnation, f.nodes[3].Incarnation),
			"/troupe?node=b":    "503 node_unreachable node b cannot be asked: it runs another release; call it directly at b:7070",
			"/nobody?node=a":    "404 not_found actor nobody is not alive here",
			"?cluster=maybe":    `400 invalid_request cluster must be 1 or 0`,
			"?children=-1":      "400 invalid_request children must be a whole number",
			"?cluster=1&node=a": "400 invalid_request cluster and node exclude each other",
		} {
			status, body := ask("/debug/actors" + path)
			var problem struct {
				Error struct{ Code, Message string }
			}
			require.NoError(t, json.Unmarshal([]byte(body), &problem))
			require.Contains(t, fmt.Sprint(status, " ", problem.Error.Code, " ", problem.Error.Message), want)
		}
		status, body := ask("/debug/actors?node=b")
		require.Equal(t, 200, status)
		require.Contains(t, body, `"error":"it runs another release"`, "what it said last is shown, with the reason")
	})
}
