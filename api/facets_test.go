package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/store"
)

func TestExecutionsAreCountedByFields(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	submitted(t, h, `{"action_ref":"core.echo","labels":{"team":"a"}}`)
	submitted(t, h, `{"action_ref":"core.echo","labels":{"team":"b"}}`)
	submitted(t, h, `{"action_ref":"core.fail","labels":{"team":"b"}}`)
	path := "/api/v1/facets"
	got := read[Facets](t, ask(t, h, "GET", path, ""), 200)
	require.Equal(t, []facets.Count{{Value: "core.echo", N: 2}, {Value: "core.fail", N: 1}}, got.Fields["action"])
	require.Len(t, got.Fields, 4)
	require.Equal(t, []any{facets.List, true, int64(3)}, []any{got.Basis, got.Exact, got.Executions})
	require.Nil(t, got.SearchedTo)
	got = read[Facets](t, ask(t, h, "GET", path+"?fields=label.team,status&fields=status&limit=1&not.action=core.none", ""), 200)
	require.Equal(t, map[string][]facets.Count{"label.team": {{Value: "b", N: 2}}, "status": {{Value: "requested", N: 3}}}, got.Fields)
	require.Equal(t, map[string]int{"label.team": 1}, got.Left)
	b.more = store.MoreUnsearched
	got = read[Facets](t, ask(t, h, "GET", path+"?fields=pool", ""), 200)
	require.False(t, got.Exact)
	require.NotNil(t, got.SearchedTo)
	for query, why := range map[string]string{
		"fields=odd": "fields must be status, action", "fields=a,b": "fields must be", "fields=label.": "label.NAME", "limit=0": "limit", "limit=201": "200",
		"from=x": "from must be a time", "cursor=x": "cursor", "fields=label.1,label.2,label.3,label.4,label.5,label.6,label.7,label.8,label.9,label.10,label.11": "10 fields",
	} {
		refused(t, ask(t, h, "GET", path+"?"+query, ""), 400, messages.CodeInvalidRequest, why)
	}
}

func TestFacetsSayWhatTheyCounted(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	f := store.Filter{From: now.Add(-4 * time.Hour), To: now.Add(time.Hour)}
	view := func(basis facets.Basis, more store.More) Facets {
		reached := store.Page{More: more, Searched: store.Searched{At: now.Add(-time.Hour), Seq: 7, Walked: 20_000}}
		return viewFacets(&f, facets.New(basis, nil), &reached, 10, now)
	}
	all, minutes, some := view(facets.List, store.MoreEnd), view(facets.Minutes, store.MoreEnd), view(facets.List, store.MoreUnsearched)
	require.Equal(t, []any{true, 0.0, (*SearchedView)(nil)}, []any{all.Exact, all.Share, all.SearchedTo})
	require.Equal(t, []any{false, 0.0, (*SearchedView)(nil)}, []any{minutes.Exact, minutes.Share, minutes.SearchedTo})
	require.Equal(t, []any{false, 0.25, 20_000}, []any{some.Exact, some.Share, some.SearchedTo.Walked})
	f.From = time.Time{}
	require.Zero(t, view(facets.List, store.MoreUnsearched).Share, "of no time")
}
