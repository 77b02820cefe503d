package actors

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// moody is a broker that confirms as it is told to.
type moody struct {
	broker.Broker
	mu      sync.Mutex
	down    bool
	says    []broker.Confirm // of the next messages; those that were not Confirmed are not published
	refuse  bool             // every message
	refused messages.ExecutionID
	counts  map[string]int
}

func (m *moody) Status() broker.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return broker.Status{Up: !m.down, Reason: "a test said so"}
}

func (m *moody) Publish(ctx context.Context, messages []broker.Message) ([]broker.Confirm, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	confirms := make([]broker.Confirm, len(messages))
	for i := range messages {
		if m.refuse || messages[i].ID == m.refused.String() {
			confirms[i] = broker.Nacked
			continue
		}
		if len(m.says) > 0 {
			confirms[i], m.says = m.says[0], m.says[1:]
			if confirms[i] != broker.Confirmed {
				continue
			}
		}
		got, err := m.Broker.Publish(ctx, messages[i:i+1])
		if err != nil {
			return confirms, err
		}
		confirms[i] = got[0]
	}
	return confirms, nil
}

func (m *moody) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *moody) counted(result string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[result]
}

// herald is a notices bridge and a recorder that wakes it, with a queue that listens to all of the exchange.
type herald struct {
	*dock
	office *office
	moody  *moody
	heard  broker.Consumer
}

func newHerald(t *testing.T, every time.Duration) *herald {
	t.Helper()
	h := &herald{dock: newDock(t, nil), office: newOffice(t, nil)}
	h.moody = &moody{Broker: h.broker, counts: map[string]int{}}
	require.NoError(t, h.office.system.StopAndWait(t.Context(), h.office.recorder))
	pid := h.office.system.PID("notices")
	bell := &NoticesBell{}
	h.office.config.Notices = func() { bell.Ring(h.office.system, pid) }
	h.office.spawn(t)
	_, err := h.office.system.Spawn(h.office.system, NewNotices(NoticesConfig{
		System: h.office.system, Store: h.office.store, Broker: h.moody, Settings: h.settings, Every: every,
		Incarnation: messages.NewIncarnation(), Bell: bell, GiveUp: 100 * time.Millisecond, Logger: hclog.NewNullLogger(),
		Count: func(result string, n int) { h.moody.set(func() { h.moody.counts[result] += n }) },
	}))
	require.NoError(t, err)
	return h
}

func (h *herald) listen(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, h.broker.Declare(t.Context(), broker.Topology{
		Queues:   []broker.Queue{{Name: "ears"}},
		Bindings: []broker.Binding{{Exchange: h.settings.ExecutionsExchange(), Queue: "ears", Key: key}},
	}))
	var err error
	h.heard, err = h.broker.Consume(t.Context(), "ears", 100)
	require.NoError(t, err)
}

func (h *herald) next(t *testing.T) (messages.ExecutionCompleted, broker.Delivery) {
	t.Helper()
	select {
	case d := <-h.heard.Deliveries():
		require.NoError(t, d.Ack())
		var n messages.ExecutionCompleted
		require.NoError(t, json.Unmarshal(d.Body, &n))
		return n, d
	case <-time.After(20 * time.Second):
		require.FailNow(t, "no notice came")
		return messages.ExecutionCompleted{}, broker.Delivery{}
	}
}

// end submits executions and gives each its outcome.
func (h *herald) end(t *testing.T, n int, notify bool) []messages.ExecutionID {
	t.Helper()
	batch := make([]messages.Execution, n)
	ids := make([]messages.ExecutionID, n)
	changes := make([]store.Change, n)
	for i := range batch {
		ids[i] = messages.NewExecutionID()
		batch[i] = messages.Execution{
			ID: ids[i], Action: "core.act", Pool: "pool", Notify: notify, Parameters: json.RawMessage(`{"secret":"s3cret"}`),
			Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=1",
		}
		changes[i] = &store.End{ID: ids[i], Outcome: messages.Outcome{
			Status: messages.Failed, Error: &messages.Error{Code: messages.CodeNoWorkers, Message: "no workers available"},
		}}
	}
	_, err := h.office.store.Submit(t.Context(), batch)
	require.NoError(t, err)
	results, err := h.office.ask(t.Context(), changes...)
	require.NoError(t, err)
	for _, r := range results {
		require.Equal(t, store.Applied, r.Verdict)
	}
	return ids
}

