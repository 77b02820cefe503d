package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// What is about one subject is read from the index of subjects, also once the server knows that there are few of them: by the index
// of times it would read what is about all others.
func TestTheJournalOfASubjectIsReadByItsIndex(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{Conns: 1})
	inc, start := messages.NewIncarnation(), time.Now().Add(-time.Hour)
	for n := range int64(5) {
		entries := make([]messages.JournalEntry, store.JournalBatch)
		for i := range entries {
			number := n*store.JournalBatch + int64(i) + 1
			entries[i] = messages.JournalEntry{At: start.Add(time.Duration(number) * time.Second), Incarnation: inc, Number: number,
				Kind: messages.JournalPool, Subject: "pool" + string(rune('a'+number%5)), What: "condition"}
		}
		require.NoError(t, s.AppendJournal(t.Context(), entries))
	}
	_, err := d.connect(t, s.Schema()).Exec(t.Context(), "ANALYZE journal")
	require.NoError(t, err)
	for _, newest := range []bool{false, true} {
		for _, kinds := range [][]messages.JournalKind{nil, {messages.JournalServer}} {
			_, err := s.ReadJournal(t.Context(), store.JournalQuery{Subjects: []string{"poola"}, Newest: newest, Kinds: kinds})
			require.NoError(t, err)
			_, err = s.ReadJournal(t.Context(), store.JournalQuery{Newest: newest, Kinds: kinds})
			require.NoError(t, err)
		}
	}
	plans, err := s.Plans(t.Context())
	require.NoError(t, err)
	read := 0
	for statement, plan := range plans {
		if !strings.Contains(statement, "FROM journal WHERE") {
			continue
		}
		read++
		require.NotRegexp(t, scans, plan, statement)
		require.NotContains(t, plan, "Sort", statement)
		if strings.Contains(statement, "(subject, at") {
			require.Contains(t, plan, "journal_subject", statement)
		}
	}
	require.GreaterOrEqual(t, read, 8)
}

// What befell workers is read from the index of that, however many other transitions there are.
func TestTheJournalOfWorkersIsReadByItsIndex(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{Conns: 1})
	key, start := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "p"}, time.Now().Add(-time.Hour)
	const rounds, troubled = 20, 5
	for round := range rounds {
		events := make([]store.WorkerEvent, 1000)
		for i := range events {
			at := start.Add(time.Duration(round)*time.Minute + time.Duration(i)*time.Millisecond)
			events[i] = store.WorkerEvent{Key: key, Generation: 1, At: at, From: "busy", To: "ready", Reason: "checkin_error", Metadata: json.RawMessage(`{"error":"boom"}`)}
		}
		for i, reason := range []string{"init_complete", "shutdown", "cleanup_complete"} {
			events[i].To, events[i].Reason, events[i].Metadata = "s"+reason, reason, nil
		}
		if round < troubled {
			events[500].From, events[500].To, events[500].Reason = "ready", "degraded", "health_check_failed"
		}
		require.NoError(t, s.RecordTransitions(t.Context(), events, make([]string, len(events))))
	}
	_, err := d.connect(t, s.Schema()).Exec(t.Context(), "VACUUM ANALYZE worker_event") // as the server does by itself after so many
	require.NoError(t, err)
	for _, q := range []store.JournalQuery{{}, {Newest: true}, {Whats: []string{"degraded"}}, {Subjects: []string{"n/p/0"}, Newest: true}, {From: start, To: start.Add(time.Hour)}} {
		page, err := s.ReadWorkerJournal(t.Context(), q)
		require.NoError(t, err)
		if len(q.Subjects) == 0 {
			require.Len(t, page.Entries, troubled)
		}
	}
	plans, err := s.Plans(t.Context())
	require.NoError(t, err)
	read := 0
	for statement, plan := range plans {
		if strings.Contains(statement, "FROM worker_event WHERE (after") {
			read++
			require.Contains(t, plan, "worker_event_trouble", statement)
			require.NotRegexp(t, scans, plan, statement)
		}
	}
	require.GreaterOrEqual(t, read, 4)
}
