package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testKeyframes checks that each incarnation has one keyframe in an answer, the nearest to the end that was asked for.
func testKeyframes(t *testing.T, k *kit) {
	ctx := t.Context()
	start := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	other := messages.NewIncarnation()
	read := func(from, to int, oldest bool) (got []string) {
		q := store.KeyframeQuery{From: start.Add(time.Duration(from) * time.Minute), To: start.Add(time.Duration(to) * time.Minute), Oldest: oldest}
		frames, err := k.ReadKeyframes(ctx, q)
		require.NoError(t, err)
		for i := range frames {
			require.Equal(t, frames[i].At, frames[i].At.Truncate(time.Minute))
			got = append(got, string(frames[i].Frame))
		}
		return got
	}
	require.Empty(t, read(0, 100, false))
	for i := range 4 {
		at := start.Add(time.Duration(5*i) * time.Minute)
		require.NoError(t, k.SaveKeyframe(ctx, store.Keyframe{Incarnation: k.inc, At: at, Frame: []byte("first")}))
		require.NoError(t, k.SaveKeyframe(ctx, store.Keyframe{Incarnation: k.inc, At: at, Frame: fmt.Appendf(nil, "own %d", 5*i)}))
	}
	require.NoError(t, k.SaveKeyframe(ctx, store.Keyframe{Incarnation: other, At: start.Add(7 * time.Minute), Frame: []byte{0, 255}}))
	require.ElementsMatch(t, []string{"own 15", "\x00\xff"}, read(0, 100, false))
	require.ElementsMatch(t, []string{"own 0", "\x00\xff"}, read(0, 100, true))
	require.Equal(t, []string{"own 5"}, read(1, 7, false), "the end is not in the time")
	require.ElementsMatch(t, []string{"own 5", "\x00\xff"}, read(5, 10, true), "its beginning is")
	require.Empty(t, read(16, 100, false))

	for name, bad := range map[string]store.Keyframe{
		"no incarnation": {At: start, Frame: []byte("f")}, "no time": {Incarnation: k.inc, Frame: []byte("f")}, "empty": {Incarnation: k.inc, At: start},
		"long": {Incarnation: k.inc, At: start, Frame: make([]byte, store.KeyframeMax+1)},
	} {
		require.ErrorIs(t, k.SaveKeyframe(ctx, bad), store.ErrInvalid, name)
	}
	purged, err := k.Purge(ctx, store.Purge{JournalBefore: start.Add(10 * time.Minute), Limit: 1000})
	require.NoError(t, err)
	require.Equal(t, 3, purged.Rows)
	require.Equal(t, []string{"own 10"}, read(0, 100, true))
}

// testWorkerEventsBetween checks that the transitions of a time come in its order, and which of them come where there are too many.
func testWorkerEventsBetween(t *testing.T, k *kit) {
	ctx := t.Context()
	start := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	read := func(q store.WorkerEventQuery) (got []string, more bool) {
		page, err := k.WorkerEventsBetween(ctx, q)
		require.NoError(t, err)
		for i := range page.Events {
			e := &page.Events[i]
			require.Equal(t, k.key(int(e.Key.Slot)), e.Key)
			require.Equal(t, []any{messages.Generation(3), "ready", time.Second}, []any{e.Generation, e.From, e.Lasted})
			got = append(got, fmt.Sprintf("%v %d %s", e.At.Sub(start).Seconds(), e.Key.Slot, e.To))
		}
		return got, page.More
	}
	var events []store.WorkerEvent
	for i, at := range []int{1, 0, 2, 2, 3} {
		events = append(events, store.WorkerEvent{
			Key: k.key(i % 2), Generation: 3, At: start.Add(time.Duration(at) * time.Second), From: "ready", To: fmt.Sprint("to", i), Reason: "error", Lasted: time.Second,
		})
	}
	require.NoError(t, k.RecordTransitions(ctx, events, make([]string, len(events))))
	all := []string{"0 1 to1", "1 0 to0", "2 0 to2", "2 1 to3", "3 0 to4"}
	for _, newest := range []bool{false, true} {
		got, more := read(store.WorkerEventQuery{From: start, To: start.Add(time.Minute), Newest: newest})
		require.Equal(t, all, got)
		require.False(t, more)
		got, more = read(store.WorkerEventQuery{From: start.Add(time.Second), To: start.Add(3 * time.Second), Newest: newest})
		require.Equal(t, all[1:4], got)
		require.False(t, more)
	}
	got, more := read(store.WorkerEventQuery{From: start, To: start.Add(time.Minute), Limit: 2})
	require.Equal(t, all[:2], got)
	require.True(t, more)
	got, more = read(store.WorkerEventQuery{From: start, To: start.Add(time.Minute), Limit: 2, Newest: true})
	require.Equal(t, all[3:], got)
	require.True(t, more)
}
