package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// letterIDs are the numbers of dead letters.
func letterIDs(letters []store.Letter) (ids []int64) {
	for i := range letters {
		ids = append(ids, letters[i].ID)
	}
	return ids
}

// testManyDeadLetters checks that dead letters are read with the state of their executions, by position and by number.
func testManyDeadLetters(t *testing.T, k *kit) {
	ctx := t.Context()
	failed, runs := k.bring(t, messages.Failed), k.bring(t, messages.Running)
	next := retryOf(failed)
	_, err := k.Retry(ctx, failed.ID, next, "")
	require.NoError(t, err)
	d := store.DeadLetter{Attempt: 2, Action: "a.b", Worker: workerID(1), Queue: "q", Reason: "expired", Resolution: "failed", Headers: []byte("{}"), Body: []byte("x")}
	var ids []int64
	for _, id := range []messages.ExecutionID{failed.ID, runs.ID, messages.NewExecutionID(), {}} {
		d.Execution = id
		number, err := k.SaveDeadLetter(ctx, d)
		require.NoError(t, err)
		ids = append(ids, number)
	}
	all, err := k.WalkDeadLetters(ctx, 0, ids[3], 100)
	require.NoError(t, err)
	require.Equal(t, ids, letterIDs(all), "oldest first")
	one, err := k.GetDeadLetter(ctx, ids[0])
	require.NoError(t, err)
	one.Headers, one.Body, one.BodySize = nil, nil, 0
	require.Equal(t, store.Letter{DeadLetter: one, Status: messages.Failed, RetriedAs: next.ID}, all[0])
	require.Equal(t, []messages.Status{messages.Running, messages.StatusInvalid, messages.StatusInvalid}, []messages.Status{all[1].Status, all[2].Status, all[3].Status})
	page, err := k.WalkDeadLetters(ctx, ids[0], ids[2], 100)
	require.NoError(t, err)
	require.Equal(t, ids[1:3], letterIDs(page), "above one and up to another")
	page, err = k.WalkDeadLetters(ctx, 0, ids[3], 1)
	require.NoError(t, err)
	require.Equal(t, ids[:1], letterIDs(page))

	d.Execution = all[2].Execution // that is not stored
	number, err := k.SaveDeadLetter(ctx, d)
	require.NoError(t, err)
	of := func(id messages.ExecutionID, limit int) (ids []int64) {
		list, err := k.DeadLettersOf(ctx, id, limit)
		require.NoError(t, err)
		for _, d := range list {
			require.Equal(t, id, d.Execution)
			require.Empty(t, d.Body)
			ids = append(ids, d.ID)
		}
		return ids
	}
	require.Equal(t, []int64{number, ids[2]}, of(d.Execution, 10), "newest first")
	require.Equal(t, []int64{number}, of(d.Execution, 1))
	require.Equal(t, ids[:1], of(failed.ID, 10))
	require.Empty(t, of(messages.NewExecutionID(), 10))

	found, err := k.FindDeadLetters(ctx, []int64{ids[3], 1 << 40, ids[0]})
	require.NoError(t, err)
	require.ElementsMatch(t, []store.Letter{all[0], all[3]}, found)
	found, err = k.FindDeadLetters(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, found)
}

// testDeadLettersResolved checks that what a person did with many dead letters is kept, and what of them was handled before stays.
func testDeadLettersResolved(t *testing.T, k *kit) {
	ctx := t.Context()
	var ids []int64
	for _, resolution := range []string{"failed", "quarantined: \x01", "discarded", "requeued", "stale"} {
		id, err := k.SaveDeadLetter(ctx, store.DeadLetter{Reason: "expired", Resolution: resolution})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	changed, err := k.ResolveDeadLetters(ctx, append([]int64{1 << 40}, ids[:4]...), "discarded", "requeued", "discarded")
	require.NoError(t, err)
	require.ElementsMatch(t, ids[:2], changed)
	changed, err = k.ResolveDeadLetters(ctx, ids[:4], "discarded", "requeued", "discarded")
	require.NoError(t, err)
	require.Empty(t, changed, "once")
	changed, err = k.ResolveDeadLetters(ctx, ids[2:4], "requeued", "requeued")
	require.NoError(t, err)
	require.Equal(t, ids[2:3], changed)
	all, err := k.WalkDeadLetters(ctx, 0, ids[4], 10)
	require.NoError(t, err)
	var got []string
	for i := range all {
		got = append(got, all[i].Resolution)
	}
	require.Equal(t, []string{"discarded", "discarded", "requeued", "requeued", "stale"}, got)
}
