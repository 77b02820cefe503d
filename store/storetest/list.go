package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// walk reads a whole list in pages.
func (k *kit) walk(t *testing.T, f store.Filter) []messages.Execution {
	var all []messages.Execution
	for range 1000 {
		page, err := k.List(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Executions), f.Limit)
		all = append(all, page.Executions...)
		if page.Next == 0 {
			require.Equal(t, store.MoreEnd, page.More)
			return all
		}
		require.Equal(t, page.Next, page.Searched.Seq)
		if page.More == store.MoreFound {
			require.Equal(t, page.Executions[len(page.Executions)-1].RequestedAt, page.Searched.At)
		} else {
			require.Equal(t, store.MoreUnsearched, page.More)
		}
		if f.Before = page.Next; f.Oldest {
			f.Before, f.After = 0, page.Next
		}
	}
	t.Fatal("the list does not end")
	return nil
}

// bringVaried stores executions of all states that can be reached, which differ in what a list can be asked for, and returns them newest
// first.
func (k *kit) bringVaried(t *testing.T) (stored []messages.Execution) {
	for i, s := range slices.Repeat(reachable(), 3) {
		stored = append(stored, k.bring(t, s, func(e *messages.Execution) {
			e.Priority = messages.Priority(i % 10)
			e.Labels = map[string]string{"third": string(rune('a' + i%3)), "all": "yes"}
			if i%2 == 0 {
				e.Session, e.Affinity, e.Action = "even", messages.AffinityHint, "core.even"
			}
			if i%3 == 0 {
				e.IdempotencyKey, e.CreatedBy, e.RequestHash = fmt.Sprint("key", i), "a", []byte{byte(i)}
			}
		}))
	}
	slices.Reverse(stored)
	return stored
}

// listCase is a filter, and what it keeps.
type listCase struct {
	filter store.Filter
	keep   func(e messages.Execution) bool
}

