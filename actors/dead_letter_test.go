package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A death that is handled again, because its ack was lost, is recorded once; another death of the same message is another.
func TestADeathIsRecordedOnce(t *testing.T) {
	t.Parallel()
	m := newMorgue(t, nil)
	bridge := m.child.New().(*DeadLetter)
	placements := []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}, {Execution: messages.NewExecutionID(), Attempt: 1}}
	body, err := broker.Work{Worker: messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}, Placements: placements}.Encode()
	require.NoError(t, err)
	at := time.Now()
	die := func(body []byte, at time.Time, queue string) {
		letter := broker.Delivery{Message: broker.Message{Body: body}, Queue: m.settings.DeadLetterQueue(),
			Deaths: []broker.Death{{Reason: broker.DeathExpired, Queue: queue, At: at, Count: 1}}}
		require.NoError(t, bridge.judge(t.Context(), letter))
	}
	records := func() []store.DeadLetter {
		list, err := m.office.store.ListDeadLetters(t.Context(), 0, 100)
		require.NoError(t, err)
		return list
	}
	for range 3 {
		die(body, at, "q")
	}
	require.Len(t, records(), 2, "one of each placement")
	die(body, at.Add(time.Second), "q")
	require.Len(t, records(), 4)
	for range 2 {
		die([]byte("{"), at, "q")
		die([]byte(`{"action_ref": "x"}`), at, m.settings.RequestsQueue())
	}
	list := records()
	require.Len(t, list, 6)
	require.Equal(t, "expired", list[0].Reason)
	require.Equal(t, "quarantined: a submission that no node took", list[0].Resolution)
	require.Equal(t, "malformed", list[1].Reason)
}

// outrun is a store in which a worker claims between the forensic row and the outcome.
type outrun struct {
	store.Store
	claim store.Change
}

func (o *outrun) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	id, err := o.Store.SaveDeadLetter(ctx, d)
	if err == nil {
		_, err = o.Apply(ctx, []store.Change{o.claim})
	}
	return id, err
}

// The record of a death says what came of it, also where the worker was faster.
func TestADeathThatIsOutrunIsRecordedAsStale(t *testing.T) {
	t.Parallel()
	m := newMorgue(t, nil)
	id := m.office.submit(t, 1)[0]
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
	require.NoError(t, m.office.store.Join(t.Context(), store.Node{Incarnation: key.Incarnation, Name: "n", State: store.NodeActive}, time.Hour))
	results, err := m.office.ask(t.Context(), &store.Place{ID: id, Worker: key, WorkerID: "n/pool/0", PlacedBy: key.Incarnation, ClaimWithin: time.Hour})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	bridge := m.child.New().(*DeadLetter)
	bridge.cfg.Store = &outrun{m.office.store, &store.Claim{ID: id, Attempt: 1, Worker: key, Generation: 1}}
	body, err := broker.Work{Worker: key, Placements: []messages.Placement{{Execution: id, Attempt: 1}}}.Encode()
	require.NoError(t, err)
	require.NoError(t, bridge.judge(t.Context(), broker.Delivery{Message: broker.Message{Body: body}}))
	list, err := m.office.store.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, "stale", list[0].Resolution)
	e, err := m.office.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, messages.Running, e.Status)
}

// A queue that expires at once brings a thousand of dead letters together.
func TestBurstOfDeadLetters(t *testing.T) {
	t.Parallel()
	m := newMorgue(t, nil)
	const n = 1000
	ids := m.office.submit(t, n)
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
	changes := make([]store.Change, n)
	out := make([]broker.Message, n)
	for i, id := range ids {
		changes[i] = &store.Place{ID: id, Worker: key, WorkerID: "n/pool/0", PlacedBy: key.Incarnation, ClaimWithin: time.Hour}
		body, err := broker.Work{Worker: key, Placements: []messages.Placement{{Execution: id, Attempt: 1}}}.Encode()
		require.NoError(t, err)
		out[i] = broker.Message{RoutingKey: m.settings.DeadLetterQueue(), Body: body}
	}
	_, err := m.office.store.Apply(t.Context(), changes)
	require.NoError(t, err)
	_, err = m.broker.Publish(t.Context(), out)
	require.NoError(t, err)
	soon(t, func() bool {
		page, err := m.office.store.List(t.Context(), store.Filter{Limit: 1, Statuses: []messages.Status{messages.Scheduled}})
		return err == nil && len(page.Executions) == 0
	}, "all must have failed")
	failed := func() bool {
		counts, ok := m.counts.Load("failed")
		return ok && counts.(*atomic.Int64).Load() == n
	}
	soon(t, failed, "each has its record")
}