func (h *herald) pending(t *testing.T) int {
	t.Helper()
	pending, err := h.office.store.PendingNotices(t.Context())
	require.NoError(t, err)
	return pending.Count
}

func TestNoticesAreToldWhenOutcomesAreCommitted(t *testing.T) {
	t.Parallel()
	h := newHerald(t, time.Hour) // so that only the recorder's word wakes it
	h.listen(t, "execution.failed.#")
	h.end(t, 1, false)
	ids := h.end(t, 150, true)
	seen := map[messages.ExecutionID]bool{}
	for range ids {
		n, d := h.next(t)
		seen[n.ExecutionID] = true
		require.Equal(t, messages.NoticeType, n.Type)
		require.Equal(t, messages.Failed, n.Status)
		require.Equal(t, messages.CodeNoWorkers, n.Error.Code)
		require.Equal(t, "execution.failed.core.act", d.RoutingKey)
		require.Equal(t, n.ExecutionID.String(), d.ID)
		require.Equal(t, n.Trace, d.Headers["traceparent"])
		require.Equal(t, n.State, d.Headers["tracestate"])
		require.Equal(t, []int{55, 3}, []int{len(n.Trace), len(n.State)})
		require.NotContains(t, string(d.Body), "s3cret", "a notice has no parameters")
	}
	require.Len(t, seen, len(ids))
	soon(t, func() bool { return h.pending(t) == 0 }, "told ones are forgotten")
	require.Equal(t, len(ids), h.moody.counted("told"))
}

// What is told is written down soon, also if nothing follows it.
func TestTheOutboxIsSoonEmptyWhenNothingFollows(t *testing.T) {
	t.Parallel()
	h := newHerald(t, time.Hour)
	h.listen(t, "#")
	for range 5 { // the first is written down at once
		h.end(t, 1, true)
		h.next(t)
	}
	soon(t, func() bool { return h.pending(t) == 0 }, "without a word of another outcome")
}

func TestNoticesThatNobodyHearsAreTold(t *testing.T) {
	t.Parallel()
	h := newHerald(t, time.Hour)
	h.end(t, 3, true)
	soon(t, func() bool { return h.pending(t) == 0 }, "nobody has bound a queue")
	require.Equal(t, 3, h.moody.counted("unheard"))
}

// What is not confirmed is told again, with all that follows it, so that the last copies are in order.
func TestNoticesAreRepeatedUntilTheyAreConfirmed(t *testing.T) {
	t.Parallel()
	h := newHerald(t, 20*time.Millisecond)
	h.listen(t, "#")
	h.moody.set(func() { h.moody.down = true })
	ids := h.end(t, 3, true)
	soon(t, func() bool { info, _ := h.office.system.Registry.Get("notices"); return info.State == "waiting" }, "it waits for the broker")
	require.Equal(t, 3, h.pending(t))
	h.moody.set(func() {
		h.moody.down = false
		h.moody.says = []broker.Confirm{broker.Nacked, broker.Unknown, broker.Confirmed, broker.Unknown, broker.Nacked, broker.Confirmed}
	})
	var heard []messages.ExecutionID
	for len(heard) < 5 {
		n, _ := h.next(t)
		heard = append(heard, n.ExecutionID)
	}
	require.ElementsMatch(t, ids, heard[2:], "the third time all are confirmed")
	require.Equal(t, []messages.ExecutionID{heard[4], heard[4]}, heard[:2], "and twice before the last one alone")
	soon(t, func() bool { return h.pending(t) == 0 }, "all are told in the end")
	require.Equal(t, 6, h.moody.counted("repeated"))
	require.Equal(t, 3, h.moody.counted("told"))
}

