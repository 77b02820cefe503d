package journal_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
)

func of(kind messages.JournalKind, ms int) messages.JournalEntry {
	return messages.JournalEntry{At: after(ms), Kind: kind, Subject: "s", What: "w"}
}

func numbers(entries []messages.JournalEntry) (out []int64) {
	for _, e := range entries {
		out = append(out, e.Number)
	}
	return out
}

func TestALogNumbersItsEntriesAndKeepsThemUntilTheyAreStored(t *testing.T) {
	t.Parallel()
	var l journal.Log
	require.Empty(t, l.Batch(start, 10, false))
	for i := range 5 {
		l.Add(start, of(messages.JournalNode, i))
	}
	first := l.Batch(start, 3, false)
	require.Equal(t, []int64{1, 2, 3}, numbers(first))
	require.Equal(t, []int64{1, 2, 3}, numbers(l.Batch(start, 3, false)), "the store has not said that it has them")
	l.Stored(3)
	l.Add(start, of(messages.JournalNode, 9))
	require.Equal(t, []int64{4, 5, 6}, numbers(l.Batch(start, 3, true)))
	l.Stored(6)
	require.Zero(t, l.Len())
}

func TestAFullLogDropsConditionsFirst(t *testing.T) {
	t.Parallel()
	var l journal.Log
	l.Add(start, of(messages.JournalNode, 0))
	for i := range journal.LogMax - 1 {
		l.Add(start, of(messages.JournalPool, i+1))
	}
	for i := range 3 {
		l.Add(start, of(messages.JournalRouter, 1_000_000+i))
	}
	require.Equal(t, journal.LogMax, l.Len())
	require.Empty(t, gaps(l.Batch(start.Add(time.Hour), 20_000, true)), "a full log has no room for its gaps")
	l.Stored(4)
	batch := l.Batch(start.Add(time.Hour), 20_000, false)
	require.Equal(t, []messages.JournalEntry{{At: after(1), Number: int64(journal.LogMax + 4), Kind: messages.JournalGap, Subject: "pool", What: journal.Dropped,
		Detail: json.RawMessage(`{"until":"2026-03-01T03:12:00.003Z","entries":3}`)}}, gaps(batch))

	var nodes journal.Log
	for i := range journal.LogMax + 1 {
		nodes.Add(start, of(messages.JournalNode, i))
	}
	require.Equal(t, int64(2), nodes.Batch(start, 1, false)[0].Number, "without a condition the oldest goes")
}

func gaps(entries []messages.JournalEntry) []messages.JournalEntry {
	return slices.DeleteFunc(entries, func(e messages.JournalEntry) bool { return e.Kind != messages.JournalGap })
}

func TestKindsThatCallersCauseHaveARate(t *testing.T) {
	t.Parallel()
	var l journal.Log
	for i := range 10_000 {
		require.Equal(t, i < 500, l.Add(start, of(messages.JournalSession, i)))
		l.Stored(int64(i + 1))
	}
	l.Add(start, of(messages.JournalNode, 0))
	require.Equal(t, []int64{501}, numbers(l.Batch(start, 100, false)), "the first 500 were taken")
	l.Stored(501)
	require.Empty(t, l.Batch(start.Add(9*time.Second), 100, false), "a gap covers 10 s at least")
	gap := l.Batch(start.Add(10*time.Second), 100, false)
	require.Len(t, gap, 1)
	var d journal.GapDetail
	require.NoError(t, json.Unmarshal(gap[0].Detail, &d))
	require.Equal(t, journal.GapDetail{Until: after(9999), Entries: 9500}, d)
	require.Equal(t, "session", gap[0].Subject)
	l.Stored(502)
	l.Add(start.Add(time.Second), of(messages.JournalSession, 20_000))
	require.Equal(t, 1, l.Len(), "two a second come back")
}

func TestWhatTheStoreRefusesIsDropped(t *testing.T) {
	t.Parallel()
	var l journal.Log
	l.Add(start, of(messages.JournalNode, 5))
	l.Add(start, of(messages.JournalNode, 7))
	l.Refuse(start, 1)
	batch := l.Batch(start, 100, true)
	require.Equal(t, []int64{2, 3}, numbers(batch))
	require.Equal(t, messages.JournalGap, batch[1].Kind)
}
