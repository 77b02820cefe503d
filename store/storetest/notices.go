package storetest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func telling(e *messages.Execution) { e.Notify = true }

// outbox is a store's outbox and its teller.
type outbox struct {
	*kit
	store.NoticesHold
}

func (k *kit) outbox(t *testing.T) *outbox {
	t.Helper()
	hold, err := k.HoldNotices(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	require.Positive(t, hold.Epoch)
	return &outbox{k, hold}
}

// read returns the next page and moves the cursor.
func (o *outbox) read(t *testing.T, limit int) store.NoticesPage {
	t.Helper()
	page, err := o.ReadNotices(t.Context(), o.Cursor, limit, nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(page.Notices), limit)
	o.Cursor = page.Next
	return page
}

// told reports the pages as told.
func (o *outbox) told(t *testing.T, pages ...store.NoticesPage) {
	t.Helper()
	told := store.ToldNotices{Cursor: pages[len(pages)-1].Next}
	for _, p := range pages {
		told.Rows = append(told.Rows, p.Rows...)
	}
	require.NoError(t, o.NoticesTold(t.Context(), o.Epoch, time.Hour, told))
}

// tell tells all notices.
func (o *outbox) tell(t *testing.T) (ids []messages.ExecutionID) {
	t.Helper()
	for {
		page := o.read(t, 1000)
		o.told(t, page)
		ids = append(ids, noticeIDs(page)...)
		if !page.More {
			return ids
		}
	}
}

func noticeIDs(page store.NoticesPage) []messages.ExecutionID {
	var out []messages.ExecutionID
	for i := range page.Notices {
		out = append(out, page.Notices[i].Execution.ID)
	}
	return out
}

func (k *kit) pending(t *testing.T) store.NoticesPending {
	t.Helper()
	p, err := k.PendingNotices(t.Context())
	require.NoError(t, err)
	require.False(t, p.More)
	return p
}

// end writes the outcome of each of the executions, all in one call.
func (k *kit) end(t *testing.T, executions []messages.Execution) (ids []messages.ExecutionID) {
	t.Helper()
	var changes []store.Change
	for i := range executions {
		ids = append(ids, executions[i].ID)
		changes = append(changes, &store.End{ID: executions[i].ID, Outcome: failed(messages.Failed)})
	}
	for _, r := range k.apply(t, changes...) {
		require.Equal(t, store.Applied, r.Verdict)
	}
	return ids
}

func many(n int, change ...func(e *messages.Execution)) []messages.Execution {
	out := make([]messages.Execution, n)
	for i := range out {
		out[i] = ask(change...)
	}
	return out
}

// testNotices checks that exactly the changes that end an execution with Notify set make a notice.
func testNotices(t *testing.T, k *kit) {
	o := k.outbox(t)
	require.Empty(t, o.tell(t))
	require.Equal(t, store.NoticesPending{}, k.pending(t))
	for _, notify := range []bool{true, false} {
		set := func(e *messages.Execution) { e.Notify = notify }
		for _, name := range store.Changes() {
			for _, from := range reachable() {
				if from.Terminal() {
					continue
				}
				e := k.bring(t, from, set)
				require.Equal(t, notify, e.Notify)
				require.Empty(t, o.tell(t), "%s is no end", from)
				c := k.changeTo(name, e)
				r := k.apply(t, c)[0]
				var want []messages.ExecutionID
				if notify && r.Verdict == store.Applied && r.Status.Terminal() {
					want = []messages.ExecutionID{e.ID}
					require.Equal(t, 1, k.pending(t).Count)
					require.Positive(t, k.pending(t).Age)
				}
				require.ElementsMatch(t, want, o.tell(t), "%s from %s", name, from)
				k.apply(t, c)
				require.Empty(t, o.tell(t), "%s from %s, made again", name, from)
			}
		}
	}
	require.Equal(t, store.NoticesPending{}, k.pending(t))
}

// testNoticeRetry checks that the retry of an execution with a notice has its own notice.
func testNoticeRetry(t *testing.T, k *kit) {
	o := k.outbox(t)
	e := k.bring(t, messages.Running, telling, func(e *messages.Execution) { e.MaxRetries = 1 })
	next := ask(telling, func(n *messages.Execution) { n.Original, n.RetryCount = e.ID, 1 })
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &next})
	page := o.read(t, 10)
	require.Equal(t, []messages.ExecutionID{e.ID}, noticeIDs(page))
	require.Equal(t, next.ID, page.Notices[0].Execution.RetriedAs)
	require.True(t, k.get(t, next.ID).Notify)
	k.applied(t, &store.End{ID: next.ID, Outcome: failed(messages.Failed)})
	require.Equal(t, []messages.ExecutionID{next.ID}, o.tell(t))
}

