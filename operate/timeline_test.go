package operate

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// waiting submits an execution that nobody places.
func (c *cluster) waiting(t *testing.T, pool string) messages.Execution {
	t.Helper()
	stored, err := c.store.Submit(t.Context(), []messages.Execution{
		{ID: messages.NewExecutionID(), Action: "core.echo", Pool: pool, Parameters: json.RawMessage(`{}`), Timeout: time.Minute},
	})
	require.NoError(t, err)
	return stored[0].Execution
}

// leftOf is what an answer says that it leaves out of something; nil: nothing.
func leftOf(v *timeline.Timeline, what string) *timeline.LeftOut {
	i := slices.IndexFunc(v.LeftOut, func(l timeline.LeftOut) bool { return l.What == what })
	if i < 0 {
		return nil
	}
	return &v.LeftOut[i]
}

// further asks for the part that an answer says how to get.
func further(t *testing.T, n *node, id messages.ExecutionID, l *timeline.LeftOut) timeline.Timeline {
	t.Helper()
	query, err := url.ParseQuery(l.Next)
	require.NoError(t, err)
	var part timeline.Part
	for name, at := range map[string]*time.Time{"from": &part.From, "to": &part.To} {
		*at, err = time.Parse(time.RFC3339Nano, query.Get(name))
		require.NoError(t, err)
	}
	v, err := n.Timeline(t.Context(), id, part)
	require.NoError(t, err)
	require.True(t, v.Window.To.Equal(part.To))
	return v
}

// Of a journal that is longer than what one answer reads, the newest part comes first. It says what is left, and the parts together cover
// the whole wait, with a cause for each moment.
func TestATimelineOfALongJournalComesInParts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	e := c.waiting(t, "shell")
	const n = timelineJournal + 500
	c.store.ahead = 2 * n * time.Second
	entries := make([]messages.JournalEntry, n)
	for i := range entries {
		reason := "workers_busy"
		if i%2 == 1 {
			reason = "workers_cordoned"
		}
		entries[i] = messages.JournalEntry{Incarnation: a.cfg.Incarnation, Number: int64(i + 1), Kind: messages.JournalPool, Subject: "shell",
			What: journal.ConditionChanged, Reason: reason, At: e.RequestedAt.Add(time.Duration(i) * time.Second)}
	}
	for batch := range slices.Chunk(entries, store.JournalBatch) {
		require.NoError(t, c.store.AppendJournal(t.Context(), batch))
	}
	v, err := a.Timeline(t.Context(), e.ID, timeline.Part{})
	require.NoError(t, err)
	require.True(t, v.Truncated)
	left := leftOf(&v, timeline.LeftConditions)
	require.NotNil(t, left)
	since := entries[500].At.Add(time.Microsecond)
	require.Equal(t, []any{true, true, true, true}, []any{v.Whole.From.Equal(e.RequestedAt), v.Window.From.Equal(since), left.From.Equal(e.RequestedAt), left.To.Equal(since)})
	require.True(t, left.AtLeast, "they are not counted")

	before := further(t, a, e.ID, left)
	require.False(t, before.Truncated)
	waits := slices.Concat(before.Wait, v.Wait)
	at := e.RequestedAt
	for i, w := range waits {
		require.True(t, w.From.Equal(at), "interval %d begins at %s, want %s", i, w.From, at)
		at = w.To
		if i < n-1 {
			require.NotEqual(t, timeline.Unknown, w.Cause, "interval %d", i)
		}
	}
	require.True(t, at.Equal(v.Whole.To))
	require.Len(t, before.Wait, 501, "the last one of the earlier part goes on in the later one")
	require.Equal(t, before.Wait[500].Cause, v.Wait[0].Cause)

	within, err := a.Timeline(t.Context(), e.ID, timeline.Part{From: entries[700].At, To: entries[703].At})
	require.NoError(t, err)
	require.False(t, within.Truncated)
	require.Len(t, within.Wait, 3)
}

// Of more events than an answer reads, it has those of the newest placements, says how many are left, and has them in another part.
func TestATimelineOfManyEventsComesInParts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", timelineWorkers+2)
	e := c.waiting(t, "shell")
	const n = timelineEvents + 100
	var changes []store.Change
	for i := range n {
		slot := messages.Slot(i % (timelineWorkers + 2))
		changes = append(changes,
			&store.Place{ID: e.ID, Attempt: messages.Attempt(i), Worker: messages.WorkerKey{Incarnation: a.cfg.Incarnation, Pool: "shell", Slot: slot},
				WorkerID: messages.NewWorkerID("a", "shell", slot), ClaimWithin: time.Minute},
			&store.TakeBack{ID: e.ID, Attempt: messages.Attempt(i + 1), Reason: "unclaimed"})
	}
	for some := range slices.Chunk(changes, 200) {
		results, err := c.store.Apply(t.Context(), some)
		require.NoError(t, err)
		require.Equal(t, store.Applied, results[len(results)-1].Verdict, "%v", results[len(results)-1].Err)
	}
	all, err := c.store.EventsBetween(t.Context(), store.EventQuery{Execution: e.ID})
	require.NoError(t, err)
	v, err := a.Timeline(t.Context(), e.ID, timeline.Part{})
	require.NoError(t, err)
	left := leftOf(&v, timeline.LeftEvents)
	require.NotNil(t, left)
	require.Equal(t, []any{all.Left, false}, []any{left.N, left.AtLeast})
	require.Equal(t, messages.Attempt(n), v.Attempts[len(v.Attempts)-1].Attempt)
	others := leftOf(&v, timeline.LeftWorkers)
	require.NotNil(t, others)
	require.Equal(t, 2, others.N)
	require.NotEmpty(t, others.Next)

	seen := map[messages.Attempt]bool{}
	for parts := 0; ; parts++ {
		require.Less(t, parts, 5)
		for _, attempt := range v.Attempts {
			seen[attempt.Attempt] = true
			require.Equal(t, "taken_back", attempt.Ended)
			require.False(t, attempt.ScheduledAt.IsZero())
		}
		if left = leftOf(&v, timeline.LeftEvents); left == nil {
			break
		}
		v = further(t, a, e.ID, left)
	}
	require.True(t, v.Window.From.Equal(e.RequestedAt))
	require.Len(t, seen, n, "each placement is in one of the parts")
}
