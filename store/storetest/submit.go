package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func testSubmit(t *testing.T, k *kit) {
	in := []messages.Execution{ask(), ask(), ask(func(e *messages.Execution) { e.ID = messages.ExecutionID{} })}
	out := k.submit(t, in...)
	for i, e := range out {
		require.Equal(t, messages.Requested, e.Status)
		require.Zero(t, e.Attempt)
		require.False(t, e.ID.IsZero())
		require.False(t, e.RequestedAt.IsZero())
		require.Equal(t, e.RequestedAt, e.RunAt)
		if i > 0 {
			require.Greater(t, e.Seq, out[i-1].Seq, "the order given is the order stored")
		}
		require.Equal(t, e, k.get(t, e.ID), "what Submit returns is what Get reads")
	}
	_, err := k.Get(t.Context(), messages.NewExecutionID())
	require.ErrorIs(t, err, store.ErrNotFound)
	none, err := k.Submit(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func testSubmitFields(t *testing.T, k *kit) {
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	in := messages.Execution{
		ID: messages.NewExecutionID(), Action: "a.b", Version: "2.3.4", Pool: "q", Parameters: json.RawMessage(`{"x":[1,2]}`),
		Session: "s \x00'\"<script>../", Affinity: messages.AffinityStrictFail, Priority: 9, Labels: map[string]string{"k": "v", "<b>": "\u2028"},
		CreatedBy: "me", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=1", IdempotencyKey: "key", RequestHash: []byte{0, 1, 255},
		Timeout: 90 * time.Second, StallTimeout: time.Second, QueueDeadline: later, WaitForWorker: true, WorkerDeadline: later.Add(time.Hour),
		Idempotent: true, Notify: true, MayRepeat: true, MaxRetries: 4, RetryCount: 2, RetryReason: "manual_retry", Original: messages.NewExecutionID(), RunAt: later.Add(time.Second),
	}
	got := k.get(t, k.submit(t, in)[0].ID)
	in.Status, in.Seq, in.RequestedAt = messages.Requested, got.Seq, got.RequestedAt
	require.Equal(t, in, got)
}

// testSubmitPlaced submits some executions with their placement. They must be as after Submit and Place, and continue
// from there.
func testSubmitPlaced(t *testing.T, k *kit) {
	in := []messages.Execution{ask(), ask(func(e *messages.Execution) { e.Labels = map[string]string{"k": "v"} }), ask(), keyed("one", "h")}
	in[1].WaitForWorker, in[1].WorkerDeadline = true, time.Now().Add(time.Hour)
	places := []*store.Place{k.place(in[1].ID, 0, 3), k.place(in[2].ID, 0, 4), k.place(in[3].ID, 0, 5)}
	out, err := k.SubmitPlaced(t.Context(), in, places)
	require.NoError(t, err)
	require.Len(t, out, len(in))
	for i := range out {
		require.False(t, out[i].Existing)
		require.Equal(t, out[i].Execution, k.get(t, in[i].ID), "what SubmitPlaced returns is what Get reads")
		require.True(t, i == 0 || out[i].Execution.Seq > out[i-1].Execution.Seq, "the order given is the order stored")
	}
	require.Equal(t, messages.Requested, out[0].Execution.Status)
	for i, p := range places {
		e := out[i+1].Execution
		require.Equal(t, messages.Scheduled, e.Status)
		require.Equal(t, messages.Attempt(1), e.Attempt)
		require.Equal(t, p.Worker, e.Worker)
		require.Equal(t, e.ScheduledAt.Add(p.ClaimWithin), e.ClaimBy)
		require.Equal(t, e.RequestedAt, e.ScheduledAt)
	}
	due, err := k.Due(t.Context(), store.DueQuery{Pool: pool, Limit: 10, Heads: 10})
	require.NoError(t, err)
	require.Len(t, due.Candidates, 1, "what is placed is not due")
	live, err := k.Live(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, live, 3)

	again, err := k.SubmitPlaced(t.Context(), in, places)
	require.NoError(t, err)
	for i := range again {
		require.True(t, again[i].Existing)
		require.Equal(t, out[i].Execution.Attempt, again[i].Execution.Attempt, "a repeated call places nothing twice")
	}
	require.Equal(t, store.Stale, k.apply(t, k.place(in[1].ID, 0, 9))[0].Verdict)
	require.Equal(t, store.Already, k.apply(t, k.place(in[1].ID, 0, 3))[0].Verdict)
	claimed := k.applied(t, k.claim(in[1].ID, 1, 3))
	require.JSONEq(t, string(in[1].Parameters), string(claimed.Execution.Parameters))
	require.Equal(t, in[1].Labels, claimed.Execution.Labels)
	k.applied(t, &store.Finish{ID: in[1].ID, Attempt: 1, Outcome: completed()})
	k.applied(t, &store.TakeBack{ID: in[2].ID, Attempt: 1, Reason: "test"})
	require.Equal(t, messages.Attempt(2), k.applied(t, k.place(in[2].ID, 1, 4)).Attempt)
	k.applied(t, &store.Cancel{ID: in[3].ID, By: "test"})
	testSubmitOnePlaced(t, k)
}

func testSubmitOnePlaced(t *testing.T, k *kit) {
	e := ask()
	out, err := k.SubmitPlaced(t.Context(), []messages.Execution{e}, []*store.Place{k.place(e.ID, 0, 3)})
	require.NoError(t, err)
	require.Equal(t, messages.Scheduled, out[0].Execution.Status)
}

func testSubmitPlacedRefused(t *testing.T, k *kit) {
	for name, c := range map[string]struct {
		change func(e *messages.Execution)
		place  func(p *store.Place)
	}{
		"another execution": {nil, func(p *store.Place) { p.ID = messages.NewExecutionID() }},
		"a later attempt":   {nil, func(p *store.Place) { p.Attempt = 1 }},
		"another pool":      {nil, func(p *store.Place) { p.Worker.Pool = "other" }},
		"no incarnation":    {nil, func(p *store.Place) { p.Worker.Incarnation = messages.Incarnation{} }},
		"a session":         {inSession("s", messages.AffinityStrict), nil},
		"a time":            {func(e *messages.Execution) { e.RunAt = time.Now().Add(time.Hour) }, nil},
	} {
		e := ask()
		if c.change != nil {
			c.change(&e)
		}
		p := k.place(e.ID, 0, 1)
		if c.place != nil {
			c.place(p)
		}
		_, err := k.SubmitPlaced(t.Context(), []messages.Execution{e}, []*store.Place{p})
		require.ErrorIs(t, err, store.ErrInvalid, name)
		_, err = k.Get(t.Context(), e.ID)
		require.ErrorIs(t, err, store.ErrNotFound, name)
	}
	e := ask()
	_, err := k.SubmitPlaced(t.Context(), []messages.Execution{e}, []*store.Place{k.place(e.ID, 0, 1), k.place(e.ID, 0, 2)})
	require.ErrorIs(t, err, store.ErrInvalid, "placed twice")
}

func keyed(key, hash string) messages.Execution {
	return ask(func(e *messages.Execution) { e.IdempotencyKey, e.RequestHash = key, []byte(hash) })
}

func testKeys(t *testing.T, k *kit) {
	first := k.submit(t, keyed("one", "h"))[0]
	again, err := k.Submit(t.Context(), []messages.Execution{keyed("one", "h"), keyed("two", "h"), keyed("two", "h")})
	require.NoError(t, err)
	require.True(t, again[0].Existing)
	require.Equal(t, first.ID, again[0].Execution.ID)
	require.False(t, again[1].Existing)
	require.True(t, again[2].Existing, "the same key twice in one batch is one execution")
	require.Equal(t, again[1].Execution.ID, again[2].Execution.ID)

	fresh := ask()
	_, err = k.Submit(t.Context(), []messages.Execution{fresh, keyed("one", "other")})
	require.ErrorIs(t, err, store.ErrConflict)
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "one", conflict.Key)
	require.Equal(t, first.ID, conflict.Holder)
	_, err = k.Get(t.Context(), fresh.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "nothing of a refused batch is stored")
}

func testSubmitAllOrNothing(t *testing.T, k *kit) {
	good := ask()
	for _, bad := range []func(e *messages.Execution){
		func(e *messages.Execution) { e.Action = "" },
		func(e *messages.Execution) { e.Pool = "" },
		func(e *messages.Execution) { e.Priority = 10 },
		func(e *messages.Execution) { e.Priority = -1 },
		func(e *messages.Execution) { e.Session = string(make([]byte, messages.SessionMax+1)) },
		func(e *messages.Execution) { e.IdempotencyKey = string(make([]byte, messages.KeyMax+1)) },
		func(e *messages.Execution) { e.Parameters = make([]byte, messages.ParametersMax+1) },
		func(e *messages.Execution) { e.Affinity = "often" },
		func(e *messages.Execution) { e.RunAt = time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		_, err := k.Submit(t.Context(), []messages.Execution{good, ask(bad)})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "execution 2 of 2")
		_, err = k.Get(t.Context(), good.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	_, err := k.Submit(t.Context(), make([]messages.Execution, messages.BatchMax+1))
	require.ErrorIs(t, err, store.ErrInvalid)
	k.submit(t, ask(func(e *messages.Execution) { e.Parameters = make([]byte, messages.ParametersMax) }))
}

func testSubmitRepeated(t *testing.T, k *kit) {
	e := ask()
	first := k.submit(t, e)[0]
	again, err := k.Submit(t.Context(), []messages.Execution{ask(), e})
	require.NoError(t, err)
	require.False(t, again[0].Existing)
	require.True(t, again[1].Existing, "a batch whose commit was unknown may be submitted again")
	require.Equal(t, first.Seq, again[1].Execution.Seq)
	other := ask(func(o *messages.Execution) { o.ID, o.Action = e.ID, "core.other" })
	_, err = k.Submit(t.Context(), []messages.Execution{other})
	require.ErrorIs(t, err, store.ErrConflict)
}
