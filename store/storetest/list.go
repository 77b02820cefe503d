package storetest

import (
	"slices"
	"testing"

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
			return all
		}
		f.Before = page.Next
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
			if i%5 == 0 {
				e.Pool = pool
			}
		}))
	}
	slices.Reverse(stored)
	return stored
}

func testList(t *testing.T, k *kit) {
	stored := k.bringVaried(t)
	for name, f := range map[string]struct {
		filter store.Filter
		keep   func(e messages.Execution) bool
	}{
		"all":        {store.Filter{}, func(messages.Execution) bool { return true }},
		"action":     {store.Filter{Action: "core.even"}, func(e messages.Execution) bool { return e.Action == "core.even" }},
		"pool":       {store.Filter{Pool: pool}, func(messages.Execution) bool { return true }},
		"other pool": {store.Filter{Pool: "other"}, func(messages.Execution) bool { return false }},
		"session":    {store.Filter{Session: "even"}, func(e messages.Execution) bool { return e.Session == "even" }},
		"worker":     {store.Filter{Worker: workerID(1)}, func(e messages.Execution) bool { return e.WorkerID == workerID(1) }},
		"label":      {store.Filter{Label: [2]string{"third", "b"}}, func(e messages.Execution) bool { return e.Labels["third"] == "b" }},
		"no label":   {store.Filter{Label: [2]string{"third", "z"}}, func(messages.Execution) bool { return false }},
		"waits in a pool": {store.Filter{Pool: pool, Statuses: []messages.Status{messages.Requested}},
			func(e messages.Execution) bool { return e.Status == messages.Requested }},
		"has not ended in a pool": {store.Filter{Pool: pool, Statuses: []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling}},
			func(e messages.Execution) bool { return !e.Status.Terminal() }},
		"waits in another pool": {store.Filter{Pool: "other", Statuses: []messages.Status{messages.Requested, messages.Running}},
			func(messages.Execution) bool { return false }},
		"two statuses": {store.Filter{Statuses: []messages.Status{messages.Failed, messages.Requested}}, func(e messages.Execution) bool { return e.Status == messages.Failed || e.Status == messages.Requested }},
		"many": {store.Filter{Statuses: []messages.Status{messages.Completed, messages.Running}, Session: "even", Action: "core.even", Pool: pool, Worker: workerID(1), Label: [2]string{"all", "yes"}},
			func(e messages.Execution) bool {
				return e.Session == "even" && (e.Status == messages.Completed || e.Status == messages.Running)
			}},
	} {
		for _, limit := range []int{1, 4, 1000} {
			f.filter.Limit = limit
			var want []messages.ExecutionID
			for _, e := range stored {
				if f.keep(e) {
					want = append(want, e.ID)
				}
			}
			var got []messages.ExecutionID
			for _, e := range k.walk(t, f.filter) {
				require.Empty(t, e.Parameters)
				got = append(got, e.ID)
			}
			require.Equal(t, want, got, "%s in pages of %d", name, limit)
		}
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
	for _, f := range []store.Filter{{}, {Statuses: []messages.Status{messages.Failed}}, {Pool: lost.Pool}} {
		f.Limit = 1
		page, err := k.List(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, page.Executions, 1)
		require.NotNil(t, page.Executions[0].Error, "a list says why: %v", f)
	}
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
			require.Equal(t, e.ScheduledAt, d.Placed, "it was placed first")
		} else {
			require.Zero(t, d.Placed)
		}
		got[d.Status] = d.Count
	}
	require.Equal(t, want, got)
}
