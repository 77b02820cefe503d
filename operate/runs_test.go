package operate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

func TestTheLastRunsOfAWorkerAreKept(t *testing.T) {
	t.Parallel()
	var r Runs
	require.Empty(t, r.Of("n/p/0"))
	r.Add(&messages.Execution{Action: "a.b", WorkerID: "n/p/0"})
	r.Add(&messages.Execution{Action: "a.b", StartedAt: time.Now()})
	require.Empty(t, r.of, "no worker ran them")
	for i := range RunsMax + 3 {
		r.Add(&messages.Execution{Action: fmt.Sprint("a.", i), WorkerID: "n/p/0", StartedAt: time.Now(), Attempt: 2, Status: messages.Failed, Error: &messages.Error{Code: "boom"}})
		list := r.Of("n/p/0")
		require.Len(t, list, min(i+1, RunsMax))
		for back := range list {
			require.Equal(t, fmt.Sprint("a.", i-back), list[back].Action)
		}
	}
	require.Equal(t, messages.Code("boom"), r.Of("n/p/0")[0].Code)
	for i := range 2 * runsWorkers {
		r.Add(&messages.Execution{WorkerID: messages.WorkerID(fmt.Sprint("n/q/", i)), StartedAt: time.Now()})
	}
	require.Len(t, r.of, runsWorkers)
}

// A worker's runs are those that its node remembers, and those of the list where it remembers none or is gone.
func TestTheRunsOfAWorkerOfAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	e := c.runs(b)
	results, err := c.store.Apply(t.Context(), []store.Change{&store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: messages.Outcome{Status: messages.Completed}}})
	require.NoError(t, err)
	ask := func() view.WorkerRuns {
		v, err := a.Runs(t.Context(), "b/shell/0")
		require.NoError(t, err)
		require.Len(t, v.Runs, 1)
		require.Equal(t, []any{e.ID, messages.Completed, e.Attempt}, []any{v.Runs[0].Execution, v.Runs[0].Status, v.Runs[0].Attempt})
		return v
	}
	require.Equal(t, view.RunsList, ask().Source)
	b.cfg.Runs.Add(results[0].Execution)
	require.Equal(t, view.RunsMemory, ask().Source)
	c.lost[b.cfg.Incarnation] = true
	require.Equal(t, view.RunsList, ask().Source)
	v, err := a.Runs(t.Context(), "gone/shell/0")
	require.NoError(t, err)
	require.Equal(t, view.RunsList, v.Source)
	require.Empty(t, v.Runs)
	_, err = a.Runs(t.Context(), "odd")
	require.ErrorContains(t, err, "there is no worker")
}