// testNoticesWhole checks that a notice has the values of its execution, without a result that is too long.
func testNoticesWhole(t *testing.T, k *kit) {
	o := k.outbox(t)
	sized := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	var ended []messages.ExecutionID
	for i, result := range []json.RawMessage{sized(3), nil, sized(5000), sized(messages.NoticeResultMax), sized(messages.NoticeResultMax + 1), sized(1 << 20)} {
		e := k.bring(t, messages.Running, telling, func(e *messages.Execution) {
			e.Labels, e.Trace = map[string]string{"a": "b"}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		})
		outcome := messages.Outcome{Status: messages.Completed, Result: result}
		if i == 1 {
			outcome = failed(messages.Failed)
			outcome.Error.Stderr = strings.Repeat("e", 3000)
		}
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: outcome})
		ended = append(ended, e.ID)
	}
	page := o.read(t, 100)
	require.Equal(t, ended, noticeIDs(page), "in the order of their commits")
	for i := range page.Notices {
		whole := k.get(t, ended[i])
		want, got := messages.NoticeOf(&whole), messages.NoticeOf(&page.Notices[i].Execution)
		got.Truncated = got.Truncated || page.Notices[i].Truncated
		require.Equal(t, want, got)
		require.Empty(t, page.Notices[i].Execution.Parameters)
		require.LessOrEqual(t, len(page.Notices[i].Execution.Result), messages.NoticeResultMax)
	}
}

// testNoticesPages checks that pages of any size have every notice once, that reading changes nothing, and that a told
// notice does not come again, also for the next teller.
func testNoticesPages(t *testing.T, k *kit) {
	o := k.outbox(t)
	var ids []messages.ExecutionID
	for range 3 {
		batch := many(30, telling)
		k.submit(t, batch...)
		ids = append(ids, k.end(t, batch)...)
	}
	start := o.Cursor
	for _, limit := range []int{1, 7, 30, 31, 1000} {
		o.Cursor = start
		var got []messages.ExecutionID
		for {
			page := o.read(t, limit)
			got = append(got, noticeIDs(page)...)
			if !page.More {
				break
			}
		}
		require.ElementsMatch(t, ids, got, "limit %d", limit)
		for i := range 3 {
			require.ElementsMatch(t, ids[i*30:i*30+30], got[i*30:i*30+30], "commits come in their order")
		}
	}
	require.Equal(t, 90, k.pending(t).Count)
	o.Cursor = start
	first := o.read(t, 47)
	o.told(t, first)
	next := k.outbox(t)
	require.Greater(t, next.Epoch, o.Epoch)
	more := many(5, telling)
	k.submit(t, more...)
	late := k.end(t, more)
	rest := next.tell(t)
	require.ElementsMatch(t, append(slices.Clone(ids), late...), append(noticeIDs(first), rest...))
	require.ElementsMatch(t, late, rest[len(rest)-5:])
	require.Zero(t, k.pending(t).Count)
}

// testNoticesBytes checks that a page of long results has few notices.
func testNoticesBytes(t *testing.T, k *kit) {
	o := k.outbox(t)
	result := json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)
	var ids []messages.ExecutionID
	changes := make([]store.Change, 0, 100)
	for range 100 {
		e := k.bring(t, messages.Running, telling)
		ids = append(ids, e.ID)
		changes = append(changes, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: result}})
	}
	k.apply(t, changes...)
	var got []messages.ExecutionID
	for {
		page := o.read(t, 1000)
		size := 0
		for i := range page.Notices {
			require.True(t, bytes.Equal(result, page.Notices[i].Execution.Result))
			size += len(page.Notices[i].Execution.Result)
		}
		require.LessOrEqual(t, size, 5<<20)
		got = append(got, noticeIDs(page)...)
		o.told(t, page)
		if !page.More {
			break
		}
	}
	require.ElementsMatch(t, ids, got)
}

// testNoticesHeld checks that one incarnation tells at a time, and that one that lost the outbox changes nothing.
func testNoticesHeld(t *testing.T, k *kit) {
	o := k.outbox(t)
	other := messages.NewIncarnation()
	hold := func(inc messages.Incarnation, lease time.Duration) int64 {
		h, err := k.HoldNotices(t.Context(), inc, lease)
		require.NoError(t, err)
		return h.Epoch
	}
	require.Zero(t, hold(other, time.Hour))
	e := k.submit(t, ask(telling))
	k.end(t, e)
	page := o.read(t, 10)
	require.NoError(t, k.ReleaseNotices(t.Context(), o.Epoch))
	epoch := hold(other, 50*time.Millisecond)
	require.Greater(t, epoch, o.Epoch)
	told := store.ToldNotices{Cursor: page.Next, Rows: page.Rows}
	require.ErrorIs(t, k.NoticesTold(t.Context(), o.Epoch, time.Hour, told), store.ErrNoticesLost)
	require.Equal(t, 1, k.pending(t).Count, "who lost it changes nothing")
	require.NoError(t, k.ReleaseNotices(t.Context(), o.Epoch), "nor does its release end another's hold")
	var again int64
	require.Eventually(t, func() bool { again = hold(k.inc, time.Hour); return again > 0 }, 10*time.Second, 10*time.Millisecond, "its lease ends")
	require.Greater(t, again, epoch)
	require.Zero(t, hold(other, time.Hour))
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDead))
	require.Greater(t, hold(other, time.Hour), again, "a dead node's hold ends with it")
	require.ErrorIs(t, k.NoticesTold(t.Context(), again, time.Hour, told), store.ErrNoticesLost)
}

