package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func testEvents(t *testing.T, k *kit) {
	e := k.bring(t, messages.Scheduled)
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "claim_by"})
	k.applied(t, k.place(e.ID, 1, 1))
	k.applied(t, k.claim(e.ID, 2, 1))
	k.applied(t, &store.Rescue{ID: e.ID, Attempt: 2, Reason: "node gone"})
	k.apply(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: completed()})
	k.applied(t, k.place(e.ID, 2, 1))
	k.applied(t, k.claim(e.ID, 3, 1))
	next := ask()
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 3, Outcome: failed(messages.TimedOut), Retry: &next})
	_, err := k.SaveDeadLetter(t.Context(), store.DeadLetter{Execution: e.ID, Attempt: 1, Reason: "expired", Worker: workerID(1), Resolution: "stale"})
	require.NoError(t, err)
	events, err := k.Events(t.Context(), e.ID)
	require.NoError(t, err)
	var kinds []string
	for _, v := range events {
		if v.Kind == "stale_write" && slices.Contains(kinds, v.Kind) {
			continue // a duplicate request makes two stale writes
		}
		if v.Kind != "place" && v.Kind != "claim" { // with all events these are stored too
			kinds = append(kinds, v.Kind)
		}
		require.False(t, v.At.IsZero())
	}
	require.ElementsMatch(t, []string{"take_back", "rescue", "stale_write", "retry", "finish", "dead_letter"}, kinds)
	require.Equal(t, "take_back", kinds[0])
	for range 500 {
		k.apply(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
	}
	events, err = k.Events(t.Context(), e.ID)
	require.NoError(t, err)
	require.Less(t, len(events), 200, "stale writes are kept up to a bound")
	_, err = k.Events(t.Context(), messages.NewExecutionID())
	require.ErrorIs(t, err, store.ErrNotFound)
}

// testLateFailures checks that a failure that comes after its run is an event of the execution, up to a bound, and changes nothing else.
func testLateFailures(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running)
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
	late := store.LateFailure{Execution: e.ID, Attempt: 1, Reason: "TypeError: late", Worker: workerID(1)}
	for range store.LateFailuresMax + 3 {
		require.NoError(t, k.SaveLateFailure(t.Context(), late))
	}
	events, err := k.Events(t.Context(), e.ID)
	require.NoError(t, err)
	events = slices.DeleteFunc(events, func(v store.Event) bool { return v.Kind != store.LateFailureKind })
	require.Len(t, events, store.LateFailuresMax)
	v := events[0]
	require.False(t, v.At.IsZero())
	require.Equal(t, store.Event{At: v.At, Attempt: 1, Kind: "late_failure", From: messages.Completed, To: messages.Completed, Reason: late.Reason, Worker: string(late.Worker)}, v)
	got, err := k.Get(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, messages.Completed, got.Status)
	require.Zero(t, got.CrashCount)
	late.Execution = messages.NewExecutionID()
	require.NoError(t, k.SaveLateFailure(t.Context(), late), "of nothing")
}

// testStaleEvents checks that the event of a stale change names the worker of the change's placement, and not that of a later one.
func testStaleEvents(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running) // attempt 1, on worker 1
	k.applied(t, &store.Rescue{ID: e.ID, Attempt: 1, Reason: "node gone"})
	k.applied(t, k.place(e.ID, 1, 2))
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 2, Reason: "claim_by"})
	k.applied(t, k.place(e.ID, 2, 3))
	k.applied(t, k.claim(e.ID, 3, 3))
	claim := k.claim(e.ID, 2, 2)
	claim.WorkerID = workerID(2)
	for _, late := range []struct {
		change store.Change
		worker messages.WorkerID
	}{
		{claim, workerID(2)},
		{k.place(e.ID, 2, 2), workerID(2)},
		{&store.Finish{ID: e.ID, Attempt: 1, Outcome: completed(), WorkerID: workerID(1)}, workerID(1)},
		{k.claim(e.ID, 2, 2), ""},
		{k.claim(e.ID, 3, 2), ""},
		{&store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()}, ""},
		{&store.Rescue{ID: e.ID, Attempt: 2, Reason: "node gone"}, ""},
		{&store.TakeBack{ID: e.ID, Attempt: 3, Reason: "claim_by"}, workerID(3)},
	} {
		before := k.staleEvents(t, e.ID)
		require.Equal(t, store.Stale, k.apply(t, late.change)[0].Verdict, "%+v", late.change)
		for _, v := range k.staleEvents(t, e.ID)[len(before):] { // a lost placement may have none; a duplicate request makes two
			require.Equal(t, string(late.worker), v.Worker, "%+v", late.change)
			require.Equal(t, store.ChangedAttempt(late.change), v.Attempt)
		}
	}
	require.GreaterOrEqual(t, len(k.staleEvents(t, e.ID)), 7)
}

func (k *kit) staleEvents(t *testing.T, id messages.ExecutionID) []store.Event {
	events, err := k.Events(t.Context(), id)
	require.NoError(t, err)
	return slices.DeleteFunc(events, func(v store.Event) bool { return v.Kind != store.StaleWrite })
}

func testEventsBetween(t *testing.T, k *kit) {
	e := k.bring(t, messages.Scheduled)
	for attempt := messages.Attempt(1); attempt <= 6; attempt++ {
		k.applied(t, &store.TakeBack{ID: e.ID, Attempt: attempt, Reason: "claim_by"})
		k.applied(t, k.place(e.ID, attempt, 1))
	}
	all, err := k.Events(t.Context(), e.ID)
	require.NoError(t, err)
	n := len(all)
	require.GreaterOrEqual(t, n, 6)
	between := func(q store.EventQuery) store.EventPage {
		q.Execution = e.ID
		page, err := k.EventsBetween(t.Context(), q)
		require.NoError(t, err)
		require.False(t, page.More)
		return page
	}
	require.Equal(t, store.EventPage{Events: all}, between(store.EventQuery{}))
	require.Equal(t, store.EventPage{Events: all[n-2:], Left: n - 2}, between(store.EventQuery{Newest: true, Limit: 2}))
	require.Equal(t, store.EventPage{Events: all[:2], Left: n - 2}, between(store.EventQuery{Limit: 2}))
	require.Equal(t, store.EventPage{Events: all}, between(store.EventQuery{Newest: true, Limit: n}))
	from, to := all[2].At, all[n-1].At
	inside := slices.DeleteFunc(slices.Clone(all), func(v store.Event) bool { return v.At.Before(from) || !v.At.Before(to) })
	require.NotEmpty(t, inside)
	require.Equal(t, inside, between(store.EventQuery{From: from, To: to}).Events)
	require.Equal(t, store.EventPage{Events: inside[len(inside)-1:], Left: len(inside) - 1}, between(store.EventQuery{From: from, To: to, Newest: true, Limit: 1}))
	require.Empty(t, between(store.EventQuery{From: all[n-1].At.Add(time.Hour)}).Events)
	_, err = k.EventsBetween(t.Context(), store.EventQuery{Execution: messages.NewExecutionID()})
	require.ErrorIs(t, err, store.ErrNotFound)
}
