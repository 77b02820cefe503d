package operate

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

func TestWhatCountsByMinuteAnswer(t *testing.T) {
	t.Parallel()
	from, some := time.Now(), []facets.Field{facets.Status, facets.Version}
	for name, c := range map[string]struct {
		f      store.Filter
		fields []facets.Field
		want   bool
	}{
		"a time":                {store.Filter{From: from}, some, true},
		"no time":               {store.Filter{}, some, false},
		"fields of the counts":  {store.Filter{From: from, Actions: []string{"a"}, Pools: []string{"p"}, Errors: []messages.Code{"e"}, Statuses: []messages.Status{messages.Failed}}, some, true},
		"several of each":       {store.Filter{From: from, Actions: []string{"a", "b"}, Pools: []string{"p", "q"}, Errors: []messages.Code{"e", "f"}}, some, true},
		"several workers":       {store.Filter{From: from, Workers: []string{"v", "w"}}, some, false},
		"what has not ended":    {store.Filter{From: from, Statuses: []messages.Status{messages.Failed, messages.Running}}, some, false},
		"what ended from":       {store.Filter{From: from, EndedFrom: from}, some, false},
		"what ended before":     {store.Filter{From: from, EndedTo: from}, some, false},
		"a worker":              {store.Filter{From: from, Workers: []string{"w"}}, some, false},
		"a session":             {store.Filter{From: from, Sessions: []string{"s"}}, some, false},
		"a label":               {store.Filter{From: from, Labels: [][2]string{{"a", "b"}}}, some, false},
		"a key":                 {store.Filter{From: from, Keys: []string{"k"}}, some, false},
		"a text":                {store.Filter{From: from, Texts: []string{"refused"}}, some, false},
		"an id":                 {store.Filter{From: from, IDPrefixes: []string{"0123"}}, some, false},
		"not a status":          {store.Filter{From: from, Not: store.Exclusion{Statuses: []messages.Status{messages.Completed}}}, some, true},
		"not a key":             {store.Filter{From: from, Not: store.Exclusion{Keys: []string{"k"}}}, some, false},
		"not a text":            {store.Filter{From: from, Not: store.Exclusion{Texts: []string{"t"}}}, some, false},
		"not an id":             {store.Filter{From: from, Not: store.Exclusion{IDPrefixes: []string{"01a1"}}}, some, false},
		"not retries":           {store.Filter{From: from, Not: store.Exclusion{Was: []store.Was{store.WasRetry}}}, some, false},
		"not a worker":          {store.Filter{From: from, Not: store.Exclusion{Workers: []string{"w"}}}, some, false},
		"a field of executions": {store.Filter{From: from}, []facets.Field{facets.Status, facets.Worker}, false},
	} {
		require.Equal(t, c.want, byMinutes(&c.f, c.fields), name)
	}
	k := rollup.Key{Pool: "p", Action: "a", Status: messages.Failed, Code: "e"}
	for name, f := range map[string]store.Filter{
		"status": {Statuses: []messages.Status{messages.Completed}}, "action": {Actions: []string{"b"}}, "pool": {Pools: []string{"q"}}, "error": {Errors: []messages.Code{"f"}},
		"actions": {Actions: []string{"b", "c"}}, "pools": {Pools: []string{"q", "r"}}, "errors": {Errors: []messages.Code{"f", ""}},
		"pools but one": {Pools: []string{"p", "q"}, Not: store.Exclusion{Pools: []string{"p"}}},
		"not status":    {Not: store.Exclusion{Statuses: []messages.Status{messages.Failed}}}, "not action": {Not: store.Exclusion{Actions: []string{"a"}}},
		"not pool": {Not: store.Exclusion{Pools: []string{"p"}}}, "not error": {Not: store.Exclusion{Errors: []messages.Code{"e"}}},
	} {
		require.False(t, ofMinutes(&f, &k), name)
	}
	require.True(t, ofMinutes(&store.Filter{Statuses: []messages.Status{messages.Failed}, Actions: []string{"a"}, Pools: []string{"p"}, Errors: []messages.Code{"e"}}, &k))
	require.True(t, ofMinutes(&store.Filter{Actions: []string{"b", "a"}, Pools: []string{"p", "q"}, Errors: []messages.Code{"f", "e"}, Not: store.Exclusion{Pools: []string{"q"}}}, &k))
}

// pagesOf is a store that remembers when the pages that it was asked for were to end.
type pagesOf struct {
	store.Store
	until []time.Time
}

func (p *pagesOf) List(ctx context.Context, f store.Filter) (store.Page, error) {
	p.until = append(p.until, f.Until)
	return p.Store.List(ctx, f)
}

