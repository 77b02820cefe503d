package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// skimming is an outbox that reads no more than it must.
type skimming struct {
	store.Store
	pages [][]store.Notice // not told
	reads int              // notices that were read
}

func (s *skimming) ReadNotices(_ context.Context, from store.NoticesCursor, _ int, unheard store.NoticeRoutes) (store.NoticesPage, error) {
	at := 0
	if _, err := fmt.Sscan(string(from), &at); err != nil || at >= len(s.pages) {
		return store.NoticesPage{Next: from}, nil
	}
	page := store.NoticesPage{Next: store.NoticesCursor(fmt.Sprint(at + 1)), More: at+1 < len(s.pages), Unread: map[store.NoticeRoute]int{}}
	for _, n := range s.pages[at] {
		if route := routeOf(&n.Execution); unheard.Has(route) {
			if count, more := page.Unread[route]; more {
				page.Unread[route] = count + 1
				continue
			}
			page.Unread[route] = 0
		}
		page.Notices = append(page.Notices, n)
	}
	s.reads += len(page.Notices)
	return page, nil
}

func (s *skimming) NoticesTold(context.Context, int64, time.Duration, store.ToldNotices) error {
	return nil
}

// bound is a broker with a queue for some keys, which counts what is published.
type bound struct {
	broker.Broker
	keys      map[string]bool
	published int
	got       []string // ids
}

func (*bound) Status() broker.Status { return broker.Status{Up: true} }

func (b *bound) Publish(_ context.Context, all []broker.Message) ([]broker.Confirm, error) {
	confirms := make([]broker.Confirm, len(all))
	for i := range all {
		b.published++
		if confirms[i] = broker.Returned; b.keys[all[i].RoutingKey] {
			confirms[i] = broker.Confirmed
			b.got = append(b.got, all[i].ID)
		}
	}
	return confirms, nil
}

// add puts a page into the outbox: executions with the status, in order.
func (s *skimming) add(change func(*messages.Execution), statuses ...messages.Status) (ids []string) {
	var page []store.Notice
	for _, status := range statuses {
		e := messages.Execution{ID: messages.NewExecutionID(), Action: "core.act", Status: status}
		if change != nil {
			change(&e)
		}
		ids, page = append(ids, e.ID.String()), append(page, store.Notice{Execution: e})
	}
	s.pages = append(s.pages, page)
	return ids
}

const (
	completedKey = "execution.completed.core.act"
	failedKey    = "execution.failed.core.act"
)

// unheardTeller is a teller whose outbox reads no more than it must.
func unheardTeller() (*teller, *skimming, *bound, func(string) int) {
	outbox, b := &skimming{}, &bound{keys: map[string]bool{}}
	teller, _, count := tellerOf(outbox, b)
	teller.cursor = "0"
	return teller, outbox, b, count
}

func (t *teller) tellAll(tt *testing.T) {
	tt.Helper()
	_, err := t.tell(tt.Context())
	require.NoError(tt, err)
}

var ends = []messages.Status{messages.Completed, messages.Completed, messages.Failed, messages.Completed, messages.Failed}

// Of what no queue gets one notice of each route and page is read and published, from the second page on.
func TestOneNoticeOfEachRouteIsPublishedWhereNobodyListens(t *testing.T) {
	t.Parallel()
	teller, outbox, b, count := unheardTeller()
	for range 3 {
		outbox.add(nil, ends...)
	}
	teller.tellAll(t)
	outbox.add(nil, ends...)
	outbox.add(nil, ends...)
	teller.tellAll(t)
	require.Equal(t, 25, count("unheard"), "each is counted")
	require.Zero(t, count("told"))
	// The second page may have been read before the first was published.
	require.Equal(t, 5+5+2+2+2, b.published)
	require.Equal(t, b.published, outbox.reads)
}

// Who binds a queue before an execution ends hears of it, and of all that end later.
func TestWhoBindsAQueueHearsOfAllThatEndsLater(t *testing.T) {
	t.Parallel()
	teller, outbox, b, count := unheardTeller()
	outbox.add(nil, ends...)
	outbox.add(nil, ends...)
	teller.tellAll(t)
	b.keys[completedKey] = true
	ids := outbox.add(nil, ends...)
	more := outbox.add(nil, ends...)
	teller.tellAll(t)
	want := []string{ids[0], ids[0], ids[1], ids[3], more[0], more[1], more[3]} // the first one twice
	require.Equal(t, want, b.got)
	require.Equal(t, 6, count("told"))
	require.Equal(t, 14, count("unheard"))
}

// A queue that is gone is noticed by the first page that it does not get.
func TestARouteIsUnheardAgainWhenItsQueueIsGone(t *testing.T) {
	t.Parallel()
	teller, outbox, b, count := unheardTeller()
	b.keys[failedKey] = true
	ids := outbox.add(nil, ends...)
	teller.tellAll(t)
	require.Equal(t, []string{ids[2], ids[4]}, b.got)
	b.keys[failedKey] = false
	outbox.add(nil, ends...)
	teller.tellAll(t)
	published := b.published
	outbox.add(nil, ends...)
	teller.tellAll(t)
	require.Equal(t, 2, b.published-published)
	require.Equal(t, 13, count("unheard"))
}

// A retry has to follow the execution that it repeats, and the headers of an execution with a trace are its own: they are published
// where they stand.
func TestRetriesAndTracesArePublished(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*messages.Execution){
		"retry": func(e *messages.Execution) { e.Original, e.RetryCount = messages.NewExecutionID(), 1 },
		"trace": func(e *messages.Execution) { e.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			teller, outbox, b, _ := unheardTeller()
			for range 4 {
				outbox.add(change, ends...)
			}
			teller.tellAll(t)
			require.Equal(t, 20, b.published)
		})
	}
}

// What is unheard is forgotten at a bound, and is learned again.
func TestUnheardRoutesAreBounded(t *testing.T) {
	t.Parallel()
	var u unheardRoutes
	for i := range 3 * unheardMax {
		u.learn(store.NoticeRoute{Status: messages.Completed, Action: fmt.Sprint(i)}, broker.Returned)
		require.LessOrEqual(t, len(u.routes), unheardMax)
	}
	u.learn(store.NoticeRoute{}, broker.Returned)
	require.False(t, u.routes.Has(store.NoticeRoute{}))
}
