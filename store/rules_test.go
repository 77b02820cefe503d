package store_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func TestNext(t *testing.T) {
	t.Parallel()
	for _, name := range store.Changes() {
		for _, s := range messages.Statuses() {
			to, ok := store.Next(name, s)
			require.False(t, ok && s.Terminal(), "%s leaves %s, which is terminal", name, s)
			require.True(t, ok || to == messages.StatusInvalid)
			if name == "finish" || name == "rescue" {
				require.Equal(t, s.Started(), ok)
			}
		}
		_, ok := store.Next(name, messages.StatusInvalid)
		require.False(t, ok)
	}
	_, ok := store.Next("promote", messages.Requested)
	require.False(t, ok)
}

// TestEveryStatusLeads checks that every status that is not terminal has a change to another status.
func TestEveryStatusLeads(t *testing.T) {
	t.Parallel()
	for _, s := range messages.Statuses() {
		leads := false
		for _, name := range store.Changes() {
			_, ok := store.Next(name, s)
			leads = leads || ok
		}
		require.Equal(t, !s.Terminal(), leads, s)
	}
}

// TestWhatAnEndMeans checks for each status whether a retry may follow and whether the run left its session's state.
func TestWhatAnEndMeans(t *testing.T) {
	t.Parallel()
	retried := []messages.Status{messages.Failed, messages.Cancelled, messages.TimedOut, messages.Abandoned}
	leaves := []messages.Status{messages.Completed, messages.Failed, messages.Cancelled}
	for _, s := range messages.Statuses() {
		require.Equal(t, slices.Contains(retried, s), store.MayBeRetried(s), s)
		require.Equal(t, slices.Contains(retried, s), store.NotRetried(&messages.Execution{Status: s}) == nil, s)
		require.Equal(t, slices.Contains(leaves, s), store.LeavesState(s), s)
	}
}

func TestNamesAndTargets(t *testing.T) {
	t.Parallel()
	id := messages.NewExecutionID()
	var names []string
	for _, c := range []store.Change{&store.Place{ID: id}, &store.TakeBack{ID: id}, &store.Claim{ID: id}, &store.Finish{ID: id}, &store.End{ID: id}, &store.Cancel{ID: id}, &store.Rescue{ID: id}} {
		require.Equal(t, id, c.Target())
		names = append(names, c.Name())
	}
	require.Equal(t, store.Changes(), names)
	require.Equal(t, "refused", store.Refused.String())
	require.Equal(t, "verdict", store.Verdict(99).String())
}

func TestRecordedOutcome(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		from := rapid.SampledFrom(messages.Statuses()).Draw(r, "from")
		o := messages.Outcome{Status: rapid.SampledFrom(messages.Statuses()).Draw(r, "status"), Result: rapid.SliceOf(rapid.Byte()).Draw(r, "result")}
		got := store.RecordedOutcome(from, o)
		if from != messages.Cancelling || o.Status == messages.Cancelled {
			require.Equal(r, o, got)
			return
		}
		require.Equal(r, messages.Cancelled, got.Status)
		require.True(r, json.Valid(got.Error.Details))
	})
}

func TestConflictError(t *testing.T) {
	t.Parallel()
	err := &store.ConflictError{Key: "k", Holder: messages.NewExecutionID()}
	require.ErrorIs(t, err, store.ErrConflict)
	require.NotErrorIs(t, err, store.ErrNotFound)
	require.ErrorContains(t, err, err.Holder.String())
}
