package storetest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func testBytes(t *testing.T, k *kit) {
	nasty := []byte("\x00\xff\xfe\x80 <script> ../ \xc3\x28")
	e := k.bring(t, messages.Running)
	finish := &store.Finish{
		ID: e.ID, Attempt: 1,
		Outcome: messages.Outcome{Status: messages.Failed, Result: nasty, Error: &messages.Error{Code: "c\x00", Message: "m\x00é", Details: nasty, Stderr: "e\x00\xff"}},
		Output:  messages.Output{Stdout: nasty, Stderr: append([]byte{0}, nasty...), StdoutCut: true, Record: nasty},
	}
	k.applied(t, finish)
	require.Equal(t, store.Already, k.apply(t, finish)[0].Verdict, "bytes that are not UTF-8 are recognised again")
	got := k.get(t, e.ID)
	require.Equal(t, nasty, []byte(got.Result))
	require.Equal(t, "m\x00é", got.Error.Message)
	require.Equal(t, messages.Code("c\x00"), got.Error.Code)
	require.True(t, json.Valid(got.Error.Details))
	out, err := k.Output(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, messages.Output{Stdout: nasty, Stderr: append([]byte{0}, nasty...), StdoutCut: true, Record: nasty}, out)

	big := k.bring(t, messages.Scheduled, func(e *messages.Execution) { e.Parameters = append([]byte(`"`), make([]byte, 100_000)...) })
	require.Equal(t, big.Parameters, k.applied(t, k.claim(big.ID, 1, 1)).Execution.Parameters, "long parameters come with the claim")
}

func testOneBadRow(t *testing.T, k *kit) {
	var changes []store.Change
	var ids []messages.ExecutionID
	taken := k.submit(t, ask())[0]
	for i := range 20 {
		e := k.bring(t, messages.Running)
		ids = append(ids, e.ID)
		f := &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed)}
		switch i {
		case 7: // a retry that cannot be stored
			f.Retry = &messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Pool: pool, Priority: 99}
		case 13: // a retry with the id of another execution
			f.Retry = &messages.Execution{ID: taken.ID, Action: "a.b", Pool: pool}
		}
		changes = append(changes, f)
	}
	for i, r := range k.apply(t, changes...) {
		got := k.get(t, ids[i])
		if i == 7 || i == 13 {
			require.Equal(t, store.Refused, r.Verdict, i)
			require.ErrorContains(t, r.Err, ids[i].String())
			require.Equal(t, messages.Running, got.Status)
			continue
		}
		require.Equal(t, store.Applied, r.Verdict, i)
		require.Equal(t, messages.Failed, got.Status)
	}
	require.Equal(t, taken, k.get(t, taken.ID))
}

// testRefusedInANewPool checks that a pool that only a refused change has named is not cached as if it were stored.
func testRefusedInANewPool(t *testing.T, k *kit) {
	taken := k.submit(t, ask())[0]
	e := k.bring(t, messages.Running)
	in := func(pool string) func(e *messages.Execution) {
		return func(e *messages.Execution) { e.Pool = pool }
	}
	again := ask(in("first"))
	again.ID = taken.ID
	r := k.apply(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &again})[0]
	require.Equal(t, store.Refused, r.Verdict, "its retry has an id that is taken")
	for _, name := range []string{"second", "first"} {
		id := k.submit(t, ask(in(name)))[0].ID
		page, err := k.Due(t.Context(), store.DueQuery{Pool: name, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Candidates, 1, name)
		require.Equal(t, id, page.Candidates[0].ID, "a pool has its own work and no other's")
	}
}

// testManyBytes makes changes of more bytes in one call than an adapter puts into one transaction. Each gets its own
// answer.
func testManyBytes(t *testing.T, k *kit) {
	result := append(append([]byte{'"'}, bytes.Repeat([]byte("0123456789 "), 200_000)...), '"')
	var changes []store.Change
	var ids []messages.ExecutionID
	for i := range 12 {
		e := k.bring(t, messages.Running)
		ids = append(ids, e.ID)
		attempt := messages.Attempt(1)
		if i == 5 {
			attempt = 0
		}
		changes = append(changes, &store.Finish{ID: e.ID, Attempt: attempt, Outcome: messages.Outcome{Status: messages.Completed, Result: result}})
	}
	for i, r := range k.apply(t, changes...) {
		want, status := store.Applied, messages.Completed
		if i == 5 {
			want, status = store.Stale, messages.Running
		}
		require.Equal(t, want, r.Verdict, i)
		require.Equal(t, status, k.get(t, ids[i]).Status)
	}
	require.True(t, bytes.Equal(result, k.get(t, ids[11]).Result))
}