// A queue that takes nothing more holds up only what goes there.
func TestANoticeThatIsRefusedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h := newHerald(t, 20*time.Millisecond)
	h.listen(t, "#")
	h.moody.set(func() { h.moody.refuse = true })
	refused := h.end(t, 1, true)
	soon(t, func() bool { return h.moody.counted("put_off") > 1 }, "it is put off, and tried again")
	h.moody.set(func() { h.moody.refuse, h.moody.refused = false, refused[0] })
	others := h.end(t, 3, true)
	var heard []messages.ExecutionID
	for len(heard) < 3 {
		n, _ := h.next(t)
		require.NotEqual(t, refused[0], n.ExecutionID)
		if !slices.Contains(heard, n.ExecutionID) {
			heard = append(heard, n.ExecutionID)
		}
	}
	require.ElementsMatch(t, others, heard)
	soon(t, func() bool { return h.pending(t) == 1 }, "all but one are told")
	h.moody.set(func() { h.moody.refused = messages.ExecutionID{} })
	for n, _ := h.next(t); n.ExecutionID != refused[0]; n, _ = h.next(t) {
		require.Contains(t, others, n.ExecutionID)
	}
	soon(t, func() bool { return h.pending(t) == 0 }, "it is told at last")
}

// Of two nodes one tells, and the other when the first has gone.
func TestTheNextNodeTellsWhenTheFirstHasGone(t *testing.T) {
	t.Parallel()
	h := newHerald(t, 20*time.Millisecond)
	h.listen(t, "#")
	h.end(t, 1, true)
	first, _ := h.next(t)
	reports := make(chan NoticesReport, 100)
	other, err := h.office.system.Spawn(h.office.system, func() Child {
		c := NewNotices(NoticesConfig{
			System: h.office.system, Store: h.office.store, Broker: h.moody, Settings: h.settings, Every: 20 * time.Millisecond,
			Incarnation: messages.NewIncarnation(), Logger: hclog.NewNullLogger(), Report: func(r NoticesReport) { reports <- r },
		})
		c.Name = "others"
		return c
	}())
	require.NoError(t, err)
	require.False(t, (<-reports).Teller)
	soon(t, func() bool { return h.pending(t) == 0 }, "the first notice is written down: else the next node tells it once more")
	require.NoError(t, h.office.system.StopAndWait(t.Context(), h.office.system.PID("notices")))
	second := h.end(t, 1, true)
	h.office.system.Send(other, &TakeNotices{})
	n, _ := h.next(t)
	require.Equal(t, second[0], n.ExecutionID)
	require.NotEqual(t, first.ExecutionID, n.ExecutionID)
	soon(t, func() bool { return h.pending(t) == 0 }, "and writes it down")
}

// A teller that does not reach the broker leaves the outbox to a node that does.
func TestATellerWithoutABrokerGivesWay(t *testing.T) {
	t.Parallel()
	h := newHerald(t, 20*time.Millisecond)
	h.listen(t, "#")
	h.end(t, 1, true)
	h.next(t)
	h.moody.set(func() { h.moody.down = true })
	other := NewNotices(NoticesConfig{
		System: h.office.system, Store: h.office.store, Broker: h.broker, Settings: h.settings, Every: 20 * time.Millisecond,
		Incarnation: messages.NewIncarnation(), Logger: hclog.NewNullLogger(),
	})
	other.Name = "others"
	_, err := h.office.system.Spawn(h.office.system, other)
	require.NoError(t, err)
	ids := h.end(t, 1, true)
	n, _ := h.next(t)
	require.Equal(t, ids[0], n.ExecutionID)
}

func TestANoticeIsBounded(t *testing.T) {
	t.Parallel()
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Status: messages.Completed, Parameters: json.RawMessage(`{"p":1}`)}
	for _, c := range []struct {
		result string
		want   string
		cut    bool
	}{
		{`{"a":1}`, `{"a":1}`, false}, {"", "", false}, {"not json", `"not json"`, false},
		{`"` + strings.Repeat("x", messages.NoticeResultMax-2) + `"`, `"` + strings.Repeat("x", messages.NoticeResultMax-2) + `"`, false},
		{`"` + strings.Repeat("x", messages.NoticeResultMax-1) + `"`, "", true},
	} {
		e.Result = json.RawMessage(c.result)
		n := messages.NoticeOf(&e)
		require.Equal(t, c.want, string(n.Result))
		require.Equal(t, c.cut, n.Truncated)
		_, err := n.Encode()
		require.NoError(t, err)
	}
}