// listCases are a case for each thing that a list can be asked for.
func listCases(stored []messages.Execution) map[string]listCase {
	middle := stored[len(stored)/2].RequestedAt
	end := endedAmid(stored)
	text := strings.ReplaceAll(stored[3].ID.String(), "-", "")
	return map[string]listCase{
		"all":        {store.Filter{}, func(messages.Execution) bool { return true }},
		"action":     {store.Filter{Actions: []string{"core.even"}}, func(e messages.Execution) bool { return e.Action == "core.even" }},
		"pool":       {store.Filter{Pools: []string{pool}}, func(messages.Execution) bool { return true }},
		"other pool": {store.Filter{Pools: []string{"other"}}, func(messages.Execution) bool { return false }},
		"session":    {store.Filter{Sessions: []string{"even"}}, func(e messages.Execution) bool { return e.Session == "even" }},
		"worker":     {store.Filter{Workers: []string{string(workerID(1))}}, func(e messages.Execution) bool { return e.WorkerID == workerID(1) }},
		"label":      {store.Filter{Labels: [][2]string{{"third", "b"}}}, func(e messages.Execution) bool { return e.Labels["third"] == "b" }},
		"no label":   {store.Filter{Labels: [][2]string{{"third", "z"}}}, func(messages.Execution) bool { return false }},
		"waits in a pool": {store.Filter{Pools: []string{pool}, Statuses: []messages.Status{messages.Requested}},
			func(e messages.Execution) bool { return e.Status == messages.Requested }},
		"has not ended in a pool": {store.Filter{Pools: []string{pool}, Statuses: []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling}},
			func(e messages.Execution) bool { return !e.Status.Terminal() }},
		"waits in another pool": {store.Filter{Pools: []string{"other"}, Statuses: []messages.Status{messages.Requested, messages.Running}},
			func(messages.Execution) bool { return false }},
		"failed in a pool": {store.Filter{Pools: []string{pool}, Statuses: []messages.Status{messages.Failed, messages.TimedOut}},
			func(e messages.Execution) bool { return e.Status == messages.Failed || e.Status == messages.TimedOut }},
		"error in a pool":      {store.Filter{Pools: []string{pool}, Errors: []messages.Code{messages.CodeActionError}}, func(e messages.Execution) bool { return codeOf(e) == messages.CodeActionError }},
		"scheduling in a pool": {store.Filter{Pools: []string{pool}, Statuses: []messages.Status{messages.Scheduling}}, func(messages.Execution) bool { return false }},
		"failed or waits in another pool": {store.Filter{Pools: []string{"other"}, Statuses: []messages.Status{messages.Failed, messages.Requested}},
			func(messages.Execution) bool { return false }},
		"two statuses": {store.Filter{Statuses: []messages.Status{messages.Failed, messages.Requested}}, func(e messages.Execution) bool { return e.Status == messages.Failed || e.Status == messages.Requested }},
		"many": {store.Filter{Statuses: []messages.Status{messages.Completed, messages.Running}, Sessions: []string{"even"}, Actions: []string{"core.even"}, Pools: []string{pool}, Workers: []string{string(workerID(1))}, Labels: [][2]string{{"all", "yes"}}},
			func(e messages.Execution) bool {
				return e.Session == "even" && (e.Status == messages.Completed || e.Status == messages.Running)
			}},
		"two labels": {store.Filter{Labels: [][2]string{{"all", "yes"}, {"third", "c"}}}, func(e messages.Execution) bool { return e.Labels["third"] == "c" }},
		"key":        {store.Filter{Keys: []string{"key3"}}, func(e messages.Execution) bool { return e.IdempotencyKey == "key3" }},
		"no key":     {store.Filter{Keys: []string{"none"}}, func(messages.Execution) bool { return false }},
		"id":         {store.Filter{IDPrefixes: []string{text}}, func(e messages.Execution) bool { return e.ID == stored[3].ID }},
		"id's time":  {store.Filter{IDPrefixes: []string{text[:4]}}, func(e messages.Execution) bool { return e.ID.String()[:4] == text[:4] }},
		"no id":      {store.Filter{IDPrefixes: []string{"ffff"}}, func(messages.Execution) bool { return false }},
		"from":       {store.Filter{From: middle}, func(e messages.Execution) bool { return !e.RequestedAt.Before(middle) }},
		"to":         {store.Filter{To: middle}, func(e messages.Execution) bool { return e.RequestedAt.Before(middle) }},
		"from and to of an action": {store.Filter{From: middle, To: stored[2].RequestedAt, Actions: []string{"core.even"}}, func(e messages.Execution) bool {
			return !e.RequestedAt.Before(middle) && e.RequestedAt.Before(stored[2].RequestedAt) && e.Action == "core.even"
		}},
		"before all": {store.Filter{To: middle.Add(-time.Hour)}, func(messages.Execution) bool { return false }},
		"after all":  {store.Filter{From: middle.Add(time.Hour)}, func(messages.Execution) bool { return false }},
		"ended from": {store.Filter{EndedFrom: end}, func(e messages.Execution) bool { return !e.FinishedAt.IsZero() && !e.FinishedAt.Before(end) }},
		"ended to":   {store.Filter{EndedTo: end}, func(e messages.Execution) bool { return !e.FinishedAt.IsZero() && e.FinishedAt.Before(end) }},
		"ended at once": {store.Filter{EndedFrom: end, EndedTo: end.Add(time.Microsecond)},
			func(e messages.Execution) bool { return e.FinishedAt.Equal(end) }},
		"ended from long ago": {store.Filter{EndedFrom: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), From: middle.Add(-time.Hour)},
			func(e messages.Execution) bool { return e.Status.Terminal() }},
		"failed from, of a session, requested before": {store.Filter{EndedFrom: end, To: middle.Add(time.Microsecond), Sessions: []string{"even"}, Statuses: []messages.Status{messages.Failed}},
			func(e messages.Execution) bool {
				return e.Status == messages.Failed && e.Session == "even" && !e.FinishedAt.Before(end) && !e.RequestedAt.After(middle)
			}},
		"runs, and ended": {store.Filter{EndedFrom: middle.Add(-time.Hour), Statuses: []messages.Status{messages.Running}}, func(messages.Execution) bool { return false }},
		"error":           {store.Filter{Errors: []messages.Code{messages.CodeActionError}}, func(e messages.Execution) bool { return codeOf(e) == messages.CodeActionError }},
		"no error":        {store.Filter{Errors: []messages.Code{"action_err"}}, func(messages.Execution) bool { return false }},
		"error of completed": {store.Filter{Errors: []messages.Code{messages.CodeActionError}, Statuses: []messages.Status{messages.Completed}},
			func(messages.Execution) bool { return false }},
		"not": {store.Filter{Not: store.Exclusion{Statuses: []messages.Status{messages.Completed, messages.Failed}, Labels: [][2]string{{"third", "a"}}}},
			func(e messages.Execution) bool {
				return e.Status != messages.Completed && e.Status != messages.Failed && e.Labels["third"] != "a"
			}},
		"not of texts": {store.Filter{Not: store.Exclusion{Actions: []string{"core.even", "x"}, Pools: []string{"other"}, Sessions: []string{"even"}, Workers: []string{"none"}}},
			func(e messages.Execution) bool { return e.Action != "core.even" }},
		"not a worker": {store.Filter{Not: store.Exclusion{Workers: []string{string(workerID(1))}}}, func(e messages.Execution) bool { return e.WorkerID != workerID(1) }},
		"not an error": {store.Filter{Not: store.Exclusion{Errors: []messages.Code{messages.CodeActionError}}},
			func(e messages.Execution) bool { return codeOf(e) != messages.CodeActionError }},
		"not a pool": {store.Filter{Not: store.Exclusion{Pools: []string{pool}}}, func(messages.Execution) bool { return false }},
	}
}

