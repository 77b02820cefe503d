package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// crowd is a node with so many idle workers.
func crowd(workers int) Config {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	infos := []actors.Info{
		{ID: "troupe", Kind: "root", Since: at},
		{ID: "troupe/pools", Parent: "troupe", Kind: "pools", Since: at},
		{ID: "troupe/pools/go", Parent: "troupe/pools", Kind: "pool", Since: at},
		{ID: "troupe/recorder", Parent: "troupe", Kind: "recorder", Since: at},
	}
	for i := range workers {
		infos = append(infos, actors.Info{
			ID: fmt.Sprintf("troupe/pools/go/%d.1", i), Parent: "troupe/pools/go", Kind: "worker", State: "ready", Health: "healthy",
			Grade: "healthy", Since: at, Handled: 5,
		})
	}
	slices.SortFunc(infos, func(a, b actors.Info) int { return strings.Compare(a.ID, b.ID) })
	return Config{Node: "n", Source: fixed{infos: infos}}
}

// over is how a node's answers come: through the envelope that carries them.
func over(t testing.TB, i *Inspector, pages *int) asking {
	return func(ctx context.Context, q wire.Inspect) (wire.InspectResult, error) {
		*pages++
		result := i.Inspect(ctx, q)
		for _, body := range []wire.Body{q, result} {
			_, err := wire.ToProto(wire.Envelope{ID: messages.NewExecutionID(), Seq: 1, From: messages.NewIncarnation(), Body: body})
			require.NoError(t, err)
		}
		return result, nil
	}
}

func TestATreeTravelsWhole(t *testing.T) {
	t.Parallel()
	for workers, most := range map[int]int{0: 1, 128: 1, 10_000: 12} {
		cfg, pages := crowd(workers), 0
		r, err := collect(t.Context(), over(t, NewInspector(cfg), &pages), actorsMax)
		require.NoError(t, err)
		require.LessOrEqual(t, pages, most)
		require.Equal(t, workers+4, r.Count)
		require.Equal(t, cfg.list().Actors, r.Actors)
		tree := r.tree(filter{})
		require.Zero(t, tree.Shown)
		require.Len(t, tree.Roots, 1)
	}
}

// Whatever the actors are, what comes over is what the node has, in its order.
func TestNoActorIsLostOnTheWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c](/[a-c0-9.]{1,3}){0,4}`), 0, 60, rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		infos := make([]actors.Info, len(ids))
		for i, id := range ids {
			infos[i] = actors.Info{ID: id, Kind: "k", Why: strings.Repeat("w", rapid.IntRange(0, 20_000).Draw(t, "why"))}
			if at := strings.LastIndexByte(id, '/'); at > 0 {
				infos[i].Parent = id[:at]
			}
		}
		inspector := NewInspector(Config{Node: "n", Source: fixed{infos: infos}})
		r, err := collect(context.Background(), func(ctx context.Context, q wire.Inspect) (wire.InspectResult, error) {
			return inspector.Inspect(ctx, q), nil
		}, actorsMax)
		require.NoError(t, err)
		var got []string
		for _, a := range r.Actors {
			got = append(got, a.ID)
			require.LessOrEqual(t, len(a.Why), textMax)
		}
		slices.SortFunc(ids, orderOf)
		require.Equal(t, ids, append([]string{}, got...))
	})
}

// What does not fit is left out at the lowest level, and counted where it would stand.
func TestATreeThatIsTooLargeSaysSo(t *testing.T) {
	t.Parallel()
	pages := 0
	r, err := collect(t.Context(), over(t, NewInspector(crowd(10_000)), &pages), 500)
	require.NoError(t, err)
	require.Equal(t, 1, pages)
	tree := r.tree(filter{})
	require.Equal(t, 10_004, tree.Count)
	require.Equal(t, len(r.Actors), tree.Shown)
	require.Len(t, tree.Roots[0].Children, 2, "the upper levels are whole")
	pool := tree.Roots[0].Children[0].Children[0]
	require.Equal(t, "troupe/pools/go", pool.ID)
	require.Equal(t, &Hidden{Count: 10_000 - len(pool.Children)}, pool.Hidden)
}

func TestAnswersThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	page := func(next string, ids ...string) wire.InspectResult {
		var r roster
		for _, id := range ids {
			r.Actors = append(r.Actors, item{Info: actors.Info{ID: id}})
		}
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		return wire.InspectResult{View: raw, Next: next}
	}
	for name, c := range map[string]struct {
		answers []wire.InspectResult
		want    string
	}{
		"nothing":     {[]wire.InspectResult{{}}, "not one that this release understands"},
		"no JSON":     {[]wire.InspectResult{{View: []byte("<html>")}}, "not one that this release understands"},
		"refused":     {[]wire.InspectResult{{Refused: "not today"}}, "not today"},
		"disorder":    {[]wire.InspectResult{page("", "b", "a")}, `actor "a" stands after "b"`},
		"no id":       {[]wire.InspectResult{page("", "")}, `actor "" stands after ""`},
		"jump":        {[]wire.InspectResult{page("x", "a")}, `a page that ends at "a" says "x"`},
		"repeated":    {[]wire.InspectResult{page("a", "a"), page("a", "a")}, `actor "a" stands after "a"`},
		"an old node": {[]wire.InspectResult{page("b", "a", "b"), page("b", "a", "b")}, `actor "a" stands after "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := collect(t.Context(), func(context.Context, wire.Inspect) (wire.InspectResult, error) {
				next := c.answers[0]
				c.answers = c.answers[min(1, len(c.answers)-1):]
				return next, nil
			}, actorsMax)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A node that has page after page is not asked for ever.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	asked := 0
	r, err := collect(t.Context(), func(context.Context, wire.Inspect) (wire.InspectResult, error) {
		asked++
		id := fmt.Sprintf("a%06d", asked)
		return wire.InspectResult{View: []byte(`{"count":99,"actors":[{"id":"` + id + `"}]}`), Next: id}, nil
	}, actorsMax)
	require.NoError(t, err)
	require.Equal(t, pagesMax, asked)
	require.Equal(t, pagesMax, r.tree(filter{}).Shown)
}

