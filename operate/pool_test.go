package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// A pool is summed over the nodes, and what waits is counted by its router.
func TestAPoolIsDescribedInDetail(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 2), c.join("b", "shell", 3)
	at := func(n *node, mode lead.Mode) {
		d := n.stage.pools["shell"]
		d.Lead.Mode, d.Lead.Epoch = mode, 4
		if mode == lead.Leading {
			d.Router.Held = 1500
			d.Waits = roster.Waits{
				Counted: 1000, Priorities: map[messages.Priority]int{0: 900, 5: 100},
				Reasons: map[roster.Reason]int{roster.WorkersBusy: 990, roster.SessionOrder: 10},
			}
			d.Workers[1].State, d.Workers[1].LastFailure = lifecycle.Terminated, "exit status 1"
		}
		n.stage.pools["shell"] = d
	}
	at(a, lead.Following)
	at(b, lead.Leading)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	minute := now.Add(-2 * time.Minute).Truncate(time.Minute)
	require.NoError(t, c.store.SaveRollups(t.Context(), []store.Rollup{
		{Minute: minute, Incarnation: b.cfg.Incarnation, Pool: "shell", Action: "core.echo", N: 300},
		{Minute: minute, Incarnation: b.cfg.Incarnation, Pool: "shell", Action: "core.echo", Status: messages.Completed, N: 900},
	}))
	v, err := a.Pool(t.Context(), "shell")
	require.NoError(t, err)
	require.Equal(t, []any{5, 2, "shell"}, []any{v.Workers, v.Nodes, v.Name})
	require.Equal(t, []view.SlotCount{{State: "ready", N: 4}, {State: "terminated", N: 1}}, v.Slots)
	require.Equal(t, []view.SlotFailure{{Worker: "b/shell/1", State: "terminated", Generation: 3, Error: "exit status 1"}}, v.Failures)
	require.Equal(t, []view.PoolQueue{{
		Node: "b", Mode: "leading", Epoch: 4, Held: 1500, Counted: 1000, ByPriority: []view.PriorityCount{{Priority: 5, N: 100}, {Priority: 0, N: 900}},
		ByCause: []view.CauseCount{
			{Reason: "workers_busy", Message: roster.WorkersBusy.Sentence(), WhatToDo: roster.WorkersBusy.Advice(), N: 990},
			{Reason: "session_order", Message: roster.SessionOrder.Sentence(), WhatToDo: roster.SessionOrder.Advice(), N: 10},
		},
	}}, v.Queues)
	require.InDelta(t, 1, v.Drain.In, 1e-9)
	require.InDelta(t, 3, v.Drain.Out, 1e-9)

	c.lost[b.cfg.Incarnation] = true
	v, err = a.Pool(t.Context(), "shell")
	require.NoError(t, err)
	require.Equal(t, []view.SlotCount{{State: "ready", N: 2}, {State: "unknown", N: 3}}, v.Slots)
	require.Empty(t, v.Queues)
	require.Equal(t, "b", v.Unreached[0].Node)
	_, err = a.Pool(t.Context(), "none")
	require.ErrorContains(t, err, "there is no pool none")
}

// A failure is text of a program: it is shown within its bound, the mark of the cut included, and as UTF-8.
func TestAFailureIsShownWithinItsBound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 2)
	d := a.stage.pools["shell"]
	d.Workers[0].State, d.Workers[0].LastFailure = lifecycle.Terminated, strings.Repeat("é", slotFailureMax)
	d.Workers[1].State, d.Workers[1].LastFailure = lifecycle.Terminated, "exit \xff"
	a.stage.pools["shell"] = d
	v, err := a.Pool(t.Context(), "shell")
	require.NoError(t, err)
	require.Len(t, v.Failures, 2)
	require.LessOrEqual(t, len(v.Failures[0].Error), slotFailureMax)
	require.Regexp(t, "^é+…$", v.Failures[0].Error)
	require.Equal(t, "exit \uFFFD", v.Failures[1].Error)
}

func TestWhenWhatWaitsIsDone(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 60, *view.NewDrain(1200, 2, 22, time.Time{}, time.Time{}).Seconds, 1e-9)
	require.InDelta(t, 0, *view.NewDrain(0, 0, 1, time.Time{}, time.Time{}).Seconds, 0)
	require.Nil(t, view.NewDrain(1200, 2, 2, time.Time{}, time.Time{}).Seconds)
	require.Nil(t, view.NewDrain(1200, 3, 2, time.Time{}, time.Time{}).Seconds)
}
