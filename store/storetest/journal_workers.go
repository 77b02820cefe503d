package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// testWorkerJournal checks that the journal of workers has what lifecycle.Told says of all transitions that there are, and nothing else.
func testWorkerJournal(t *testing.T, k *kit) {
	ctx := t.Context()
	require.NoError(t, k.SaveWorkers(ctx, []store.Worker{{Key: k.key(0), ID: "n/p/0", State: "ready", Active: true}}))
	var events []store.WorkerEvent
	var want []string
	add := func(e lifecycle.Edge, restarted bool) {
		event := store.WorkerEvent{
			Key: k.key(0), Generation: 7, At: journalStart.Add(time.Duration(len(events)) * time.Millisecond), From: e.From.String(), To: e.To.String(), Reason: e.Reason.String(),
			Lasted: 1500 * time.Millisecond,
		}
		if restarted {
			event.Metadata = json.RawMessage(`{"reason":"after it had exited"}`)
		}
		events = append(events, event)
		if told := lifecycle.Told(e.From, e.To, e.Reason, restarted); told != "" {
			want = append(want, fmt.Sprintf("%s %s", told, e.Reason))
		}
	}
	lifecycle.ForEachEdge(func(e lifecycle.Edge) { add(e, false) })
	add(lifecycle.Edge{From: lifecycle.Initializing, To: lifecycle.Ready, Reason: lifecycle.InitComplete}, true)
	want[len(want)-1] += ": after it had exited"
	require.NoError(t, k.RecordTransitions(ctx, events, make([]string, len(events))))
	entries := k.troubles(t, store.JournalQuery{})
	got := make([]string, len(entries))
	for i := range entries {
		e := &entries[i]
		got[i] = e.What + " " + e.Reason
		require.Equal(t, []any{messages.JournalWorker, "n/p/0", k.inc}, []any{e.Kind, e.Subject, e.Incarnation})
		require.Greater(t, e.Number, int64(store.WorkerNumbers))
		var d store.WorkerDetail
		require.NoError(t, json.Unmarshal(e.Detail, &d))
		require.Equal(t, []any{messages.Generation(7), 1.5}, []any{d.Generation, d.Seconds})
	}
	require.Equal(t, want, got)
	require.Empty(t, k.journal(t, store.JournalQuery{}), "they are apart")
}

// testWorkerJournalStarts checks that starts which failed are found by the worker's id before it was ever ready, which is when it gets its row.
func testWorkerJournalStarts(t *testing.T, k *kit) {
	failed := func(key messages.WorkerKey, gen messages.Generation, reason lifecycle.Reason, metadata string) store.WorkerEvent {
		return store.WorkerEvent{Key: key, Generation: gen, At: journalStart.Add(time.Duration(gen) * time.Minute), From: lifecycle.Initializing.String(),
			To: lifecycle.Terminated.String(), Reason: reason.String(), Metadata: json.RawMessage(metadata)}
	}
	crash := func(reason, metadata string) store.WorkerEvent {
		return store.WorkerEvent{Key: k.key(5), Generation: 1, At: journalStart, From: lifecycle.Ready.String(), To: lifecycle.Terminating.String(), Reason: reason, Metadata: json.RawMessage(metadata)}
	}
	unknown := k.key(7)
	unknown.Incarnation = messages.NewIncarnation()
	require.NoError(t, k.RecordTransitions(t.Context(), []store.WorkerEvent{
		failed(k.key(7), 1, lifecycle.Timeout, `{"reason":"no answer","starts":1}`), failed(k.key(7), 11, lifecycle.Error, `{"reason":"no module x","starts":10}`),
		failed(k.key(6), 1, lifecycle.Terminate, `{}`), crash(lifecycle.Error.String(), `{"crashes":4}`), crash(lifecycle.ErrorAgain, `{"reason":"not told"}`), failed(unknown, 2, lifecycle.Error, `{"starts":1}`),
	}, make([]string, 6)))
	say := func(q store.JournalQuery) (list []string) {
		for _, e := range k.troubles(t, q) {
			var d store.WorkerDetail
			require.NoError(t, json.Unmarshal(e.Detail, &d))
			list = append(list, fmt.Sprintf("%s %s %s %d", e.Subject, e.What, e.Reason, d.Starts+d.Crashes))
		}
		return list
	}
	seven := []string{"n/p/7 start_failed timeout: no answer 1", "n/p/7 start_failed error: no module x 10"}
	require.Equal(t, seven, say(store.JournalQuery{Subjects: []string{"n/p/7"}}))
	require.ElementsMatch(t, append(seven, unknown.Incarnation.Short()+"/p/7 start_failed error 1"), say(store.JournalQuery{Whats: []string{"start_failed"}}))
	require.Equal(t, []string{"n/p/5 ended error 4"}, say(store.JournalQuery{Subjects: []string{"n/p/5"}}), "a crash that is not told is none of them")
	require.Equal(t, []string{"n/p/6 ended terminate 0"}, say(store.JournalQuery{Whats: []string{"ended"}, NotSubjects: []string{"n/p/7", "n/p/5"}}))
}

