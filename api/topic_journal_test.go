package api

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// Of a journal in which nothing happens the newest entry is read, and from time to time all that are shown.
func TestAQuietJournalIsReadByItsNewestEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var entries []messages.JournalEntry
		var failed error
		reads := map[int]int{}
		read := newestFirst(func(_ context.Context, limit int) (*JournalList, error) {
			reads[limit]++
			return &JournalList{Entries: append([]messages.JournalEntry{}, entries[:min(limit, len(entries))]...)}, failed
		})
		split := journalEntries(nil)
		shown := func() (keys []string) {
			t.Helper()
			answer, err := read(t.Context())
			require.NoError(t, err)
			list, err := split(answer)
			require.NoError(t, err)
			for _, e := range list {
				keys = append(keys, e.Key+"="+string(e.Value))
			}
			return keys
		}
		happens := func(number int64, at time.Time) messages.JournalEntry {
			return messages.JournalEntry{Number: number, At: at, Kind: messages.JournalNode, Subject: "n", What: "joined"}
		}
		require.Equal(t, []string{"entries=[]", `more=""`}, shown())
		require.Len(t, shown(), 2)
		require.Equal(t, map[int]int{1: 1, topicRows: 1}, reads)

		entries = append(entries, happens(1, time.Now()))
		require.Len(t, shown(), 2)
		require.Contains(t, shown()[0], `"number":1`)
		require.Equal(t, map[int]int{1: 3, topicRows: 2}, reads, "the first entry of all was seen")

		entries = slices.Insert(entries, 0, happens(2, time.Now()))
		require.Len(t, shown(), 3)
		entries = append(entries, happens(3, time.Now().Add(-time.Hour)))
		require.Len(t, shown(), 3, "an old one that comes late is not seen at once,")
		time.Sleep(journalKept)
		require.Len(t, shown(), 4, "but soon")

		failed = errors.New("away")
		_, err := read(t.Context())
		require.ErrorIs(t, err, failed)
		time.Sleep(journalKept)
		_, err = read(t.Context())
		require.ErrorIs(t, err, failed)
	})
}
