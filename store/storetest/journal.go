package storetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// journalStart is the time of the first entry of the tests.
var journalStart = time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)

// entry returns an entry that was recorded a number of seconds after journalStart.
func entry(inc messages.Incarnation, number int64, second int, kind messages.JournalKind, subject, what string) messages.JournalEntry {
	return messages.JournalEntry{
		At: journalStart.Add(time.Duration(second) * time.Second), Incarnation: inc, Number: number, Kind: kind, Subject: subject, What: what,
	}
}

func (k *kit) journal(t *testing.T, q store.JournalQuery) []messages.JournalEntry {
	t.Helper()
	return allPages(t, q, func(q store.JournalQuery) (store.JournalPage, error) { return k.ReadJournal(t.Context(), q) })
}

// allPages reads the pages of a query one after the other.
func allPages(t *testing.T, q store.JournalQuery, read func(store.JournalQuery) (store.JournalPage, error)) (all []messages.JournalEntry) {
	t.Helper()
	for range 1000 {
		page, err := read(q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Entries), q.Size())
		all = append(all, page.Entries...)
		if q.After = page.Next; q.After.IsZero() {
			return all
		}
	}
	t.Fatal("the journal has no end")
	return nil
}

// inPages checks that a query finds those of all entries that are wanted, in pages of several sizes and in both directions.
func inPages(t *testing.T, name string, q store.JournalQuery, all []messages.JournalEntry, wanted func(*messages.JournalEntry) bool,
	read func(*testing.T, store.JournalQuery) []messages.JournalEntry,
) {
	t.Helper()
	var want []messages.JournalEntry
	for i := range all {
		if wanted(&all[i]) {
			want = append(want, all[i])
		}
	}
	for _, limit := range []int{0, 1, 3, 1000} {
		q.Limit, q.Newest = limit, false
		require.Equal(t, want, read(t, q), "%s, oldest first, pages of %d", name, limit)
		q.Newest = true
		found := read(t, q)
		slices.Reverse(found)
		require.Equal(t, want, found, "%s, newest first, pages of %d", name, limit)
	}
}

// testJournal checks that the journal keeps every field, in order of time, and that a repeated write has no effect.
func testJournal(t *testing.T, k *kit) {
	ctx := t.Context()
	require.Empty(t, k.journal(t, store.JournalQuery{}))
	whole := messages.JournalEntry{
		At: journalStart.Add(123456 * time.Microsecond), Incarnation: k.inc, Number: 1, Kind: messages.JournalPool, Subject: "p\x00ü", What: "condition",
		Reason: "workers_busy", Caller: "ann", Detail: json.RawMessage(`{"shares": {"ready":0.27}}`),
	}
	other := messages.NewIncarnation()
	early, late := entry(other, 7, -10, messages.JournalServer, "store", "away"), entry(k.inc, 2, 10, messages.JournalServer, "store", "back")
	for range 2 {
		require.NoError(t, k.AppendJournal(ctx, []messages.JournalEntry{whole, late}))
		require.NoError(t, k.AppendJournal(ctx, []messages.JournalEntry{early}), "what was kept while the store was away comes late")
	}
	changed := whole
	changed.What = "else"
	require.NoError(t, k.AppendJournal(ctx, []messages.JournalEntry{changed}))
	all := []messages.JournalEntry{early, whole, late}
	require.Equal(t, all, k.journal(t, store.JournalQuery{}))
	require.NoError(t, k.AppendJournal(ctx, nil))

	now, err := k.Now(ctx)
	require.NoError(t, err)
	require.NoError(t, k.AppendJournal(ctx, []messages.JournalEntry{{Incarnation: k.inc, Number: 3, Kind: messages.JournalNode, Subject: "n", What: "joined"}}))
	found := k.journal(t, store.JournalQuery{Subjects: []string{"n"}})
	require.Len(t, found, 1)
	require.WithinDuration(t, now, found[0].At, time.Minute, "an entry without a time has the store's")
}