// testNoticesLater checks that a postponed notice comes again at the end.
func testNoticesLater(t *testing.T, k *kit) {
	o := k.outbox(t)
	batch := many(3, telling)
	k.submit(t, batch...)
	ids := k.end(t, batch)
	page := o.read(t, 10)
	require.NoError(t, k.NoticesTold(t.Context(), o.Epoch, time.Hour,
		store.ToldNotices{Cursor: page.Next, Rows: page.Rows, Later: ids[:1], LaterAt: page.Oldest.Add(-time.Hour)}))
	require.Equal(t, 1, k.pending(t).Count)
	require.Greater(t, k.pending(t).Age, time.Hour, "it is as old as it was")
	last := k.submit(t, ask(telling))
	require.Equal(t, append(ids[:1:1], k.end(t, last)...), o.tell(t))
}

// testNoticesPurged checks that an execution that was purged before it was told is skipped.
func testNoticesPurged(t *testing.T, k *kit) {
	o := k.outbox(t)
	batch := many(3, telling)
	k.submit(t, batch...)
	k.end(t, batch)
	for {
		purged, err := k.Purge(t.Context(), store.Purge{FinishedBefore: time.Now().Add(time.Hour)})
		require.NoError(t, err)
		if !purged.More {
			break
		}
	}
	require.Empty(t, o.tell(t))
	require.Zero(t, k.pending(t).Count, "the outbox keeps nothing longer than the executions")
}

// testNoticesUnheard checks that of the notices of a route that no queue gets the first is read, and each other is read or counted.
// Those of retries and of executions with a trace are read.
func testNoticesUnheard(t *testing.T, k *kit) {
	o := k.outbox(t)
	var plain, read []messages.ExecutionID
	var changes []store.Change
	long := messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)}
	finish := func(ids *[]messages.ExecutionID, outcome messages.Outcome, change ...func(*messages.Execution)) {
		e := k.bring(t, messages.Running, append(change, telling)...)
		*ids = append(*ids, e.ID)
		changes = append(changes, &store.Finish{ID: e.ID, Attempt: 1, Outcome: outcome})
	}
	traced := func(e *messages.Execution) { e.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }
	retry := func(e *messages.Execution) { e.Original, e.RetryCount = messages.NewExecutionID(), 1 }
	for range 5 {
		for _, outcome := range []messages.Outcome{outcome(messages.Completed), long} {
			finish(&plain, outcome)
			finish(&read, outcome, traced)
			finish(&read, outcome, retry)
			finish(&read, outcome, func(e *messages.Execution) { e.Action = "core.other" })
		}
		finish(&read, failed(messages.Failed))
	}
	k.apply(t, changes...)
	route := store.NoticeRoute{Status: messages.Completed, Action: "core.echo"}
	start := o.Cursor
	for _, limit := range []int{1, 7, 1000} {
		o.Cursor = start
		var got []messages.ExecutionID
		unread := 0
		for more := true; more; {
			page, err := o.ReadNotices(t.Context(), o.Cursor, limit, store.NoticeRoutes{route: {}})
			require.NoError(t, err)
			if n, ok := page.Unread[route]; ok {
				require.Len(t, page.Unread, 1)
				unread += n
				require.True(t, slices.ContainsFunc(page.Notices, func(n store.Notice) bool { return slices.Contains(plain, n.Execution.ID) }), "the first is read")
			} else {
				require.Empty(t, page.Unread)
			}
			got = append(got, noticeIDs(page)...)
			o.Cursor, more = page.Next, page.More
		}
		require.Subset(t, got, read, "limit %d", limit)
		require.Subset(t, append(slices.Clone(plain), read...), got)
		require.Equal(t, len(plain)+len(read), len(got)+unread)
	}
	o.Cursor = start
	require.ElementsMatch(t, append(plain, read...), o.tell(t), "to read changes nothing")
}

// testDeadLetterKeys checks that a death that is handled twice leaves one record, however many share a time.
func testDeadLetterKeys(t *testing.T, k *kit) {
	e := k.bring(t, messages.Scheduled)
	d := store.DeadLetter{Execution: e.ID, Attempt: 1, Queue: "q", Reason: "expired", Resolution: "failed", Key: "death/1"}
	first, err := k.SaveDeadLetter(t.Context(), d)
	require.NoError(t, err)
	d.Resolution = "stale"
	again, err := k.SaveDeadLetter(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, first, again)
	d.Key = "death/2"
	other, err := k.SaveDeadLetter(t.Context(), d)
	require.NoError(t, err)
	require.NotEqual(t, first, other)
	got, err := k.GetDeadLetter(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, "failed", got.Resolution, "the record stays as it is")
	list, err := k.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	events, err := k.Events(t.Context(), e.ID)
	require.NoError(t, err)
	letters := 0
	for _, event := range events {
		if event.Kind == "dead_letter" {
			letters++
		}
	}
	require.Equal(t, 2, letters)
}
