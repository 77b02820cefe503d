package link

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// carried is an execution that was stored with its claim, for the worker in a slot.
func carried(slot messages.Slot) (*store.Claim, *messages.Execution) {
	worker := messages.WorkerKey{Incarnation: nearby, Pool: "pool", Slot: slot}
	e := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Running, Worker: worker, Generation: 3}
	return &store.Claim{ID: e.ID, Attempt: 1, Worker: worker, Generation: 3}, e
}

// given lists the executions that were given back as never started.
func given(t *testing.T, l *Link) (ids []messages.ExecutionID) {
	for i := range l.Items {
		rescue, ok := l.Items[i].Change.(*store.Rescue)
		require.True(t, ok && rescue.Unstarted && rescue.Attempt == 1, "%+v", l.Items[i].Change)
		ids = append(ids, rescue.ID)
	}
	l.Items = nil
	return ids
}

// What was stored with its claim is given to its worker and runs for the router. Where the worker is gone it is given back, and so is
// what has not come to a worker that ended in order. What has come to it, its worker has written off itself.
func TestALinkGivesBackWhatDoesNotComeToItsWorker(t *testing.T) {
	t.Parallel()
	s, _, _ := alone()
	l, workers, own := New(s, Left{}), &crowd{}, &heard{}
	l.Connect(workers, own)
	var ids []messages.ExecutionID
	for range 3 {
		claim, e := carried(1)
		l.Take(claim, e)
		ids = append(ids, e.ID)
		require.Equal(t, roster.Claimed{Placement: e.Placement(), Worker: e.Worker}, own.events[len(own.events)-1])
		require.Same(t, e, workers.takes[len(workers.takes)-1].Execution)
	}
	claim, other := carried(2)
	l.Take(claim, other)
	require.Len(t, l.running, 4)
	require.Empty(t, given(t, l))
	l.GiveBackUntaken(1, workers.takes[1].Number, "")
	require.Equal(t, ids[2:], given(t, l))
	l.GiveBackUntaken(1, 0, "")
	require.Empty(t, given(t, l), "once")
	l.over(&actors.Item{Worker: other.Worker}, other.Placement(), "", true)
	l.GiveBackUntaken(2, 0, "")
	require.Empty(t, given(t, l), "it has ended")

	workers.gone = true
	claim, e := carried(1)
	heard := len(own.events)
	l.Take(claim, e)
	require.Equal(t, []messages.ExecutionID{e.ID}, given(t, l))
	require.Len(t, own.events, heard, "it does not run")
}

// perhaps is a store that has an execution after so many looks.
type perhaps struct {
	store.Store
	looks, after int
	e            *messages.Execution
	err          error
}

func (p *perhaps) Get(context.Context, messages.ExecutionID) (messages.Execution, error) {
	p.looks++
	if p.looks <= p.after {
		return messages.Execution{}, p.err
	}
	return *p.e, nil
}

// An execution of which nobody knows whether it was stored is looked for, and given back where it stands as it was stored.
func TestALinkRecallsWhatWasPerhapsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after  int
		err    error
		change func(*messages.Execution)
		looks  int
		back   bool
	}{
		"it was":                      {looks: 1, back: true},
		"its transaction comes late":  {after: 2, err: store.ErrNotFound, looks: 3, back: true},
		"it was not":                  {after: 9, err: store.ErrNotFound, looks: 4},
		"the store is away meanwhile": {after: 20, err: errors.New("away"), looks: 21, back: true},
		"it was stored as requested":  {change: func(e *messages.Execution) { e.Status, e.Attempt = messages.Requested, 0 }, looks: 1},
		"it was cancelled":            {change: func(e *messages.Execution) { e.Status = messages.Cancelling }, looks: 1, back: true},
		"it has moved on":             {change: func(e *messages.Execution) { e.Attempt = 2 }, looks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, _ := alone()
			claim, e := carried(1)
			if c.change != nil {
				c.change(e)
			}
			rows := &perhaps{after: c.after, e: e, err: c.err}
			s.Config.Store = rows
			l := New(s, Left{})
			l.Connect(&crowd{}, &heard{})
			l.Recall(claim)
			for range 30 {
				if w.Busy() > 0 {
					w.Answer()
				}
				w.Pass(30 * time.Second)
			}
			require.Equal(t, c.looks, rows.looks)
			require.Equal(t, c.back, len(given(t, l)) == 1)
		})
	}
}