// testJournalRefused checks that entries that cannot be stored are refused, and none of their call is stored.
func testJournalRefused(t *testing.T, k *kit) {
	good := entry(k.inc, 1, 0, messages.JournalNode, "n", "joined")
	for name, change := range map[string]func(e *messages.JournalEntry){
		"no incarnation": func(e *messages.JournalEntry) { e.Incarnation = messages.Incarnation{} },
		"no number":      func(e *messages.JournalEntry) { e.Number = 0 },
		"no kind":        func(e *messages.JournalEntry) { e.Kind = "" },
		"long subject":   func(e *messages.JournalEntry) { e.Subject = strings.Repeat("x", store.JournalTextMax+1) },
		"long detail": func(e *messages.JournalEntry) {
			e.Detail = json.RawMessage(`"` + strings.Repeat("x", store.JournalDetailMax) + `"`)
		},
	} {
		bad := entry(k.inc, 2, 0, messages.JournalNode, "n", "joined")
		change(&bad)
		require.ErrorIs(t, k.AppendJournal(t.Context(), []messages.JournalEntry{good, bad}), store.ErrInvalid, name)
	}
	require.ErrorIs(t, k.AppendJournal(t.Context(), make([]messages.JournalEntry, store.JournalBatch+1)), store.ErrInvalid)
	require.Empty(t, k.journal(t, store.JournalQuery{}))
}

// testJournalPages checks ranges, filters and pages in both directions.
func testJournalPages(t *testing.T, k *kit) {
	other := messages.NewIncarnation()
	var all []messages.JournalEntry
	for i := range 40 {
		kind, subject := messages.JournalPool, "p"
		if i%4 == 0 {
			kind, subject = messages.JournalServer, "store"
		}
		if i%8 == 2 {
			kind = messages.JournalOperator // about the pool too
		}
		inc := k.inc
		if i%3 == 0 {
			inc = other
		}
		what := "w"
		if i%7 == 0 {
			what = "odd"
		}
		all = append(all, entry(inc, int64(i+1), i/2, kind, subject, what)) // two of each second
	}
	require.NoError(t, k.AppendJournal(t.Context(), all))
	slices.SortFunc(all, func(a, b messages.JournalEntry) int {
		return store.JournalCursorOf(&a).Compare(store.JournalCursorOf(&b))
	})
	second := func(n int) time.Time { return journalStart.Add(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		q    store.JournalQuery
		want func(e *messages.JournalEntry) bool
	}{
		"all":     {store.JournalQuery{}, func(*messages.JournalEntry) bool { return true }},
		"range":   {store.JournalQuery{From: second(3), To: second(9)}, func(e *messages.JournalEntry) bool { return !e.At.Before(second(3)) && e.At.Before(second(9)) }},
		"from":    {store.JournalQuery{From: second(5)}, func(e *messages.JournalEntry) bool { return !e.At.Before(second(5)) }},
		"to":      {store.JournalQuery{To: second(5)}, func(e *messages.JournalEntry) bool { return e.At.Before(second(5)) }},
		"subject": {store.JournalQuery{Subjects: []string{"p"}}, func(e *messages.JournalEntry) bool { return e.Subject == "p" }},
		"kinds": {store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalServer, messages.JournalOperator}},
			func(e *messages.JournalEntry) bool { return e.Kind != messages.JournalPool }},
		"what":          {store.JournalQuery{Whats: []string{"odd", "away"}}, func(e *messages.JournalEntry) bool { return e.What == "odd" }},
		"what and kind": {store.JournalQuery{Whats: []string{"w"}, Kinds: []messages.JournalKind{messages.JournalPool}}, func(e *messages.JournalEntry) bool { return e.What == "w" && e.Kind == messages.JournalPool }},
		"kind and subject": {store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalPool}, Subjects: []string{"p"}, From: second(2)},
			func(e *messages.JournalEntry) bool { return e.Kind == messages.JournalPool && !e.At.Before(second(2)) }},
		"two subjects": {store.JournalQuery{Subjects: []string{"store", "p", "q", "p"}}, func(*messages.JournalEntry) bool { return true }},
		"two subjects of some kinds": {store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalServer, messages.JournalOperator}, Subjects: []string{"p", "store"}, To: second(15)},
			func(e *messages.JournalEntry) bool { return e.Kind != messages.JournalPool && e.At.Before(second(15)) }},
		"not a subject":           {store.JournalQuery{NotSubjects: []string{"store", "q"}}, func(e *messages.JournalEntry) bool { return e.Subject == "p" }},
		"a subject and not a one": {store.JournalQuery{Subjects: []string{"p", "store"}, NotSubjects: []string{"p"}}, func(e *messages.JournalEntry) bool { return e.Subject == "store" }},
		"nothing":                 {store.JournalQuery{Subjects: []string{"q"}}, func(*messages.JournalEntry) bool { return false }},
	} {
		inPages(t, name, c.q, all, c.want, k.journal)
	}
}