// troubles reads all pages.
func (k *kit) troubles(t *testing.T, q store.JournalQuery) []messages.JournalEntry {
	t.Helper()
	return allPages(t, q, func(q store.JournalQuery) (store.JournalPage, error) { return k.ReadWorkerJournal(t.Context(), q) })
}

// testWorkerJournalPages checks ranges, filters and pages in both directions, and that the pages of both parts are one journal.
func testWorkerJournalPages(t *testing.T, k *kit) {
	ctx := t.Context()
	for slot := range 2 {
		require.NoError(t, k.SaveWorkers(ctx, []store.Worker{{Key: k.key(slot), ID: messages.WorkerID(fmt.Sprintf("n/p/%d", slot)), State: "ready", Active: true}}))
	}
	var events []store.WorkerEvent
	for i := range 40 {
		e := store.WorkerEvent{Key: k.key(i % 3), Generation: 1, At: journalStart.Add(time.Duration(i/4) * time.Second), From: "ready", To: "degraded", Reason: "health_check_failed"}
		switch {
		case i%5 == 1:
			e.From, e.To, e.Reason = "degraded", "ready", "health_restored"
		case i%5 == 2:
			e.From, e.To, e.Reason = "initializing", "ready", "init_complete" // told nothing
		}
		events = append(events, e)
	}
	require.NoError(t, k.RecordTransitions(ctx, events, make([]string, len(events))))
	var others []messages.JournalEntry
	for i := range 20 {
		others = append(others, entry(k.inc, int64(i+1), i/2, messages.JournalServer, "store", "away"))
	}
	require.NoError(t, k.AppendJournal(ctx, others))
	all := k.troubles(t, store.JournalQuery{Limit: 1000})
	require.Len(t, all, 32)
	second := func(n int) time.Time { return journalStart.Add(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		q    store.JournalQuery
		want func(e *messages.JournalEntry) bool
	}{
		"all":           {store.JournalQuery{}, func(*messages.JournalEntry) bool { return true }},
		"range":         {store.JournalQuery{From: second(3), To: second(9)}, func(e *messages.JournalEntry) bool { return !e.At.Before(second(3)) && e.At.Before(second(9)) }},
		"what":          {store.JournalQuery{Whats: []string{"recovered", "away"}}, func(e *messages.JournalEntry) bool { return e.What == "recovered" }},
		"subject":       {store.JournalQuery{Subjects: []string{"n/p/1"}}, func(e *messages.JournalEntry) bool { return e.Subject == "n/p/1" }},
		"both":          {store.JournalQuery{Subjects: []string{"n/p/1"}, Whats: []string{"degraded"}}, func(e *messages.JournalEntry) bool { return e.Subject == "n/p/1" && e.What == "degraded" }},
		"subjects":      {store.JournalQuery{Subjects: []string{"n/p/1", "n/p/0", "x"}}, func(e *messages.JournalEntry) bool { return e.Subject == "n/p/1" || e.Subject == "n/p/0" }},
		"not a subject": {store.JournalQuery{NotSubjects: []string{"n/p/1", "x"}}, func(e *messages.JournalEntry) bool { return e.Subject != "n/p/1" }},
		"kinds do not":  {store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalNode}}, func(*messages.JournalEntry) bool { return true }},
		"none":          {store.JournalQuery{Subjects: []string{"n"}}, func(*messages.JournalEntry) bool { return false }},
		"without a row": {store.JournalQuery{From: second(0), To: second(1)}, func(e *messages.JournalEntry) bool { return e.At.Equal(second(0)) }},
	} {
		inPages(t, name, c.q, all, c.want, k.troubles)
	}

	whole := slices.Concat(all, k.journal(t, store.JournalQuery{}))
	slices.SortFunc(whole, func(a, b messages.JournalEntry) int {
		return store.JournalCursorOf(&a).Compare(store.JournalCursorOf(&b))
	})
	inPages(t, "both parts", store.JournalQuery{}, whole, func(*messages.JournalEntry) bool { return true }, k.merged)
}

// merged reads all pages of both parts of the journal.
func (k *kit) merged(t *testing.T, q store.JournalQuery) []messages.JournalEntry {
	t.Helper()
	return allPages(t, q, func(q store.JournalQuery) (store.JournalPage, error) {
		workers, err := k.ReadWorkerJournal(t.Context(), q)
		require.NoError(t, err)
		others, err := k.ReadJournal(t.Context(), q)
		require.NoError(t, err)
		return store.MergeJournal(&q, workers, others), nil
	})
}
