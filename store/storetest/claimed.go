package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// carries returns a placement that a new execution is stored with, and that carries the worker's claim.
func (k *kit) carries(id messages.ExecutionID, slot int) *store.Place {
	p := k.place(id, 0, slot)
	p.Generation = 1
	return p
}

// testSubmitClaimed submits executions with their claims. Each must be as store.Decide decides the claim of one that was handed over
// directly, and continue from there.
func testSubmitClaimed(t *testing.T, k *kit) {
	in := []messages.Execution{ask(), ask(), ask(), ask(), ask()}
	in[0].WaitForWorker, in[0].WorkerDeadline, in[0].QueueDeadline = true, time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	in[0].Labels = map[string]string{"k": "v"}
	in[1].Timeout = 0
	places := []*store.Place{k.carries(in[0].ID, 3), k.carries(in[1].ID, 4), k.carries(in[3].ID, 5), k.place(in[4].ID, 0, 6)}
	out, err := k.SubmitPlaced(t.Context(), in, places)
	require.NoError(t, err)
	for i := range out {
		require.Equal(t, out[i].Execution, k.get(t, in[i].ID), "what SubmitPlaced returns is what Get reads")
	}
	require.Equal(t, messages.Requested, out[2].Execution.Status)
	require.Equal(t, messages.Scheduled, out[4].Execution.Status)
	for i, p := range map[int]*store.Place{0: places[0], 1: places[1], 3: places[2]} {
		got := out[i].Execution
		fresh := in[i]
		fresh.Status, fresh.Seq, fresh.RequestedAt, fresh.RunAt = messages.Requested, got.Seq, got.RequestedAt, got.RunAt
		fresh.QueueDeadline, fresh.WorkerDeadline = got.QueueDeadline, got.WorkerDeadline
		want := store.Decide(&store.Row{Execution: fresh}, nil, p.AsStored(), got.StartedAt)
		require.Equal(t, store.Applied, want.Verdict)
		require.Equal(t, want.Next.Execution, got, "as it is decided")
		require.Equal(t, got.RequestedAt, got.StartedAt)
		events, err := k.Events(t.Context(), got.ID)
		require.NoError(t, err)
		for _, v := range events { // of a store that stores all events
			require.Equal(t, store.Event{At: got.StartedAt, Attempt: 1, Kind: "claim", From: messages.Requested, To: messages.Running, Worker: string(p.WorkerID)}, v)
		}
		require.LessOrEqual(t, len(events), 1)
		require.Equal(t, store.Already, k.apply(t, p.AsStored())[0].Verdict, "the claim repeated")
		require.Equal(t, store.Stale, k.apply(t, k.place(got.ID, 0, 9))[0].Verdict)
		require.Equal(t, store.Stale, k.apply(t, &store.TakeBack{ID: got.ID, Attempt: 1, Reason: "unclaimed"})[0].Verdict)
	}
	due, err := k.Due(t.Context(), store.DueQuery{Pool: pool, Limit: 10, Heads: 10})
	require.NoError(t, err)
	require.Len(t, due.Candidates, 1, "what runs is not due")
	live, err := k.Live(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, live, 4)
	again, err := k.SubmitPlaced(t.Context(), in, places)
	require.NoError(t, err)
	for i := range again {
		require.True(t, again[i].Existing)
		require.Equal(t, out[i].Execution.Attempt, again[i].Execution.Attempt, "a repeated call claims nothing twice")
	}
	k.testClaimedEnds(t, out)
	refused := k.submit(t, ask())[0]
	r := k.apply(t, k.carries(refused.ID, 1))[0]
	require.Equal(t, store.Refused, r.Verdict)
	require.ErrorIs(t, r.Err, store.ErrInvalid, "only a new execution is claimed as it is stored")
	require.Equal(t, messages.Requested, k.get(t, refused.ID).Status)
}

// testClaimedEnds ends runs that began as they were stored.
func (k *kit) testClaimedEnds(t *testing.T, out []store.Submitted) {
	first := out[0].Execution
	end := k.applied(t, &store.Finish{ID: first.ID, Attempt: 1, Outcome: completed()})
	require.Equal(t, []any{messages.Completed, first.Labels, first.Action}, []any{end.Execution.Status, end.Execution.Labels, end.Execution.Action})
	got := k.get(t, first.ID)
	require.JSONEq(t, `{"ok":true}`, string(got.Result))
	require.JSONEq(t, `{"a": 1}`, string(got.Parameters))
	k.applied(t, &store.Cancel{ID: out[1].Execution.ID, By: "test"})
	require.Equal(t, messages.Cancelling, k.get(t, out[1].Execution.ID).Status)
	k.applied(t, &store.Finish{ID: out[1].Execution.ID, Attempt: 1, Outcome: completed()})
	require.Equal(t, messages.Cancelled, k.get(t, out[1].Execution.ID).Status)
	k.applied(t, &store.Rescue{ID: out[3].Execution.ID, Attempt: 1, Reason: "never started", Unstarted: true})
	back := k.get(t, out[3].Execution.ID)
	require.Equal(t, []any{messages.Requested, messages.Attempt(1), 0}, []any{back.Status, back.Attempt, back.CrashCount})
	k.applied(t, k.direct(back.ID, 1, 2))
}

// testSubmitClaimedFenced submits with the claim of an incarnation that has no live lease: a store that evaluates leases stores the
// execution as requested.
func testSubmitClaimedFenced(t *testing.T, k *kit) {
	e := ask(func(e *messages.Execution) {
		e.QueueDeadline, e.WorkerDeadline = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	})
	p := k.carries(e.ID, 1)
	p.Worker.Incarnation = messages.NewIncarnation()
	out, err := k.SubmitPlaced(t.Context(), []messages.Execution{e}, []*store.Place{p})
	require.NoError(t, err)
	got := out[0].Execution
	require.Equal(t, got, k.get(t, e.ID))
	if got.Status == messages.Running { // a store of one node evaluates no lease
		return
	}
	require.Equal(t, []any{messages.Requested, messages.Attempt(0), messages.WorkerKey{}}, []any{got.Status, got.Attempt, got.Worker})
	require.False(t, got.QueueDeadline.IsZero() || got.WorkerDeadline.IsZero())
	page, err := k.Due(t.Context(), store.DueQuery{Pool: pool, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Candidates, 1, "it is due for others")
	k.applied(t, k.direct(e.ID, 0, 1))
}