// testJournalWalk checks that a page that finds nothing looks at a bounded number of entries and says where it stopped.
func testJournalWalk(t *testing.T, k *kit) {
	const more = 500
	number := int64(0)
	for n := store.JournalWalk + more; n > 0; n -= store.JournalBatch {
		batch := make([]messages.JournalEntry, min(n, store.JournalBatch))
		for i := range batch {
			number++
			batch[i] = entry(k.inc, number, int(number), messages.JournalPool, "p", "condition")
		}
		require.NoError(t, k.AppendJournal(t.Context(), batch))
	}
	rare := entry(k.inc, number+1, int(number)+1, messages.JournalServer, "store", "away")
	require.NoError(t, k.AppendJournal(t.Context(), []messages.JournalEntry{rare}))
	q := store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalServer}}
	page, err := k.ReadJournal(t.Context(), q)
	require.NoError(t, err)
	require.Empty(t, page.Entries)
	require.Equal(t, int64(store.JournalWalk), page.Next.Number)
	q.After = page.Next
	page, err = k.ReadJournal(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, []messages.JournalEntry{rare}, page.Entries)
	require.Zero(t, page.Next)
}

// testEndedPlacements checks that the events of changes that end a placement keep it, because the row does not.
func testEndedPlacements(t *testing.T, k *kit) {
	e := k.submit(t, ask())[0]
	k.applied(t, k.place(e.ID, 0, 1))
	placed := k.get(t, e.ID)
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "unpublished"})
	v := k.lastEvent(t, e.ID)
	require.Equal(t, store.Event{At: v.At, Attempt: 1, Kind: "take_back", From: messages.Scheduled, To: messages.Requested, Reason: "unpublished",
		Worker: string(workerID(1)), Incarnation: k.inc, RunAt: placed.RunAt, ScheduledAt: placed.ScheduledAt}, v)

	k.applied(t, k.place(e.ID, 1, 2))
	k.applied(t, k.claim(e.ID, 2, 2))
	running := k.get(t, e.ID)
	k.applied(t, &store.Rescue{ID: e.ID, Attempt: 2, Reason: "worker_lost"})
	v = k.lastEvent(t, e.ID)
	require.Equal(t, store.Event{At: v.At, Attempt: 2, Kind: "rescue", From: messages.Running, To: messages.Requested, Reason: "worker_lost",
		Worker: string(workerID(2)), Incarnation: k.inc, Generation: 1, RunAt: running.RunAt, ScheduledAt: running.ScheduledAt, StartedAt: running.StartedAt}, v)

	k.applied(t, k.place(e.ID, 2, 1))
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 3})
	require.Zero(t, k.lastEvent(t, e.ID).StartedAt, "this placement did not run")
}

// purgeJournal checks that old entries are deleted in batches, and that newer ones stay.
func (k *kit) purgeJournal(t *testing.T) {
	entries := make([]messages.JournalEntry, 10)
	for i := range entries {
		entries[i] = entry(k.inc, int64(i+1), i, messages.JournalPool, "p", "condition")
	}
	require.NoError(t, k.AppendJournal(t.Context(), entries))
	for i, want := range []store.Purged{{Rows: 3, More: true}, {Rows: 3, More: true}, {Rows: 2}, {}} {
		n, err := k.Purge(t.Context(), store.Purge{JournalBefore: journalStart.Add(8 * time.Second), Limit: 3})
		require.NoError(t, err)
		require.Equal(t, want, n, "call %d", i+1)
	}
	require.Equal(t, entries[8:], k.journal(t, store.JournalQuery{}))
}
