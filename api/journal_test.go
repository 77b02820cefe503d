package api

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A page whose entries do not match says how far it looked.
func TestAPageOfTheJournalSaysHowFarItLooked(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	inc, at := messages.NewIncarnation(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(n int) messages.JournalEntry {
		return messages.JournalEntry{At: at.Add(time.Duration(n) * time.Second), Incarnation: inc, Number: int64(n), Kind: messages.JournalPool, Subject: "python", What: "condition"}
	}
	first := entry(1)
	first.What = "handed_over"
	list := []messages.JournalEntry{first}
	for n := 2; n <= store.JournalWalk+1; n++ {
		if list = append(list, entry(n)); len(list) == store.JournalBatch || n == store.JournalWalk+1 {
			require.NoError(t, b.AppendJournal(t.Context(), list))
			list = nil
		}
	}
	page := read[JournalList](t, ask(t, h, "GET", "/api/v1/journal?what=handed_over", ""), 200)
	require.Empty(t, page.Entries)
	require.Equal(t, []any{store.MoreUnsearched, entry(2).At}, []any{page.More, page.SearchedTo.At})
	page = read[JournalList](t, ask(t, h, "GET", "/api/v1/journal?what=handed_over&cursor="+page.NextCursor, ""), 200)
	require.Equal(t, []any{1, store.MoreEnd, ""}, []any{len(page.Entries), page.More, page.NextCursor})
}

func TestJournal(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	inc, at := messages.NewIncarnation(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var entries []messages.JournalEntry
	for i := range 7 {
		kind := []messages.JournalKind{messages.JournalPool, messages.JournalOperator, messages.JournalNode}[i%3]
		subject := "python"
		if i == 3 {
			subject = "go"
		}
		entries = append(entries, messages.JournalEntry{At: at.Add(time.Duration(i) * time.Minute), Incarnation: inc, Number: int64(i + 1), Kind: kind, Subject: subject, What: "w"})
	}
	require.NoError(t, b.AppendJournal(t.Context(), entries))
	get := func(query string) (numbers []int64, next string) {
		page := read[JournalList](t, ask(t, h, "GET", "/api/v1/journal?"+query, ""), 200)
		require.NotNil(t, page.Entries)
		for _, e := range page.Entries {
			numbers = append(numbers, e.Number)
		}
		return numbers, page.NextCursor
	}
	numbers, next := get("limit=3")
	require.Equal(t, []int64{7, 6, 5}, numbers)
	numbers, next = get("limit=3&cursor=" + next)
	require.Equal(t, []int64{4, 3, 2}, numbers)
	numbers, next = get("limit=3&cursor=" + next)
	require.Equal(t, []int64{1}, numbers)
	require.Empty(t, next)
	numbers, _ = get("kinds=operator,node&from=2026-01-02T03:06:00Z&to=" + url.QueryEscape("2026-01-02T04:09:05+01:00"))
	require.Equal(t, []int64{5, 3}, numbers)
	again, _ := get("kinds=operator&kinds=node&from=2026-01-02T03:06:00Z&to=" + url.QueryEscape("2026-01-02T04:09:05+01:00"))
	require.Equal(t, numbers, again, "repeated or joined with commas")
	numbers, _ = get("not.kinds=operator,node")
	require.Equal(t, []int64{7, 4, 1}, numbers)
	numbers, _ = get("kinds=operator,node&not.kinds=node&limit=1")
	require.Equal(t, []int64{5}, numbers)
	numbers, _ = get("what=w,dead&kinds=node")
	require.Equal(t, []int64{6, 3}, numbers)
	numbers, _ = get("what=dead&what=away")
	require.Empty(t, numbers)
	numbers, _ = get("subject=node")
	require.Empty(t, numbers)
	numbers, _ = get("subject=node&subject=go")
	require.Equal(t, []int64{4}, numbers)
	numbers, _ = get("subject=python&subject=go&limit=5")
	require.Equal(t, []int64{7, 6, 5, 4, 3}, numbers)
	numbers, _ = get("not.subject=python&not.subject=node")
	require.Equal(t, []int64{4}, numbers)
	page := read[JournalList](t, ask(t, h, "GET", "/api/v1/journal?limit=3", ""), 200)
	require.Equal(t, []any{store.MoreFound, entries[4].At}, []any{page.More, page.SearchedTo.At})
	page = read[JournalList](t, ask(t, h, "GET", "/api/v1/journal", ""), 200)
	require.Equal(t, store.MoreEnd, page.More)
	require.Nil(t, page.SearchedTo)
	refused(t, ask(t, h, "GET", "/api/v1/journal?kind=node", ""), 400, messages.CodeInvalidRequest, `unknown query parameter "kind"`)
	refused(t, ask(t, h, "GET", "/api/v1/journal?kinds=actor", ""), 400, messages.CodeInvalidRequest, `kinds must be node, pool, router, worker, session, server, operator, mark or gap, got "actor"`)
	for _, query := range []string{"kinds=actor", "not.kinds=actor", "what=", "what=Dead", "what=a%20b", "what=" + strings.Repeat("a,", 50) + "a", "kinds=node&not.kinds=node", "from=noon", "cursor=x", "cursor=" + cursor("1 x 2"), "limit=0", "order=oldest"} {
		refused(t, ask(t, h, "GET", "/api/v1/journal?"+query, ""), 400, messages.CodeInvalidRequest, "")
	}
}
