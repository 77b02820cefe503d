package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// retryOf returns a requested retry.
func retryOf(e messages.Execution, change ...func(*messages.Execution)) messages.Execution {
	next := ask(change...)
	next.ID, next.Action, next.Pool, next.Session, next.Affinity = messages.NewExecutionID(), e.Action, e.Pool, e.Session, e.Affinity
	next.Parameters, next.Original, next.RetryCount, next.RetryReason = nil, e.ID, e.RetryCount+1, "manual_retry"
	return next
}

// testOneRetry checks that an execution has one retry, whoever asks for it and how often.
func testOneRetry(t *testing.T, k *kit) {
	for name, change := range map[string]func(*messages.Execution){
		"plain":   func(*messages.Execution) {},
		"labels":  func(e *messages.Execution) { e.Labels = map[string]string{"a": "1", "b": "2"} },
		"session": func(e *messages.Execution) { e.Session, e.Affinity = "retried", messages.AffinityStrict },
	} {
		e := k.bring(t, messages.Failed, change)
		first := retryOf(e, func(n *messages.Execution) { n.Labels = e.Labels })
		made, err := k.Retry(t.Context(), e.ID, first, "ann")
		require.NoError(t, err, name)
		require.False(t, made.Existing)
		require.Equal(t, first.ID, made.Execution.ID)
		require.Equal(t, messages.Requested, made.Execution.Status)
		require.Equal(t, e.Parameters, made.Execution.Parameters, "it has its forerunner's parameters")
		require.Equal(t, e.ID, made.Execution.Original)
		require.Equal(t, e.Labels, made.Execution.Labels)
		require.Equal(t, first.ID, k.get(t, e.ID).RetriedAs)

		again, err := k.Retry(t.Context(), e.ID, retryOf(e), "ann")
		require.NoError(t, err)
		require.True(t, again.Existing, name)
		require.Equal(t, first.ID, again.Execution.ID)
		repeated, err := k.Retry(t.Context(), e.ID, first, "ann")
		require.NoError(t, err)
		require.False(t, repeated.Existing, "a call that is repeated finds its own work")
		require.Equal(t, first.ID, repeated.Execution.ID)

		chain, err := k.Chain(t.Context(), e.ID)
		require.NoError(t, err)
		require.Len(t, chain, 2, name)
		k.start(t, made.Execution)
	}
}

// testRetryTimes checks that the times of a retry count from the store's own clock when it is stored, however far from it the clock was by
// which it was judged: a node estimates the store's, which may be set at any time.
func testRetryTimes(t *testing.T, k *kit) {
	const backOff, patience = 40 * time.Minute, time.Hour
	for name, step := range map[string]time.Duration{"as it was": 0, "ahead": 26 * time.Hour, "behind": -26 * time.Hour} {
		now, err := k.Now(t.Context())
		require.NoError(t, err)
		judged := func(e messages.Execution) *messages.Execution {
			next := retryOf(e)
			next.RequestedAt = now.Add(step)
			next.RunAt, next.QueueDeadline = next.RequestedAt.Add(backOff), next.RequestedAt.Add(patience)
			return &next
		}
		for _, status := range []messages.Status{messages.Requested, messages.Running, messages.Failed} {
			e := k.bring(t, status)
			next := judged(e)
			switch status {
			case messages.Requested:
				k.applied(t, &store.End{ID: e.ID, Outcome: failed(messages.Failed), Retry: next})
			case messages.Running:
				k.applied(t, &store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: failed(messages.Failed), Retry: next})
			default:
				_, err := k.Retry(t.Context(), e.ID, *next, "ann")
				require.NoError(t, err)
			}
			got := k.get(t, next.ID)
			require.Equal(t, []time.Duration{backOff, patience}, []time.Duration{got.RunAt.Sub(got.RequestedAt), got.QueueDeadline.Sub(got.RequestedAt)}, "%s, %s", name, status)
			require.WithinDuration(t, now, got.RequestedAt, time.Hour, "%s, %s", name, status)
		}
	}
}

// testRetryRaces checks that of many requests at the same time one makes the retry, and that all get a retry that an
// outcome has made.
func testRetryRaces(t *testing.T, k *kit) {
	e := k.bring(t, messages.TimedOut)
	ids := make([]messages.ExecutionID, 8)
	made := make([]bool, len(ids))
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := k.Retry(t.Context(), e.ID, retryOf(e), "ann")
			if err == nil {
				ids[i], made[i] = s.Execution.ID, !s.Existing
			}
		})
	}
	wg.Wait()
	stands := k.get(t, e.ID).RetriedAs
	count := 0
	for i, id := range ids {
		require.Equal(t, stands, id, "call %d", i)
		if made[i] {
			count++
		}
	}
	require.Equal(t, 1, count)
	chain, err := k.Chain(t.Context(), e.ID)
	require.NoError(t, err)
	require.Len(t, chain, 2)

	e = k.bring(t, messages.Running)
	next := retryOf(e, func(n *messages.Execution) { n.RunAt = time.Now().Add(time.Hour) })
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: crashed(), Retry: &next})
	s, err := k.Retry(t.Context(), e.ID, retryOf(e), "ann")
	require.NoError(t, err)
	require.True(t, s.Existing)
	require.Equal(t, next.ID, s.Execution.ID)
	require.Equal(t, 1, s.Execution.CrashCount)

	e = k.bring(t, messages.Running)
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: crashed()})
	s, err = k.Retry(t.Context(), e.ID, retryOf(e), "ann")
	require.NoError(t, err)
	require.Equal(t, 1, s.Execution.CrashCount, "a retry that is asked for goes on from the count too")
}

// testRetryRefused checks which executions a retry may not follow, and keys that other executions have.
func testRetryRefused(t *testing.T, k *kit) {
	for _, status := range []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling, messages.Completed} {
		e := k.bring(t, status)
		next := retryOf(e)
		_, err := k.Retry(t.Context(), e.ID, next, "ann")
		require.ErrorIs(t, err, store.ErrInvalid, status)
		_, err = k.Get(t.Context(), next.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	_, err := k.Retry(t.Context(), messages.NewExecutionID(), ask(), "ann")
	require.ErrorIs(t, err, store.ErrNotFound)

	e := k.bring(t, messages.Failed)
	_, err = k.Retry(t.Context(), e.ID, retryOf(e, func(n *messages.Execution) { n.Priority = 99 }), "ann")
	require.ErrorIs(t, err, store.ErrInvalid)

	holder := k.submit(t, ask(func(e *messages.Execution) { e.IdempotencyKey, e.RequestHash = "taken", []byte{1} }))[0]
	_, err = k.Retry(t.Context(), e.ID, retryOf(e, func(n *messages.Execution) { n.IdempotencyKey, n.RequestHash = "taken", []byte{2} }), "ann")
	require.ErrorIs(t, err, store.ErrConflict)
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, holder.ID, conflict.Holder)
	require.Zero(t, k.get(t, e.ID).RetriedAs, "a refused retry leaves nothing behind")

	mine := retryOf(e, func(n *messages.Execution) { n.IdempotencyKey, n.RequestHash = "mine", []byte{3} })
	made, err := k.Retry(t.Context(), e.ID, mine, "ann")
	require.NoError(t, err)
	require.Equal(t, "mine", made.Execution.IdempotencyKey)
	twin := mine
	twin.ID = messages.NewExecutionID()
	again, err := k.Retry(t.Context(), e.ID, twin, "ann")
	require.NoError(t, err)
	require.True(t, again.Existing)
	require.Equal(t, mine.ID, again.Execution.ID)
}
