package operate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// Of an execution that retention has deleted, the journal, its chain and the memory of runs still say something. Of one that never was,
// nothing does.
func TestWhatRemainsOfADeletedExecution(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	a.cfg.Retains = time.Hour
	none, err := a.Remains(t.Context(), messages.NewExecutionID())
	require.NoError(t, err)
	require.Equal(t, []any{false, false, 3600.0}, []any{none.Was, none.Retention, none.Kept})
	require.Contains(t, none.Message(messages.NewExecutionID()), "nothing of it is stored. Ended executions are kept for 1h0m0s")

	e := c.waiting(t, "shell")
	ended := messages.Outcome{Status: messages.Cancelled}
	results, err := c.store.Apply(t.Context(), []store.Change{&store.End{ID: e.ID, Outcome: ended}})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	next := e
	next.ID, next.Original, next.RetryCount = messages.NewExecutionID(), e.ID, 1
	_, err = c.store.Retry(t.Context(), e.ID, next, "ann")
	require.NoError(t, err)
	require.NoError(t, c.store.AppendJournal(t.Context(), []messages.JournalEntry{
		{Incarnation: a.cfg.Incarnation, Number: 1, Kind: messages.JournalOperator, Subject: e.ID.String(), What: "cancel", Caller: "ann"},
	}))
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	purged, err := c.store.Purge(t.Context(), store.Purge{FinishedBefore: now.Add(time.Minute), Limit: 10})
	require.NoError(t, err)
	require.Equal(t, 1, purged.Rows)

	v, err := a.Remains(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, []any{true, false}, []any{v.Was, v.Retention}, "it is not as old as that yet")
	require.Contains(t, v.Message(e.ID), "was stored and is no more")
	c.store.ahead = 2 * time.Hour
	v, err = a.Remains(t.Context(), e.ID)
	require.NoError(t, err)
	require.True(t, v.Retention)
	require.Equal(t, []any{"cancel", "ann", 1, next.ID, 2}, []any{v.Journal[0].What, v.Journal[0].Caller, v.RetriesN, v.Retries[0].ID, v.Retries[0].N})
	require.Regexp(t, "was deleted by retention: .* for 1h0m0s. Still known: cancel at .* by ann; 1 of its retries are stored, such as "+next.ID.String(), v.Message(e.ID))

	ran := messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", WorkerID: "a/shell/0", Status: messages.Failed, StartedAt: now, FinishedAt: now, Attempt: 1}
	a.cfg.Runs.Add(&ran)
	v, err = a.Remains(t.Context(), ran.ID)
	require.NoError(t, err)
	require.Contains(t, v.Message(ran.ID), "Still known: it ran core.echo on a/shell/0: failed")
}

// A dead letter says that its execution was stored, but for one that nobody could read: it may name any.
func TestADeadLetterRemainsOfADeletedExecution(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	gone := messages.NewExecutionID()
	letter := func(reason, resolution string) view.Remains {
		_, err := c.store.SaveDeadLetter(t.Context(), store.DeadLetter{Execution: gone, Attempt: 2, Reason: reason, Resolution: resolution, Action: "core.echo", Worker: "a/shell/0"})
		require.NoError(t, err)
		v, err := a.Remains(t.Context(), gone)
		require.NoError(t, err)
		return v
	}
	require.False(t, letter("malformed", "quarantined: it is no JSON").Was)
	require.False(t, letter("expired", "missing").Was)
	v := letter("expired", "failed")
	require.True(t, v.Was)
	require.Len(t, v.Letters, 3)
	require.Equal(t, view.LetterRemains{ID: 3, At: v.Letters[0].At, Reason: "expired", Resolution: "failed", Attempt: 2, Action: "core.echo", Worker: "a/shell/0"}, v.Letters[0])
	require.Contains(t, v.Message(gone), "Still known: dead letter 3 at ")
}
