package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// preview stores a preview, changed by the given functions.
func (k *kit) preview(t *testing.T, change ...func(o *store.Operation)) store.Operation {
	o := store.Operation{ID: messages.NewOperationID(), Kind: "retry", Filter: json.RawMessage(`{"status":["failed"]}`), SeqMax: 7, Count: 3, Exact: true, By: "ann"}
	for _, c := range change {
		c(&o)
	}
	stored, err := k.AddOperation(t.Context(), o, time.Hour)
	require.NoError(t, err)
	return stored
}

// started stores an operation and starts it.
func (k *kit) started(t *testing.T, change ...func(o *store.Operation)) store.Operation {
	o, err := k.StartOperation(t.Context(), k.preview(t, change...).ID, "because", 200)
	require.NoError(t, err)
	return o
}

// held are the operations that an incarnation works on.
func (k *kit) held(t *testing.T, inc messages.Incarnation) []store.Operation {
	held, err := k.LeaseOperations(t.Context(), inc)
	require.NoError(t, err)
	return held
}

// testOperations checks that an operation keeps every field on its way from the preview to its end.
func testOperations(t *testing.T, k *kit) {
	ctx := t.Context()
	ids := []store.OperationItem{store.ExecutionItem(messages.NewExecutionID()), store.LetterItem(1<<40 + 7)}
	o := store.Operation{ID: messages.NewOperationID(), Kind: "cancel", IDs: ids, SeqMax: 9, Count: 2, By: "añn"}
	var stored store.Operation
	for range 2 {
		var err error
		stored, err = k.AddOperation(ctx, o, time.Hour)
		require.NoError(t, err)
	}
	require.WithinDuration(t, stored.CreatedAt.Add(time.Hour), stored.ExpiresAt, time.Millisecond)
	o.State, o.CreatedAt, o.ExpiresAt = store.OperationPreviewed, stored.CreatedAt, stored.ExpiresAt
	require.Equal(t, o, stored)
	require.Empty(t, k.held(t, k.inc), "nobody works on a preview")
	listed, err := k.ListOperations(ctx, store.OperationQuery{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, listed)

	for range 2 {
		stored, err = k.StartOperation(ctx, o.ID, "wrong import", 50)
		require.NoError(t, err)
	}
	again, err := k.StartOperation(ctx, o.ID, "other", 1)
	require.NoError(t, err)
	require.Equal(t, stored, again, "what was started does not change")
	require.False(t, stored.StartedAt.IsZero())
	o.State, o.Reason, o.Rate, o.StartedAt = store.OperationRunning, "wrong import", 50, stored.StartedAt
	require.Equal(t, o, stored)

	held := k.held(t, k.inc)
	o.Incarnation, o.Epoch = k.inc, 1
	require.Equal(t, []store.Operation{o}, held)
	require.Equal(t, held, k.held(t, k.inc), "it keeps what it holds")

	o.Cursor, o.Pending, o.Done, o.Skipped, o.Failed = 1, ids[:1], 5, 6, 1
	o.Skips, o.Failures = map[string]int64{"ended": 6}, []store.OperationFailure{{Execution: ids[0].Execution(), Error: "no \x01"}, {DeadLetter: ids[1].Letter(), Error: "no"}}
	for range 2 {
		state, err := k.SaveOperation(ctx, &o)
		require.NoError(t, err)
		require.Equal(t, store.OperationRunning, state)
	}
	require.Equal(t, []store.Operation{o}, k.held(t, k.inc))

	o.Pending, o.State, o.Problem = nil, store.OperationFailed, "it cannot go on"
	state, err := k.SaveOperation(ctx, &o)
	require.NoError(t, err)
	require.Equal(t, store.OperationFailed, state)
	require.Empty(t, k.held(t, k.inc))
	stored, err = k.GetOperation(ctx, o.ID)
	require.NoError(t, err)
	require.False(t, stored.EndedAt.Before(stored.StartedAt))
	o.EndedAt = stored.EndedAt
	require.Equal(t, o, stored)
	_, err = k.SaveOperation(ctx, &o)
	require.ErrorIs(t, err, store.ErrTaken, "it has ended")
	require.True(t, o.State.Ended())
}

// testOperationsTaken checks that of several nodes one works on an operation, and that another one goes on with what was saved.
func testOperationsTaken(t *testing.T, k *kit) {
	ctx := t.Context()
	o := k.started(t)
	require.Empty(t, k.held(t, messages.NewIncarnation()), "an unknown incarnation takes none")
	first := k.held(t, k.inc)
	require.Len(t, first, 1)
	mine := first[0]
	mine.Cursor, mine.Done, mine.Pending = 4, 2, []store.OperationItem{store.ExecutionItem(messages.NewExecutionID())}
	_, err := k.SaveOperation(ctx, &mine)
	require.NoError(t, err)

	require.NoError(t, k.SetNode(ctx, k.inc, store.NodeDead))
	next := k.join(t, time.Hour)
	taken := k.held(t, next)
	require.Len(t, taken, 1)
	require.Equal(t, o.ID, taken[0].ID)
	require.Equal(t, int64(2), taken[0].Epoch)
	require.Equal(t, next, taken[0].Incarnation)
	require.Equal(t, mine.Pending, taken[0].Pending)
	require.Equal(t, mine.Cursor, taken[0].Cursor)
	require.Equal(t, int64(2), taken[0].Done)

	mine.Done = 9
	_, err = k.SaveOperation(ctx, &mine)
	require.ErrorIs(t, err, store.ErrTaken)
	stale := taken[0]
	stale.Epoch = 1
	_, err = k.SaveOperation(ctx, &stale)
	require.ErrorIs(t, err, store.ErrTaken)
	found, err := k.GetOperation(ctx, o.ID)
	require.NoError(t, err)
	require.Equal(t, int64(2), found.Done)

	require.NoError(t, k.SetNode(ctx, next, store.NodeDraining))
	k.started(t)
	require.Len(t, k.held(t, next), 1, "a node that drains keeps what it has, and takes no more")
}

// testOperationsStopped checks that the holder hears of a stop, and that nothing else is stopped.
func testOperationsStopped(t *testing.T, k *kit) {
	ctx := t.Context()
	preview := k.preview(t)
	stopped, err := k.StopOperation(ctx, preview.ID)
	require.NoError(t, err)
	require.Equal(t, store.OperationPreviewed, stopped.State)

	k.started(t)
	o := k.held(t, k.inc)[0]
	for range 2 {
		stopped, err = k.StopOperation(ctx, o.ID)
		require.NoError(t, err)
		require.Equal(t, store.OperationStopping, stopped.State)
	}
	o.Done = 3
	state, err := k.SaveOperation(ctx, &o)
	require.NoError(t, err)
	require.Equal(t, store.OperationStopping, state, "saving progress does not undo the stop")
	require.Equal(t, store.OperationStopping, k.held(t, k.inc)[0].State)
	o.State = store.OperationStopped
	_, err = k.SaveOperation(ctx, &o)
	require.NoError(t, err)
	stopped, err = k.StopOperation(ctx, o.ID)
	require.NoError(t, err)
	require.Equal(t, store.OperationStopped, stopped.State)
	require.Equal(t, int64(3), stopped.Done)
	_, err = k.StopOperation(ctx, messages.NewOperationID())
	require.ErrorIs(t, err, store.ErrNotFound)
}

// testOperationsBounded checks the bounds on previews, on operations that have not ended, and how long ended ones stay.
func testOperationsBounded(t *testing.T, k *kit) {
	ctx := t.Context()
	old, err := k.AddOperation(ctx, store.Operation{ID: messages.NewOperationID(), Kind: "retry", By: "bob"}, -time.Second)
	require.NoError(t, err)
	_, err = k.StartOperation(ctx, old.ID, "", 1)
	require.ErrorIs(t, err, store.ErrNotFound, "its time is over")
	other := k.preview(t, func(o *store.Operation) { o.By = "bob" })
	_, err = k.GetOperation(ctx, old.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "the next preview deletes it")
	var previews []store.Operation
	for range store.PreviewsMax + 2 {
		previews = append(previews, k.preview(t))
	}
	for i, p := range previews {
		_, err := k.GetOperation(ctx, p.ID)
		require.Equal(t, i < 2, err != nil, "preview %d: %v", i, err)
	}
	_, err = k.GetOperation(ctx, other.ID)
	require.NoError(t, err, "those of others stay")

	var running []store.Operation
	for i := range store.OperationsMax {
		running = append(running, k.started(t, func(o *store.Operation) { o.By = fmt.Sprint(i) }))
	}
	one := k.preview(t)
	_, err = k.StartOperation(ctx, one.ID, "", 1)
	require.ErrorIs(t, err, store.ErrCrowded)
	again, err := k.StartOperation(ctx, running[3].ID, "", 1)
	require.NoError(t, err)
	require.Equal(t, running[3], again, "what runs may be started again")
	for _, o := range k.held(t, k.inc) {
		o.State = store.OperationDone
		_, err := k.SaveOperation(ctx, &o)
		require.NoError(t, err)
	}
	_, err = k.StartOperation(ctx, one.ID, "", 1)
	require.NoError(t, err)
	k.listsOperations(t, append(running, one))

	now, err := k.Now(ctx)
	require.NoError(t, err)
	_, err = k.Purge(ctx, store.Purge{JournalBefore: now.Add(time.Hour)})
	require.NoError(t, err)
	k.listsOperations(t, []store.Operation{one})
}

// listsOperations checks that the list has the operations, newest first, in pages of any size.
func (k *kit) listsOperations(t *testing.T, oldest []store.Operation) {
	for _, limit := range []int{1, 7, 1000} {
		var got []messages.OperationID
		for q := (store.OperationQuery{Limit: limit}); ; {
			page, err := k.ListOperations(t.Context(), q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			if len(page) == 0 {
				break
			}
			for i := range page {
				got, q.After = append(got, page[i].ID), store.OperationCursor{At: page[i].CreatedAt, ID: page[i].ID}
			}
		}
		require.Len(t, got, len(oldest))
		for i := range oldest {
			require.Equal(t, oldest[len(oldest)-1-i].ID, got[i])
		}
	}
}

// testOperationsOfATime checks that operations are listed by when they were started.
func testOperationsOfATime(t *testing.T, k *kit) {
	late := k.preview(t) // the oldest, and started last
	var all []store.Operation
	for range 4 {
		all = append(all, k.started(t))
	}
	k.preview(t)
	late, err := k.StartOperation(t.Context(), late.ID, "because", 200)
	require.NoError(t, err)
	require.True(t, late.StartedAt.After(all[0].StartedAt))
	all = append([]store.Operation{late}, all...)
	moments := []time.Time{{}, late.StartedAt.Add(time.Hour)}
	for i := range all {
		moments = append(moments, all[i].StartedAt)
	}
	for _, from := range moments {
		for _, to := range moments {
			var want, got []messages.OperationID
			for i := len(all) - 1; i >= 0; i-- {
				if at := all[i].StartedAt; !at.Before(from) && (to.IsZero() || at.Before(to)) {
					want = append(want, all[i].ID)
				}
			}
			for q := (store.OperationQuery{From: from, To: to, Limit: 2}); ; {
				page, err := k.ListOperations(t.Context(), q)
				require.NoError(t, err)
				if len(page) == 0 {
					break
				}
				for i := range page {
					got, q.After = append(got, page[i].ID), store.OperationCursor{At: page[i].CreatedAt, ID: page[i].ID}
				}
			}
			require.Equal(t, want, got, "from %s to %s", from, to)
		}
	}
}

// testOperationsRefused checks that operations beyond the bounds are refused.
func testOperationsRefused(t *testing.T, k *kit) {
	for name, change := range map[string]func(o *store.Operation){
		"no id":   func(o *store.Operation) { o.ID = messages.OperationID{} },
		"no kind": func(o *store.Operation) { o.Kind = "" },
		"no JSON": func(o *store.Operation) { o.Filter = json.RawMessage("{") },
		"long filter": func(o *store.Operation) {
			o.Filter = json.RawMessage(`"` + strings.Repeat("x", store.OperationFilterMax) + `"`)
		},
		"long reason":  func(o *store.Operation) { o.Reason = strings.Repeat("x", store.OperationTextMax+1) },
		"many ids":     func(o *store.Operation) { o.IDs = make([]store.OperationItem, store.OperationIDsMax+1) },
		"many pending": func(o *store.Operation) { o.Pending = make([]store.OperationItem, store.OperationPendingMax+1) },
		"many failures": func(o *store.Operation) {
			o.Failures = make([]store.OperationFailure, store.OperationFailuresMax+1)
		},
	} {
		o := store.Operation{ID: messages.NewOperationID(), Kind: "retry"}
		change(&o)
		_, err := k.AddOperation(t.Context(), o, time.Hour)
		require.ErrorIs(t, err, store.ErrInvalid, name)
		_, err = k.SaveOperation(t.Context(), &o)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	_, err := k.GetOperation(t.Context(), messages.NewOperationID())
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = k.StartOperation(t.Context(), messages.NewOperationID(), "", 1)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// testListBetween checks that a list in either order has both bounds.
func testListBetween(t *testing.T, k *kit) {
	var all []messages.Execution
	for range 6 {
		all = append(all, k.bring(t, messages.Failed))
	}
	for _, oldest := range []bool{true, false} {
		page, err := k.List(t.Context(), store.Filter{Statuses: []messages.Status{messages.Failed}, Oldest: oldest, After: all[0].Seq, Before: all[4].Seq})
		require.NoError(t, err)
		var got []int64
		for i := range page.Executions {
			got = append(got, page.Executions[i].Seq)
		}
		want := []int64{all[1].Seq, all[2].Seq, all[3].Seq}
		if !oldest {
			want = []int64{all[3].Seq, all[2].Seq, all[1].Seq}
		}
		require.Equal(t, want, got)
		require.Equal(t, store.MoreEnd, page.More)
	}
}

// testOperationLeases checks that an operation is taken from a node whose lease has run out, and not before.
func testOperationLeases(t *testing.T, k *kit) {
	const lease = 50 * time.Millisecond
	other := k.join(t, time.Hour)
	o := k.started(t)
	require.Len(t, k.held(t, other), 1)
	require.Empty(t, k.held(t, k.inc), "its lease is live")
	p, err := k.Beat(t.Context(), other, lease)
	require.NoError(t, err)
	k.past(t, p.Lease)
	taken := k.held(t, k.inc)
	require.Len(t, taken, 1)
	require.Equal(t, o.ID, taken[0].ID)
	require.Equal(t, int64(2), taken[0].Epoch)
	require.Empty(t, k.held(t, other))
}
