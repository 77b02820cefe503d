package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// direct returns the claim of an execution that was handed to the worker with the attempt after this one.
func (k *kit) direct(id messages.ExecutionID, before messages.Attempt, slot int) *store.Claim {
	return &store.Claim{ID: id, Attempt: before + 1, Worker: k.key(slot), Generation: 1, PlacedBy: k.inc, WorkerID: workerID(slot)}
}

// testDirect checks that a claim can place too, and what becomes of messages that are late.
func testDirect(t *testing.T, k *kit) {
	e := k.submit(t, ask(func(e *messages.Execution) { e.QueueDeadline = time.Now().Add(time.Hour) }))[0]
	claim := k.direct(e.ID, 0, 3)
	r := k.applied(t, claim)
	got := k.get(t, e.ID)
	require.Equal(t, got, *r.Execution, "a claim carries the execution whole")
	require.JSONEq(t, `{"a": 1}`, string(r.Execution.Parameters))
	require.Equal(t, []any{messages.Running, messages.Attempt(1), k.key(3), workerID(3), k.inc}, []any{got.Status, got.Attempt, got.Worker, got.WorkerID, got.PlacedBy})
	require.Equal(t, []time.Time{r.At, r.At, {}, {}}, []time.Time{got.StartedAt, got.FirstPlacedAt, got.ScheduledAt, got.ClaimBy})
	require.Equal(t, r.At.Add(time.Minute), got.RunDeadline)
	require.Equal(t, store.Already, k.apply(t, claim)[0].Verdict)
	live, err := k.Live(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, live, 1, "it stands on its worker")
	page, err := k.Due(t.Context(), store.DueQuery{Pool: pool, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Candidates)
	require.Equal(t, store.Stale, k.apply(t, &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "unclaimed"})[0].Verdict, "it runs")
	k.applied(t, &store.Rescue{ID: e.ID, Attempt: 1, Reason: "node gone"})
	again := k.applied(t, k.direct(e.ID, 1, 2))
	require.Equal(t, messages.Attempt(2), again.Attempt)
	require.Equal(t, got.FirstPlacedAt, again.Execution.FirstPlacedAt)
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: completed()})

	late := k.submit(t, ask())[0]
	back := k.applied(t, &store.TakeBack{ID: late.ID, Attempt: 1, Reason: "unclaimed"})
	require.Equal(t, []any{messages.Requested, messages.Attempt(1)}, []any{back.Status, back.Attempt})
	require.Equal(t, back.At, k.get(t, late.ID).FirstPlacedAt)
	require.Equal(t, store.Stale, k.apply(t, k.direct(late.ID, 0, 1))[0].Verdict, "its attempt is used up")
	events, err := k.Events(t.Context(), late.ID)
	require.NoError(t, err)
	require.Equal(t, store.Event{At: back.At, Attempt: 1, Kind: "take_back", From: messages.Requested, To: messages.Requested, Reason: "unclaimed", RunAt: late.RunAt}, events[0])
	page, err = k.Due(t.Context(), store.DueQuery{Pool: pool, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, messages.Attempt(1), page.Candidates[0].Attempt, "it is due with the next attempt")
	k.applied(t, k.direct(late.ID, 1, 1))

	cancelled := k.submit(t, ask())[0]
	k.applied(t, &store.Cancel{ID: cancelled.ID})
	require.Equal(t, store.Stale, k.apply(t, k.direct(cancelled.ID, 0, 1))[0].Verdict)
	dead := k.submit(t, ask())[0]
	c := k.direct(dead.ID, 0, 1)
	c.Worker.Incarnation = messages.NewIncarnation()
	if r := k.apply(t, c)[0]; r.Verdict != store.Applied { // a store of one node evaluates no lease
		require.ErrorIs(t, r.Err, store.ErrFenced)
		require.Equal(t, messages.Requested, k.get(t, dead.ID).Status)
	}
}

// testDirectRaces has routers hand one execution to many workers, place it, take it back and cancel it at once: one of them wins.
func testDirectRaces(t *testing.T, k *kit) {
	for range 5 {
		e := k.submit(t, ask())[0]
		const contenders = 16
		verdicts := make([]store.Verdict, contenders)
		var group sync.WaitGroup
		for i := range contenders {
			group.Go(func() {
				var c store.Change = k.direct(e.ID, 0, i)
				switch i {
				case 0:
					c = k.place(e.ID, 0, i)
				case 1:
					c = &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "unclaimed", Delay: time.Hour}
				case 2:
					c = &store.End{ID: e.ID, Attempt: 0, Outcome: failed(messages.Failed)}
				}
				out, err := k.Apply(t.Context(), []store.Change{c})
				if err == nil {
					verdicts[i] = out[0].Verdict
				}
			})
		}
		group.Wait()
		won := 0
		for i, v := range verdicts {
			require.Contains(t, []store.Verdict{store.Applied, store.Stale}, v, "contender %d", i)
			if v == store.Applied {
				won++
			}
		}
		if verdicts[0] == store.Applied && verdicts[1] == store.Applied {
			won-- // placed, and then taken back
		}
		require.Equal(t, 1, won, "%v", verdicts)
	}
}
