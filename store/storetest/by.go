package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testEventsNameWho checks that the event of a requested change names who asked, and that other events name nobody.
func testEventsNameWho(t *testing.T, k *kit) {
	for _, c := range []struct {
		from   messages.Status
		by     string
		change func(id messages.ExecutionID) store.Change
	}{
		{messages.Requested, "ann", func(id messages.ExecutionID) store.Change { return &store.Cancel{ID: id, By: "ann"} }},
		{messages.Scheduled, "ann", func(id messages.ExecutionID) store.Change { return &store.Cancel{ID: id, By: "ann"} }},
		{messages.Running, "ann", func(id messages.ExecutionID) store.Change { return &store.Cancel{ID: id, By: "ann"} }},
		{messages.Scheduled, "ops", func(id messages.ExecutionID) store.Change {
			return &store.TakeBack{ID: id, Attempt: 1, Reason: "node is draining", By: "ops"}
		}},
		{messages.Scheduled, "", func(id messages.ExecutionID) store.Change {
			return &store.TakeBack{ID: id, Attempt: 1, Reason: "unpublished"}
		}},
		{messages.Running, "ops", func(id messages.ExecutionID) store.Change {
			return &store.Finish{ID: id, Attempt: 1, Outcome: crashed(), By: "ops"}
		}},
		{messages.Running, "ops", func(id messages.ExecutionID) store.Change {
			return &store.Finish{ID: id, Attempt: 1, Outcome: failed(messages.Failed), By: "ops"}
		}},
		{messages.Cancelling, "ops", func(id messages.ExecutionID) store.Change {
			return &store.Finish{ID: id, Attempt: 1, Outcome: crashed(), By: "ops"}
		}},
		{messages.Running, "", func(id messages.ExecutionID) store.Change {
			return &store.Finish{ID: id, Attempt: 1, Outcome: crashed()}
		}},
		{messages.Running, "ops", func(id messages.ExecutionID) store.Change {
			return &store.Rescue{ID: id, Attempt: 1, Reason: "killed", Unstarted: true, By: "ops"}
		}},
		{messages.Cancelling, "ops", func(id messages.ExecutionID) store.Change {
			return &store.Rescue{ID: id, Attempt: 1, Reason: "killed", By: "ops"}
		}},
	} {
		e := k.bring(t, c.from)
		change := c.change(e.ID)
		k.applied(t, change)
		last := k.lastEvent(t, e.ID)
		require.Equal(t, change.Name(), last.Kind)
		require.Equal(t, c.by, last.By, "%s from %s", last.Kind, c.from)
		require.Equal(t, c.from, last.From)
		if last.Kind == "cancel" {
			require.Empty(t, last.Reason, "who asked is no reason")
		}
	}

	e := k.bring(t, messages.Failed)
	next := retryOf(e)
	_, err := k.Retry(t.Context(), e.ID, next, "ann")
	require.NoError(t, err)
	last := k.lastEvent(t, e.ID)
	require.Equal(t, store.Event{Attempt: 1, Kind: "retry", From: messages.Failed, To: messages.Failed, Reason: next.ID.String(),
		Worker: string(e.WorkerID), By: "ann", At: last.At}, last)

	e = k.bring(t, messages.Running)
	next = retryOf(e)
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: crashed(), Retry: &next, By: "ops"})
	events := k.events(t, e.ID)
	require.Equal(t, []string{"retry", "", "finish", "ops"},
		[]string{events[len(events)-2].Kind, events[len(events)-2].By, events[len(events)-1].Kind, events[len(events)-1].By},
		"nobody asked for the retry that followed")
}

func (k *kit) events(t *testing.T, id messages.ExecutionID) []store.Event {
	events, err := k.Events(t.Context(), id)
	require.NoError(t, err)
	require.NotEmpty(t, events)
	return events
}

func (k *kit) lastEvent(t *testing.T, id messages.ExecutionID) store.Event {
	events := k.events(t, id)
	return events[len(events)-1]
}
