package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func telling(e *messages.Execution) { e.Notify = true }

// executionIDs are the executions' ids, in order.
func executionIDs(executions []messages.Execution) []messages.ExecutionID {
	out := make([]messages.ExecutionID, len(executions))
	for i := range executions {
		out[i] = executions[i].ID
	}
	return out
}

// take takes notices for an hour, so that what comes again is a second notice.
func (k *kit) take(t *testing.T) []messages.ExecutionID {
	t.Helper()
	got, err := k.TakeNotices(t.Context(), time.Hour, 1000)
	require.NoError(t, err)
	return executionIDs(got)
}

// testNotices: a notice exists exactly for the changes that end an execution with Notify set.
func testNotices(t *testing.T, k *kit) {
	require.Empty(t, k.take(t))
	count, oldest, err := k.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Zero(t, count)
	require.True(t, oldest.IsZero())
	for _, notify := range []bool{true, false} {
		set := func(e *messages.Execution) { e.Notify = notify }
		for _, name := range store.Changes() {
			for _, from := range reachable() {
				if from.Terminal() {
					continue
				}
				e := k.bring(t, from, set)
				require.Equal(t, notify, e.Notify)
				require.Empty(t, k.take(t), "%s is no end", from)
				c := k.changeTo(name, e)
				r := k.apply(t, c)[0]
				var want []messages.ExecutionID
				if notify && r.Verdict == store.Applied && r.Status.Terminal() {
					want = []messages.ExecutionID{e.ID}
				}
				require.ElementsMatch(t, want, k.take(t), "%s from %s", name, from)
				k.apply(t, c)
				require.Empty(t, k.take(t), "%s from %s, made again", name, from)
			}
		}
	}
	count, oldest, err = k.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, count, "finish twice, end twice, cancel twice, rescue once")
	require.False(t, oldest.IsZero())
}

// testNoticeRetry: the retry of an execution that tells is told too, each by its own notice.
func testNoticeRetry(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running, telling, func(e *messages.Execution) { e.MaxRetries = 1 })
	next := ask(telling, func(n *messages.Execution) { n.Original, n.RetryCount = e.ID, 1 })
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &next})
	got, err := k.TakeNotices(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, next.ID, got[0].RetriedAs)
	require.True(t, k.get(t, next.ID).Notify)
	k.applied(t, &store.End{ID: next.ID, Outcome: failed(messages.Failed)})
	require.Equal(t, []messages.ExecutionID{next.ID}, k.take(t))
}

// testNoticesTaken: taken notices come whole, oldest first, once in hold, and again after it until they are sent.
func testNoticesTaken(t *testing.T, k *kit) {
	large := json.RawMessage(`"` + strings.Repeat("x", 200_000) + `"`)
	var ended []messages.Execution
	for i := range 5 {
		e := k.bring(t, messages.Running, telling)
		o := completed()
		if i == 3 {
			o.Result = large
		}
		if i == 4 {
			o = failed(messages.Failed)
		}
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: o})
		ended = append(ended, k.get(t, e.ID))
	}
	first, err := k.TakeNotices(t.Context(), time.Hour, 2)
	require.NoError(t, err)
	require.Equal(t, executionIDs(ended[:2]), executionIDs(first))
	const hold = 300 * time.Millisecond
	rest, err := k.TakeNotices(t.Context(), hold, 100)
	require.NoError(t, err)
	require.Len(t, rest, 3)
	for i := range rest {
		want := ended[i+2]
		want.Parameters = nil
		require.Equal(t, want, rest[i], "whole, but for its parameters")
	}
	require.NoError(t, k.NoticesSent(t.Context(), []messages.ExecutionID{ended[3].ID, messages.NewExecutionID()}))
	require.NoError(t, k.NoticesSent(t.Context(), nil))
	var again []messages.ExecutionID
	require.Eventually(t, func() bool {
		again = append(again, k.take(t)...)
		return len(again) >= 2
	}, 10*time.Second, 20*time.Millisecond, "held ones come again")
	require.Equal(t, []messages.ExecutionID{ended[2].ID, ended[4].ID}, again)
	count, _, err := k.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, count, "held ones are pending")
	require.NoError(t, k.NoticesSent(t.Context(), executionIDs(ended)))
	require.NoError(t, k.NoticesSent(t.Context(), executionIDs(ended)))
	count, oldest, err := k.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Zero(t, count)
	require.True(t, oldest.IsZero())
}

// testDeadLetterKeys: a death that is handled twice leaves one record, however many share a time.
func testDeadLetterKeys(t *testing.T, k *kit) {
	e := k.bring(t, messages.Scheduled)
	d := store.DeadLetter{Execution: e.ID, Attempt: 1, Queue: "q", Reason: "expired", Resolution: "failed", Key: "death/1"}
	first, err := k.SaveDeadLetter(t.Context(), d)
	require.NoError(t, err)
	d.Resolution = "stale"
	again, err := k.SaveDeadLetter(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, first, again)
	d.Key = "death/2"
	other, err := k.SaveDeadLetter(t.Context(), d)
	require.NoError(t, err)
	require.NotEqual(t, first, other)
	got, err := k.GetDeadLetter(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, "failed", got.Resolution, "the record stays as it is")
	list, err := k.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	events, err := k.Events(t.Context(), e.ID)
	require.NoError(t, err)
	letters := 0
	for _, event := range events {
		if event.Kind == "dead_letter" {
			letters++
		}
	}
	require.Equal(t, 2, letters)
}