// All pages of a walk end at one time, so that two of them do not take twice as long as the walk may.
func TestAWalkHasOneTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	executions := make([]messages.Execution, 2*listPage)
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Version: "1", Pool: "shell", Timeout: time.Minute}
	}
	_, err := c.store.Submit(t.Context(), executions)
	require.NoError(t, err)
	pages, seen := &pagesOf{Store: c.store}, 0
	began := time.Now()
	reached, err := walk(t.Context(), pages, store.Filter{Limit: listPage / 2}, store.ListWalk, time.Hour, func(*messages.Execution) { seen++ })
	require.NoError(t, err)
	require.Equal(t, store.MoreEnd, reached.More)
	require.Equal(t, len(executions), seen)
	require.Len(t, pages.until, 4)
	require.WithinRange(t, pages.until[0], began.Add(time.Hour), time.Now().Add(time.Hour))
	require.Len(t, slices.Compact(pages.until), 1)
}

// A short list is counted whole, and of a long one the counts by minute are taken where they have what is asked for.
func TestALongListIsCountedByMinutes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	fill := func(n int) {
		executions := make([]messages.Execution, n)
		for i := range executions {
			executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Version: "1", Pool: "shell", Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
		}
		_, err := c.store.Submit(t.Context(), executions)
		require.NoError(t, err)
	}
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	f := store.Filter{From: now.Add(-time.Hour)}
	ask := func(f store.Filter, fields ...facets.Field) (*facets.Counts, map[string][]facets.Count, store.Page) {
		counts, reached, err := a.Facets(t.Context(), f, fields)
		require.NoError(t, err)
		values, _ := counts.Done(10)
		return counts, values, reached
	}
	fill(facetsFew - 1)
	counts, values, reached := ask(f, facets.Status)
	require.Equal(t, facets.List, counts.Basis)
	require.Equal(t, store.MoreEnd, reached.More)
	require.Equal(t, []facets.Count{{Value: "requested", N: facetsFew - 1}}, values["status"])

	fill(2)
	require.NoError(t, c.store.SaveRollups(t.Context(), []store.Rollup{
		{Minute: now.Truncate(time.Minute), Incarnation: messages.NewIncarnation(), Pool: "shell", Action: "core.echo", Version: "1", Status: messages.Completed, N: 7_000},
		{Minute: now.Truncate(time.Minute), Incarnation: messages.NewIncarnation(), Pool: "other", Action: "core.echo", Version: "1", Status: messages.Completed, N: 3},
		{Minute: now.Add(-2 * time.Hour).Truncate(time.Minute), Incarnation: messages.NewIncarnation(), Pool: "shell", Action: "core.echo", Version: "1", Status: messages.Completed, N: 1},
	}))
	f.Pools = []string{"shell"}
	counts, values, reached = ask(f, facets.Status, facets.Version)
	require.Equal(t, facets.Minutes, counts.Basis)
	require.Equal(t, store.MoreEnd, reached.More)
	require.EqualValues(t, 7_000, counts.All)
	require.Equal(t, []facets.Count{{Value: "core.echo@1", N: 7_000}}, values["version"])
	pools := f
	pools.Pools = []string{"shell", "other"}
	counts, values, _ = ask(pools, facets.Status, facets.Pool)
	require.Equal(t, facets.Minutes, counts.Basis)
	require.Equal(t, []facets.Count{{Value: "shell", N: 7_000}, {Value: "other", N: 3}}, values["pool"], "the counts of both")

	old := now.Add(-9 * time.Hour).Truncate(time.Hour)
	require.NoError(t, c.store.SaveRollups(t.Context(), []store.Rollup{
		{Minute: old.Add(10 * time.Minute), Incarnation: messages.NewIncarnation(), Pool: "shell", Action: "core.echo", Version: "1", Status: messages.Completed, N: 20},
		{Minute: old.Add(20 * time.Minute), Incarnation: messages.NewIncarnation(), Pool: "shell", Action: "core.echo", Version: "1", Status: messages.Completed, N: 50},
	}))
	c.fold(now)
	a.cfg.Counted, a.cfg.Hours = 6*time.Hour, 90*24*time.Hour
	_, err = c.store.Purge(t.Context(), store.Purge{MinutesBefore: now.Add(-6 * time.Hour).Truncate(time.Hour), Limit: 10_000})
	require.NoError(t, err)
	whole := f
	whole.From = old.Add(30 * time.Minute)
	counts, _, _ = ask(whole, facets.Status)
	require.Equal(t, facets.Minutes, counts.Basis)
	require.EqualValues(t, 7_000+1+20+50, counts.All, "what is kept by the hour is counted, its first hour whole")

	counts, reached, err = a.countList(t.Context(), f, []facets.Field{facets.Status}, listPage, time.Minute)
	require.NoError(t, err)
	require.Equal(t, store.MoreUnsearched, reached.More)
	require.Equal(t, listPage, reached.Searched.Walked)
	require.EqualValues(t, listPage, counts.All)
	counts, _, _ = ask(store.Filter{}, facets.Status)
	require.Equal(t, facets.List, counts.Basis, "without a time")
}
