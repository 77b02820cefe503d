package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// journalStore keeps what is appended, or fails.
type journalStore struct {
	store.Store
	fails  error
	stored map[int64]messages.JournalEntry
	calls  int
}

func (s *journalStore) AppendJournal(_ context.Context, entries []messages.JournalEntry) error {
	s.calls++
	if err := store.CheckJournal(entries); err != nil {
		return err
	}
	for _, e := range entries {
		s.stored[e.Number] = e
	}
	return s.fails
}

func recorder() (*recording, *journalStore) {
	rows := &journalStore{stored: map[int64]messages.JournalEntry{}}
	b := &base{incarnation: messages.NewIncarnation(), logger: hclog.NewNullLogger(), store: &doubt{Store: rows}}
	b.journal = &recording{base: b}
	return b.journal, rows
}

// What the store may or may not have is written again with its number, and what came meanwhile comes after it.
func TestTheJournalIsWrittenAgainAfterAnError(t *testing.T) {
	t.Parallel()
	r, rows := recorder()
	require.NoError(t, r.flush(t.Context()))
	require.Zero(t, rows.calls, "nothing costs nothing")
	r.node("joined", "", "", map[string]any{"name": "a"})
	rows.fails = fmt.Errorf("no answer: %w", store.ErrUnavailable)
	require.Error(t, r.flush(t.Context()))
	r.operator(t.Context(), "cordon", "python", "ann")
	rows.fails = nil
	require.NoError(t, r.flush(t.Context()))
	require.NoError(t, r.flush(t.Context()))
	require.Equal(t, 2, rows.calls)
	require.Len(t, rows.stored, 2)
	require.Equal(t, []string{"joined", "cordon"}, []string{rows.stored[1].What, rows.stored[2].What})
	require.Equal(t, r.incarnation, rows.stored[2].Incarnation)
	require.False(t, rows.stored[2].At.IsZero())
}

// Long texts are cut, so that one entry keeps no other from being stored.
func TestLongTextsOfTheJournalAreCut(t *testing.T) {
	t.Parallel()
	r, rows := recorder()
	long := strings.Repeat("ü", store.JournalTextMax)
	r.add(messages.JournalEntry{Kind: messages.JournalServer, Subject: long, What: "away", Reason: "x" + long, Detail: []byte(`"` + strings.Repeat("x", store.JournalDetailMax) + `"`)})
	require.NoError(t, r.finish(t.Context()))
	require.Len(t, rows.stored, 1)
	require.Equal(t, long[:store.JournalTextMax], rows.stored[1].Subject)
	require.Equal(t, "x"+long[:store.JournalTextMax-2], rows.stored[1].Reason)
}

// An entry that the store can never keep leaves a gap, and the next ones are stored.
func TestWhatTheStoreRefusesLeavesAGap(t *testing.T) {
	t.Parallel()
	r, rows := recorder()
	r.add(messages.JournalEntry{Kind: messages.JournalNode, Subject: "n"}) // it does not say what happened
	require.NoError(t, r.flush(t.Context()))
	r.node("joined", "", "", nil)
	require.NoError(t, r.finish(t.Context()))
	require.Len(t, rows.stored, 2)
	require.Equal(t, "joined", rows.stored[2].What)
	require.Equal(t, messages.JournalGap, rows.stored[3].Kind)
}

// Each change of a server is recorded once. That it is there at the start is no news.
func TestTheChangesOfAServerAreRecorded(t *testing.T) {
	t.Parallel()
	var got []string
	s := server{name: "broker", logger: hclog.NewNullLogger(), journal: func(e messages.JournalEntry) {
		got = append(got, fmt.Sprintf("%s %s %s %s", e.Kind, e.Subject, e.What, e.Reason))
	}}
	for _, step := range []struct {
		up, blocked bool
		reason      string
	}{{true, false, ""}, {true, false, ""}, {false, false, "refused"}, {false, false, "refused again"}, {true, true, "memory"}, {true, false, ""}} {
		s.set(step.up, step.blocked, step.reason)
	}
	require.Equal(t, []string{"server broker away refused", "server broker blocked memory", "server broker back "}, got)
}
