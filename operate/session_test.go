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

// A session is on its worker while that worker's node lives, whatever its row says.
func TestWhereASessionIs(t *testing.T) {
	t.Parallel()
	row := view.Session{Session: store.Session{Worker: messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "shell"}}}
	used := row
	used.Execution = messages.NewExecutionID()
	for name, c := range map[string]struct {
		of          view.Session
		lives, idle bool
		want        string
	}{
		"it was never bound":       {view.Session{}, false, false, view.NoAffinity},
		"bound":                    {row, true, false, view.AffinityBound},
		"idle":                     {row, true, true, view.AffinityExpired},
		"long in use":              {used, true, true, view.AffinityBound},
		"its node has ended":       {row, false, false, view.NoAffinity},
		"its node has ended, idle": {row, false, true, view.NoAffinity},
		"it ran as its node ended": {used, false, false, view.NoAffinity},
	} {
		require.Equal(t, c.want, affinity(&c.of, c.lives, c.idle), name)
	}

	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	bind := func(name string, inc messages.Incarnation) {
		e := []messages.Execution{{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "shell", Session: name, Affinity: messages.AffinityStrict,
			Parameters: json.RawMessage(`{}`), Timeout: time.Minute}}
		_, err := c.store.Submit(t.Context(), e)
		require.NoError(t, err)
		results, err := c.store.Apply(t.Context(), []store.Change{
			&store.Place{ID: e[0].ID, Worker: messages.WorkerKey{Incarnation: inc, Pool: "shell"}, ClaimWithin: time.Minute, Session: &store.SessionUse{Pool: "shell", Session: name, Epoch: 1, Bind: true}},
			&store.TakeBack{ID: e[0].ID, Attempt: 1, Reason: "test"},
		})
		require.NoError(t, err)
		require.Equal(t, []store.Verdict{store.Applied, store.Applied}, []store.Verdict{results[0].Verdict, results[1].Verdict})
	}
	bind("own", a.cfg.Incarnation)
	bind("other", b.cfg.Incarnation)
	bind("gone", messages.NewIncarnation())
	for name, want := range map[string]string{"own": view.AffinityBound, "other": view.AffinityBound, "gone": view.NoAffinity} {
		v, err := a.Session(t.Context(), "shell", name)
		require.NoError(t, err)
		require.Equal(t, want, v.Affinity, name)
		require.False(t, v.Worker.IsZero())
	}
}
