package operate

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/store"
)

// What failed in a time is grouped over several pages, and other executions are not among it.
func TestFailuresOfATimeAreGrouped(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	const n = failuresPage + 200
	executions := make([]messages.Execution, n)
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Version: "1", Pool: "shell", Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
	}
	stored, err := c.store.Submit(t.Context(), executions)
	require.NoError(t, err)
	changes := make([]store.Change, n)
	for i := range stored {
		o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "no_workers", Message: fmt.Sprintf("waited %d s", i)}}
		if i == 0 {
			o = messages.Outcome{Status: messages.Cancelled}
		}
		changes[i] = &store.End{ID: stored[i].Execution.ID, Outcome: o}
	}
	_, err = c.store.Apply(t.Context(), changes)
	require.NoError(t, err)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	within := func(from, to time.Duration) (list []*failures.Group) {
		f := store.Filter{Statuses: []messages.Status{messages.Failed, messages.TimedOut, messages.Abandoned}, From: now.Add(from), To: now.Add(to)}
		groups, reached, err := a.groupFailures(t.Context(), f, failures.ByMessage, time.Minute)
		require.NoError(t, err)
		require.Equal(t, store.MoreEnd, reached.More)
		list, _ = groups.Done(10)
		return list
	}
	list := within(-time.Minute, time.Minute)
	require.Len(t, list, 1)
	require.Equal(t, n-1, list[0].N)
	require.Equal(t, "waited ‹n› s", list[0].Message)
	require.Empty(t, within(time.Minute, 2*time.Minute))
	require.Empty(t, within(-2*time.Minute, -time.Minute))
	_, reached, err := a.groupFailures(t.Context(), store.Filter{From: now.Add(-time.Minute), To: now.Add(time.Minute)}, failures.ByMessage, 0)
	require.NoError(t, err)
	require.Equal(t, store.MoreUnsearched, reached.More, "its time was over after one page")
}