func TestOneActorOfAnotherNode(t *testing.T) {
	t.Parallel()
	cfg, pages := crowd(12_000), 0
	cfg.History = func(_ context.Context, i actors.Info) (any, error) {
		if i.Kind == "worker" {
			return []string{strings.Repeat("h", wire.PayloadMax)}, nil
		}
		return nil, errors.New("none")
	}
	cfg.Source = fixed{infos: cfg.Source.Snapshot(), failures: map[string]actors.Failure{
		"dead": {Actor: "dead", Reason: "panic: x", Stack: strings.Repeat("s", wire.PayloadMax)},
	}}
	ask := over(t, NewInspector(cfg), &pages)
	one := func(id string) (Detail, string) {
		d, refused, err := askOne(t.Context(), ask, id)
		require.NoError(t, err)
		return d, refused
	}
	root, refused := one("")
	require.Empty(t, refused)
	require.Equal(t, []string{"troupe/pools", "troupe/recorder"}, root.Children)
	require.Equal(t, map[string]any{"error": "the history cannot be read now: none"}, root.History)
	pool, _ := one("troupe/pools/go")
	require.Equal(t, childrenMax, len(pool.Children))
	require.Equal(t, 12_000, pool.ChildrenCount)
	worker, _ := one("troupe/pools/go/7.1")
	require.Equal(t, "ready", worker.State)
	require.Nil(t, worker.History, "what is too large is left out")
	dead, _ := one("dead")
	require.Equal(t, "panic: x", dead.LastFailure)
	require.False(t, dead.Live)
	_, refused = one("nobody")
	require.Equal(t, "actor nobody is not alive here, and no failure of it is remembered", refused)
	result := NewInspector(cfg).Inspect(t.Context(), wire.Inspect{Actor: "troupe/pools", Depth: 1})
	require.Equal(t, 2, strings.Count(string(result.View), `"id"`), "the actor and one level below it")
	require.Contains(t, NewInspector(cfg).Inspect(t.Context(), wire.Inspect{Actor: "x", Depth: 1}).Refused, "actor x is not alive here")
}

// A person who sees some of many sees those first that something is wrong with, and how many others there are.
func TestOfManyChildrenTroubleIsShownFirst(t *testing.T) {
	t.Parallel()
	infos := []actors.Info{{ID: "p", Kind: "pool"}}
	for i := range 20 {
		infos = append(infos, actors.Info{ID: fmt.Sprintf("p/%02d", i), Parent: "p", Kind: "worker", State: []string{"ready", "busy"}[i%2]})
	}
	infos[18].Health, infos[19].StuckSince = "unhealthy", time.Now()
	r := Config{Source: fixed{infos: infos}}.list()
	tree := r.tree(filter{most: 3})
	var shown []string
	for _, b := range tree.Roots[0].Children {
		shown = append(shown, b.ID)
	}
	require.Equal(t, []string{"p/00", "p/17", "p/18"}, shown)
	require.Equal(t, &Hidden{Count: 17, States: map[string]int{"ready": 8, "busy": 9}}, tree.Roots[0].Hidden)
	require.Equal(t, 4, tree.Shown)
	require.Equal(t, 21, tree.Count)
	require.Zero(t, r.tree(filter{}).Shown, "what is kept is whole")
}

func BenchmarkCollect(b *testing.B) {
	for _, workers := range []int{128, 10_000} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			inspector := NewInspector(crowd(workers))
			for b.Loop() {
				r, err := collect(b.Context(), func(ctx context.Context, q wire.Inspect) (wire.InspectResult, error) {
					return inspector.Inspect(ctx, q), nil
				}, actorsMax)
				require.NoError(b, err)
				require.Len(b, r.Actors, workers+4)
			}
		})
	}
}
