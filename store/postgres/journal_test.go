package postgres_test

import (
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
