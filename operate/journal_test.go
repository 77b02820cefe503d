package operate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// Workers stand in the journal beside all else, however much the worker has done since.
func TestTheJournalHasWhatBefellWorkers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	ctx, start := t.Context(), time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	key := messages.WorkerKey{Incarnation: a.cfg.Incarnation, Pool: "shell"}
	events := []store.WorkerEvent{{Key: key, Generation: 1, At: start, From: "ready", To: "degraded", Reason: "health_check_failed", Metadata: []byte(`{"error":"no answer for 5 s"}`)}}
	for i := range 1500 {
		events = append(events, store.WorkerEvent{Key: key, Generation: 2, At: start.Add(time.Duration(i) * time.Second), From: "terminating", To: "terminated", Reason: "cleanup_complete"})
	}
	require.NoError(t, c.store.RecordTransitions(ctx, events, make([]string, len(events))))
	require.NoError(t, c.store.AppendJournal(ctx, []messages.JournalEntry{
		{Incarnation: a.cfg.Incarnation, Number: 1, At: start.Add(-time.Second), Kind: messages.JournalNode, Subject: a.cfg.Incarnation.String(), What: "joined"},
		{Incarnation: a.cfg.Incarnation, Number: 2, At: start.Add(time.Second), Kind: messages.JournalServer, Subject: "store", What: "away"},
	}))
	lines := func(q store.JournalQuery) (lines []string) {
		q.Newest = true
		page, err := a.Journal(ctx, q)
		require.NoError(t, err)
		for _, e := range page.Entries {
			lines = append(lines, fmt.Sprintf("%s %s", e.Kind, e.What))
		}
		return lines
	}
	require.Equal(t, []string{"server away", "worker degraded", "node joined"}, lines(store.JournalQuery{}))
	require.Equal(t, []string{"worker degraded"}, lines(store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalWorker}}))
	require.Equal(t, []string{"worker degraded", "node joined"}, lines(store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalWorker, messages.JournalNode}}))
	require.Equal(t, []string{"server away"}, lines(store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalServer}}))
	require.Equal(t, []string{"server away", "worker degraded"}, lines(store.JournalQuery{Whats: []string{"away", "degraded"}}))
	page, err := a.Journal(ctx, store.JournalQuery{Subjects: []string{"a/shell/0"}})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.Equal(t, "health_check_failed: no answer for 5 s", page.Entries[0].Reason)
}

// Why somebody probes a worker or ends a session stands in the journal, and a session's own entries say that it was ended.
func TestReasonsOfAProbeAndOfASessionsEndAreRecorded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	var recorded []string
	a.cfg.Journal = func(e messages.JournalEntry) {
		recorded = append(recorded, fmt.Sprintf("%s %s %s %s %s", e.Kind, e.Subject, e.What, e.Reason, e.Caller))
	}
	ctx := view.WithReason(t.Context(), "it looks stuck")
	_, err := a.ProbeWorker(ctx, "a/shell/0", "ann")
	require.NoError(t, err)
	_, err = a.ProbeWorker(ctx, "a/shell/9", "ann")
	require.Error(t, err)
	bind(t, c, a, "s")
	_, err = a.EndSession(ctx, "shell", "s", "bob")
	require.NoError(t, err)
	require.Equal(t, []string{
		"operator a/shell/0 probe it looks stuck ann", "operator shell/s end_session it looks stuck bob", "session shell/s unbound end_session: it looks stuck bob",
	}, recorded)
}

// bind runs an execution of a session to its end.
func bind(t *testing.T, c *cluster, a *node, session string) {
	t.Helper()
	ctx, id := context.Background(), messages.NewExecutionID()
	_, err := c.store.Submit(ctx, []messages.Execution{{ID: id, Action: "core.echo", Pool: "shell", Session: session, Affinity: messages.AffinityStrict, Parameters: []byte(`{}`), Timeout: time.Minute}})
	require.NoError(t, err)
	key := messages.WorkerKey{Incarnation: a.cfg.Incarnation, Pool: "shell"}
	results, err := c.store.Apply(ctx, []store.Change{
		&store.Place{ID: id, Worker: key, WorkerID: "a/shell/0", ClaimWithin: time.Minute, Session: &store.SessionUse{Pool: "shell", Session: session, Epoch: 1, Bind: true}},
		&store.End{ID: id, Attempt: 1, Outcome: messages.Outcome{Status: messages.Cancelled}},
	})
	require.NoError(t, err)
	for _, r := range results {
		require.Equal(t, store.Applied, r.Verdict, "%v", r.Err)
	}
}
