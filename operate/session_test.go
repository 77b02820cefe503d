package operate

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// A session has what waits in it in order, and what its journal says.
func TestASessionIsDescribedInDetail(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	const n = sessionPage + 20
	executions := make([]messages.Execution, n)
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "shell", Session: "s/1", Affinity: messages.AffinityStrict,
			Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
	}
	_, err := c.store.Submit(t.Context(), executions)
	require.NoError(t, err)
	key := messages.WorkerKey{Incarnation: a.cfg.Incarnation, Pool: "shell"}
	results, err := c.store.Apply(t.Context(), []store.Change{
		&store.End{ID: executions[0].ID, Outcome: messages.Outcome{Status: messages.Cancelled}},
		&store.Place{ID: executions[1].ID, Worker: key, WorkerID: "a/shell/0", ClaimWithin: time.Minute, Session: &store.SessionUse{Pool: "shell", Session: "s/1", Epoch: 1, Bind: true}},
	})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[1].Verdict, "%v", results[1].Err)
	var entries []messages.JournalEntry
	for i := range sessionJournal + 1 {
		entries = append(entries, messages.JournalEntry{Incarnation: a.cfg.Incarnation, Number: int64(i + 1), Kind: messages.JournalSession, Subject: "shell/s/1",
			What: fmt.Sprint("bound ", i), At: time.Now().Add(time.Duration(i-1000) * time.Second)})
	}
	require.NoError(t, c.store.AppendJournal(t.Context(), entries))

	v, err := a.detail(t.Context(), "shell", "s/1", time.Minute)
	require.NoError(t, err)
	require.Equal(t, executions[1].ID, v.Execution)
	require.Equal(t, []any{sessionQueue, true, false}, []any{len(v.Queue), v.QueueMore, v.QueueSearch})
	require.Equal(t, []any{executions[1].ID, messages.Scheduled, messages.WorkerID("a/shell/0")}, []any{v.Queue[0].Execution, v.Queue[0].Status, v.Queue[0].Worker})
	for i, work := range v.Queue {
		require.Equal(t, executions[i+1].ID, work.Execution)
	}
	require.Equal(t, []any{sessionJournal, true, fmt.Sprint("bound ", sessionJournal)}, []any{len(v.Journal), v.JournalMore, v.Journal[0].What})
	_, err = a.SessionDetail(t.Context(), "shell", "none")
	require.ErrorContains(t, err, "there is no session")
	require.NotEqual(t, view.NoAffinity, v.Affinity)
	require.Equal(t, messages.WorkerID("a/shell/0"), v.WorkerID, "by the name of its node")
	require.NoError(t, c.store.AppendJournal(t.Context(), []messages.JournalEntry{{Incarnation: a.cfg.Incarnation, Number: 1000, Kind: messages.JournalSession, Subject: "shell/s/1",
		What: "bound", At: time.Now(), Detail: json.RawMessage(`{"epoch":1,"worker":"a@1b2c/shell/0"}`)}}))
	v, err = a.SessionDetail(t.Context(), "shell", "s/1")
	require.NoError(t, err)
	require.Equal(t, messages.WorkerID("a@1b2c/shell/0"), v.WorkerID, "as its binding has it")
	v, err = a.detail(t.Context(), "shell", "s/1", 0)
	require.NoError(t, err)
	require.NotEqual(t, executions[1].ID, v.Queue[0].Execution)
	require.True(t, v.QueueSearch, "it ended with its first page")
}
