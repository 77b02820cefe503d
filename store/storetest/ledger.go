package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testCountRequested compares the counts of each stretch of time with the executions themselves.
func testCountRequested(t *testing.T, k *kit) {
	ctx := t.Context()
	now, err := k.Now(ctx)
	require.NoError(t, err)
	empty, err := k.CountRequested(ctx, now.Add(-time.Hour), now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, store.Counted{}, empty)

	var all []messages.Execution
	for _, status := range []messages.Status{messages.Requested, messages.Running, messages.Completed, messages.Failed, messages.Completed, messages.Cancelled} {
		all = append(all, k.bring(t, status))
	}
	failed := all[3]
	retried, err := k.Retry(ctx, failed.ID, messages.Execution{
		ID: messages.NewExecutionID(), Action: failed.Action, Pool: failed.Pool, Timeout: failed.Timeout, Original: failed.ID, RetryReason: "manual", RetryCount: 1,
	}, "someone")
	require.NoError(t, err)
	all = append(all, retried.Execution)
	taken := k.bring(t, messages.Scheduled)
	k.applied(t, &store.TakeBack{ID: taken.ID, Attempt: 1, Reason: "none"})
	all = append(all, taken)

	times := []time.Time{now.Add(-time.Hour), now.Add(time.Hour)}
	for i := range all {
		all[i] = k.get(t, all[i].ID)
		times = append(times, all[i].RequestedAt)
	}
	slices.SortFunc(times, time.Time.Compare)
	for i, from := range times {
		for _, to := range times[i:] {
			got, err := k.CountRequested(ctx, from, to)
			require.NoError(t, err)
			require.Zero(t, got.Until)
			require.Equal(t, countOf(all, from, to), got.Statuses, "from %s to %s", from, to)
		}
	}
}

// countOf counts executions by status as CountRequested does.
func countOf(all []messages.Execution, from, to time.Time) (counts []store.StatusCount) {
	for status := messages.Requested; status <= messages.Abandoned; status++ {
		c := store.StatusCount{Status: status}
		for i := range all {
			e := &all[i]
			if e.Status != status || e.RequestedAt.Before(from) || !e.RequestedAt.Before(to) {
				continue
			}
			c.N, c.Retries, c.Repeated = c.N+1, c.Retries+one(!e.Original.IsZero()), c.Repeated+one(e.CrashCount > 0)
			c.TakenBack, c.StateLost = c.TakenBack+one(e.TakeBacks > 0), c.StateLost+one(e.SessionLost)
		}
		if c.N > 0 {
			counts = append(counts, c)
		}
	}
	return counts
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