func testList(t *testing.T, k *kit) {
	stored := k.bringVaried(t)
	for name, f := range listCases(stored) {
		f.check(t, k, name, stored)
	}
	for _, s := range messages.Statuses() {
		for _, e := range k.walk(t, store.Filter{Statuses: []messages.Status{s}, Limit: 2}) {
			require.Equal(t, s, e.Status)
		}
	}
	page, err := k.List(t.Context(), store.Filter{Limit: len(stored)})
	require.NoError(t, err)
	require.Zero(t, page.Next, "a full last page is the last")
	lost := k.bring(t, messages.Running)
	k.applied(t, &store.Finish{ID: lost.ID, Attempt: 1, Outcome: failed(messages.Failed)})
	for _, f := range []store.Filter{{}, {Statuses: []messages.Status{messages.Failed}}, {Pools: []string{lost.Pool}}} {
		f.Limit = 1
		page, err := k.List(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, page.Executions, 1)
		require.NotNil(t, page.Executions[0].Error, "a list says why: %v", f)
	}
}

// codeOf is the code of an execution's error; empty: it has none.
func codeOf(e messages.Execution) messages.Code {
	if e.Error == nil {
		return ""
	}
	return e.Error.Code
}

func testChain(t *testing.T, k *kit) {
	first := k.bring(t, messages.Running)
	ids := []messages.ExecutionID{first.ID}
	for i := range 3 {
		next := ask(func(e *messages.Execution) { e.Original, e.RetryCount = first.ID, i+1 })
		k.applied(t, &store.Finish{ID: ids[i], Attempt: 1, Outcome: failed(messages.Failed), Retry: &next})
		k.applied(t, k.place(next.ID, 0, 1))
		k.applied(t, k.claim(next.ID, 1, 1))
		ids = append(ids, next.ID)
	}
	k.bring(t, messages.Completed)
	for _, id := range ids {
		chain, err := k.Chain(t.Context(), id)
		require.NoError(t, err)
		var got []messages.ExecutionID
		for _, e := range chain {
			got = append(got, e.ID)
			require.Empty(t, e.Parameters)
		}
		require.Equal(t, ids, got)
		require.Equal(t, messages.CodeActionError, chain[0].Error.Code)
	}
	_, err := k.Chain(t.Context(), messages.NewExecutionID())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func testDepths(t *testing.T, k *kit) {
	want := map[messages.Status]int{messages.Requested: 3, messages.Scheduled: 2, messages.Running: 2, messages.Cancelling: 1, messages.Completed: 1}
	oldest := map[messages.Status]messages.Execution{}
	for s, n := range want {
		for range n {
			e := k.bring(t, s)
			if old, ok := oldest[s]; !ok || e.Seq < old.Seq {
				oldest[s] = e
			}
		}
	}
	delete(want, messages.Completed)
	depths, err := k.Depths(t.Context())
	require.NoError(t, err)
	got := map[messages.Status]int{}
	for _, d := range depths {
		require.Equal(t, pool, d.Pool)
		require.False(t, d.More)
		require.Equal(t, oldest[d.Status].RequestedAt, d.Oldest)
		if d.Status == messages.Scheduled {
			e, err := k.Get(t.Context(), oldest[d.Status].ID)
			require.NoError(t, err)
			require.Equal(t, e.ScheduledAt, d.Since, "it was placed first")
		} else if d.Status == messages.Requested {
			require.Equal(t, oldest[d.Status].RunAt, d.Since, "it is next")
		} else {
			require.Zero(t, d.Since)
		}
		got[d.Status] = d.Count
	}
	require.Equal(t, want, got)
	for _, d := range depths {
		require.Zero(t, d.NotDue)
	}

	now, err := k.Now(t.Context())
	require.NoError(t, err)
	k.submit(t, ask(func(e *messages.Execution) { e.RunAt = now.Add(time.Hour) }))
	depths, err = k.Depths(t.Context())
	require.NoError(t, err)
	for _, d := range depths {
		want := store.Depth{Count: got[d.Status], Oldest: oldest[d.Status].RequestedAt}
		if d.Status == messages.Requested {
			want.Count, want.NotDue = got[d.Status]+1, 1
		}
		require.Equal(t, want, store.Depth{Count: d.Count, NotDue: d.NotDue, Oldest: d.Oldest}, d.Status)
	}
}

// testDepthsNotDue: what waits for its time is counted, and is not the oldest that waits. Once it is due, it is.
func testDepthsNotDue(t *testing.T, k *kit) {
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	ahead := k.submit(t, ask(func(e *messages.Execution) { e.RunAt = now.Add(time.Hour) }))[0]
	waiting := func() store.Depth {
		t.Helper()
		depths, err := k.Depths(t.Context())
		require.NoError(t, err)
		require.Len(t, depths, 1)
		return depths[0]
	}
	require.Equal(t, store.Depth{Pool: pool, Status: messages.Requested, Count: 1, NotDue: 1}, waiting(), "none is due")
	due := k.submit(t, ask())[0]
	require.Equal(t, store.Depth{Pool: pool, Status: messages.Requested, Count: 2, NotDue: 1, Oldest: due.RequestedAt, Since: due.RunAt}, waiting())
	k.applied(t, &store.Cancel{ID: ahead.ID})
	k.applied(t, &store.Cancel{ID: due.ID})

	soon := k.submit(t, ask(func(e *messages.Execution) { e.RunAt = now.Add(50 * time.Millisecond) }))[0]
	k.submit(t, ask())
	require.Eventually(t, func() bool { // the router looks
		ids, _ := k.due(t, store.DueQuery{Limit: 10})
		return len(ids) == 2
	}, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, store.Depth{Pool: pool, Status: messages.Requested, Count: 2, Oldest: soon.RequestedAt, Since: soon.RunAt}, waiting(), "since it is due, not since it was requested")
	k.submit(t, ask(func(e *messages.Execution) { e.Pool, e.Session, e.Affinity = "apart", "s", messages.AffinityStrict }))
	depths, err := k.Depths(t.Context())
	require.NoError(t, err)
	require.Zero(t, depths[slices.IndexFunc(depths, func(d store.Depth) bool { return d.Pool == "apart" })].Since, "a session has an order of its own")
}

// testListUntil ends pages at the time of the walk that they are part of, however long a page may look by itself.
func testListUntil(t *testing.T, k *kit) {
	executions := many(3*store.PartsLeast, func(e *messages.Execution) { e.Pool = "usual" })
	executions[1].Pool, executions[len(executions)-2].Pool = "rare", "rare"
	_, err := k.Submit(t.Context(), executions)
	require.NoError(t, err)
	for _, oldest := range []bool{false, true} {
		f := store.Filter{Pools: []string{"rare"}, Limit: 10, Oldest: oldest, Until: time.Now()}
		var found []messages.ExecutionID
		walked, pages := 0, 0
		for more := store.MoreUnsearched; more == store.MoreUnsearched; pages++ {
			page, err := k.List(t.Context(), f)
			require.NoError(t, err)
			require.LessOrEqual(t, page.Searched.Walked, store.PartsLeast, "the time was over before")
			for i := range page.Executions {
				found = append(found, page.Executions[i].ID)
			}
			walked += page.Searched.Walked
			if f.Before, more = page.Next, page.More; oldest {
				f.Before, f.After = 0, page.Next
			}
			if more == store.MoreUnsearched {
				require.NotZero(t, page.Searched.At)
				require.Equal(t, page.Next, page.Searched.Seq)
			}
		}
		want := []messages.ExecutionID{executions[len(executions)-2].ID, executions[1].ID}
		if oldest {
			slices.Reverse(want)
		}
		require.Equal(t, want, found, "each page continues the one before")
		require.Equal(t, len(executions), walked)
		require.GreaterOrEqual(t, pages, 3)
	}
}

// testListLongErrors checks that lists and chains read the beginning of an error, and what is short of it.
func testListLongErrors(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running)
	failure := &messages.Error{
		Code: "boom", Class: "exception", Type: "KeyError", NoRetry: "final", FailedBy: "worker", Exit: "exit status 3", WorkerFault: true,
		Message: "m" + strings.Repeat("<é", 1<<20), Details: json.RawMessage(`{"n":1}`), Stderr: "s",
	}
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Failed, Error: failure}})
	short := k.bring(t, messages.Failed)
	page, err := k.List(t.Context(), store.Filter{Statuses: []messages.Status{messages.Failed}, Oldest: true})
	require.NoError(t, err)
	require.Len(t, page.Executions, 2)
	chain, err := k.Chain(t.Context(), e.ID)
	require.NoError(t, err)
	for _, listed := range []messages.Execution{page.Executions[0], chain[0]} {
		got := *listed.Error
		require.True(t, strings.HasPrefix(failure.Message, got.Message))
		require.Less(t, len(got.Message), store.ErrorListed)
		require.Greater(t, len(got.Message), messages.ListedMessageMax)
		want := *failure
		want.Details, want.Stderr, want.Message, got.Message = nil, "", "", ""
		require.Equal(t, want, got)
	}
	whole, err := k.Get(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, failure, whole.Error)
	whole, err = k.Get(t.Context(), short.ID)
	require.NoError(t, err)
	require.Equal(t, whole.Error, page.Executions[1].Error, "a short one is whole")
}
