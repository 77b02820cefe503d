package actors

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// A death that is handled again, because its ack was lost, is recorded once; another death of the same message is another.
func TestADeathIsRecordedOnce(t *testing.T) {
	t.Parallel()
	m := newDeadLetters(t, nil)
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

// What expired on one worker's queue names that worker, also where another one has the execution by now.
func TestADeadLetterNamesTheWorkerOfItsQueue(t *testing.T) {
	t.Parallel()
	m := newDeadLetters(t, nil)
	var log bytes.Buffer
	bridge := m.child.New().(*DeadLetter)
	bridge.cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	gone, lives := messages.NewIncarnation(), messages.NewIncarnation()
	for _, inc := range []messages.Incarnation{gone, lives} {
		require.NoError(t, m.office.store.Join(t.Context(), store.Node{Incarnation: inc, Name: "n", State: store.NodeActive}, time.Hour))
	}
	from, to := messages.WorkerKey{Incarnation: gone, Pool: "pool", Slot: 1}, messages.WorkerKey{Incarnation: lives, Pool: "pool"}
	own, shared := m.settings.WorkerQueueName("c/pool/1", gone), m.settings.PoolQueueName("c", "pool", gone)
	for _, c := range []struct {
		about, queue string
		worker       messages.WorkerID
	}{
		{"its own queue", own, "c/pool/1"}, {"its pool's queue", shared, "c/pool/1"},
		{"another boot's queue", m.settings.WorkerQueueName("c/pool/1", lives), ""}, {"no queue of a worker", "q", ""}, {"none", "", ""},
	} {
		id := m.office.submit(t, 1)[0]
		_, err := m.office.ask(t.Context(),
			&store.Place{ID: id, Worker: from, WorkerID: "c/pool/1", PlacedBy: gone, ClaimWithin: time.Hour},
			&store.TakeBack{ID: id, Attempt: 1, Reason: "claim_timeout"},
			&store.Place{ID: id, Attempt: 1, Worker: to, WorkerID: "b/pool/0", PlacedBy: lives, ClaimWithin: time.Hour})
		require.NoError(t, err)
		body, err := broker.Work{Worker: from, Placements: []messages.Placement{{Execution: id, Attempt: 1}}}.Encode()
		require.NoError(t, err)
		letter := broker.Delivery{Message: broker.Message{Body: body}}
		if c.queue != "" {
			letter.Deaths = []broker.Death{{Reason: broker.DeathExpired, Queue: c.queue, At: time.Now(), Count: 1}}
		}
		log.Reset()
		require.NoError(t, bridge.judge(t.Context(), letter))
		list, err := m.office.store.ListDeadLetters(t.Context(), 0, 1)
		require.NoError(t, err)
		require.Equal(t, "stale", list[0].Resolution)
		require.Equal(t, c.worker, list[0].Worker, c.about)
		events, err := m.office.store.Events(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "dead_letter", events[len(events)-1].Kind)
		require.Equal(t, string(c.worker), events[len(events)-1].Worker, c.about)
		require.NotContains(t, log.String(), "b/pool/0", c.about)
		require.Contains(t, log.String(), "worker="+string(c.worker)+" reason=", c.about)
	}
	body, err := broker.Work{Worker: from, Placements: []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}}}.Encode()
	require.NoError(t, err)
	require.NoError(t, bridge.judge(t.Context(), broker.Delivery{Message: broker.Message{Body: body}, Deaths: []broker.Death{{Queue: own}}}))
	list, err := m.office.store.ListDeadLetters(t.Context(), 0, 1)
	require.NoError(t, err)
	require.Equal(t, "missing", list[0].Resolution)
	require.Equal(t, messages.WorkerID("c/pool/1"), list[0].Worker)
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
	m := newDeadLetters(t, nil)
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

// asIf is a store whose executions were scheduled at another time.
type asIf struct {
	store.Store
	scheduled time.Time
}

func (a *asIf) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	e, err := a.Store.Get(ctx, id)
	e.ScheduledAt = a.scheduled
	return e, err
}

// How late a dead letter is handled goes by the store's clock alone: those of the broker and of the node are hours off.
func TestALateDeadLetterIsMeasuredByOneClock(t *testing.T) {
	t.Parallel()
	const apart = 2 * time.Hour // that the store's clock is ahead
	for name, c := range map[string]struct {
		death broker.Death
		want  []time.Duration
	}{
		"by its own expiration": {broker.Death{Reason: broker.DeathExpired, Expiration: time.Minute}, []time.Duration{19 * time.Minute}},
		"by its queue's":        {broker.Death{Reason: broker.DeathExpired}, []time.Duration{10 * time.Minute}},
		"refused":               {broker.Death{Reason: broker.DeathRejected}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newDeadLetters(t, nil)
			var late []time.Duration
			id := m.office.submit(t, 1)[0]
			key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
			require.NoError(t, m.office.store.Join(t.Context(), store.Node{Incarnation: key.Incarnation, Name: "n", State: store.NodeActive}, time.Hour))
			results, err := m.office.ask(t.Context(), &store.Place{ID: id, Worker: key, WorkerID: "n/pool/0", PlacedBy: key.Incarnation, ClaimWithin: time.Hour})
			require.NoError(t, err)
			require.Equal(t, store.Applied, results[0].Verdict)
			bridge := m.child.New().(*DeadLetter)
			now := time.Now()
			bridge.cfg.Clock = &clock.Clock{}
			bridge.cfg.Clock.Take(clock.Sample{Asked: now, Answered: now, Stored: now.Add(apart)})
			bridge.cfg.Store = &asIf{m.office.store, now.Add(apart - 20*time.Minute)}
			bridge.cfg.Settings.WorkerTTL = 10 * time.Minute
			bridge.cfg.Late = func(d time.Duration) { late = append(late, d) }
			body, err := broker.Work{Worker: key, Placements: []messages.Placement{{Execution: id, Attempt: 1}}}.Encode()
			require.NoError(t, err)
			c.death.At, c.death.Queue = now.Add(-5*time.Hour), "q"
			require.NoError(t, bridge.judge(t.Context(), broker.Delivery{Message: broker.Message{Body: body}, Deaths: []broker.Death{c.death}}))
			require.Len(t, late, len(c.want))
			for i := range late {
				require.InDelta(t, c.want[i].Minutes(), late[i].Minutes(), 5)
			}
		})
	}
}

// unsure is a store whose reads and letters go wrong as a test says.
type unsure struct {
	store.Store
	reads, letters atomic.Int64
	read           func(ctx context.Context, n int64) error // before the n-th read
	save, saved    func(n int64) error                      // before and after the n-th letter
}

func (u *unsure) wrap(f *faulty) { u.Store, f.Store = f.Store, u }

func (u *unsure) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if n := u.reads.Add(1); u.read != nil {
		if err := u.read(ctx, n); err != nil {
			return messages.Execution{}, err
		}
	}
	return u.Store.Get(ctx, id)
}

func (u *unsure) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	n := u.letters.Add(1)
	if u.save != nil {
		if err := u.save(n); err != nil {
			return 0, err
		}
	}
	id, err := u.Store.SaveDeadLetter(ctx, d)
	if err == nil && u.saved != nil {
		err = u.saved(n)
	}
	return id, err
}

// A letter is acked after its row is there and not before. What the store does not take comes again after a second, and
// leaves one row.
func TestADeadLetterWaitsForTheStore(t *testing.T) {
	t.Parallel()
	away := func(n int64) error {
		if n == 1 {
			return store.ErrUnavailable
		}
		return nil
	}
	for name, c := range map[string]struct {
		store                 *unsure
		early, reads, letters int // rows before it comes again, then all calls
	}{
		"its execution is not read":                    {&unsure{read: func(_ context.Context, n int64) error { return away(n) }}, 0, 2, 1},
		"its row is not written":                       {&unsure{save: away}, 0, 2, 2},
		"its row is written and the word of that lost": {&unsure{saved: away}, 1, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newDeadLetters(t, c.store.wrap)
				id := m.office.submit(t, 1)[0]
				key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
				results, err := m.office.ask(t.Context(), &store.Place{
					ID: id, Worker: key, WorkerID: "n/pool/0", PlacedBy: key.Incarnation, ClaimWithin: time.Hour,
				})
				require.NoError(t, err)
				require.Equal(t, store.Applied, results[0].Verdict)
				body, err := broker.Work{Worker: key, Placements: []messages.Placement{{Execution: id, Attempt: 1}}}.Encode()
				require.NoError(t, err)
				stands := func(after time.Duration, rows int, status messages.Status) {
					t.Helper()
					time.Sleep(after)
					synctest.Wait()
					list, err := m.office.store.ListDeadLetters(t.Context(), 0, 10)
					require.NoError(t, err)
					require.Len(t, list, rows)
					e, err := c.store.Store.Get(t.Context(), id)
					require.NoError(t, err)
					require.Equal(t, status, e.Status)
				}
				require.NoError(t, m.broker.Declare(t.Context(), m.settings.WorkQueue("work")))
				_, err = m.broker.Publish(t.Context(), []broker.Message{{RoutingKey: "work", Body: body, Expiration: time.Minute}})
				require.NoError(t, err)
				stands(time.Minute, c.early, messages.Scheduled)
				stands(time.Second-1, c.early, messages.Scheduled)
				stands(1, 1, messages.Failed)
				stands(time.Minute, 1, messages.Failed)
				require.Equal(t, int64(c.reads), c.store.reads.Load())
				require.Equal(t, int64(c.letters), c.store.letters.Load())
				require.True(t, m.resolved("failed")())
				m.settled(t)
			})
		})
	}
}

// A bridge that fails with letters in its hands is followed by one that has them delivered again: at once those that nobody
// has looked at, later the one that may be why.
func TestDeadLettersComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		second := make(chan struct{})
		u := &unsure{read: func(ctx context.Context, n int64) error {
			switch n {
			case 1:
				<-second
				panic("a bug")
			case 2: // ends with the actor
				close(second)
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		m := newDeadLetters(t, u.wrap)
		send := func() {
			t.Helper()
			body, err := broker.Work{
				Worker:     messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"},
				Placements: []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}},
			}.Encode()
			require.NoError(t, err)
			m.letter(t, body, nil)
			synctest.Wait()
		}
		handled := func(want int) {
			t.Helper()
			synctest.Wait()
			list, err := m.office.store.ListDeadLetters(t.Context(), 0, 10)
			require.NoError(t, err)
			require.Len(t, list, want)
		}
		send()
		send()
		_, live := m.office.system.Registry.Get("dead_letter")
		require.False(t, live, "it must fail")
		send()
		handled(0)
		m.open(t)
		handled(2)
		time.Sleep(heldAgain - 1)
		handled(2)
		time.Sleep(time.Nanosecond)
		handled(3)
		m.settled(t)
	})
}

// What a sender adds that had looked the failed actor up signals to that one. The next looks for it.
func TestALetterWhoseSignalIsLostIsHandled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newDeadLetters(t, nil)
		synctest.Wait()
		require.NoError(t, m.broker.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: "aside"}}}))
		_, err := m.broker.Publish(t.Context(), []broker.Message{{RoutingKey: "aside", Body: []byte("{")}})
		require.NoError(t, err)
		c, err := m.broker.Consume(t.Context(), "aside", 1)
		require.NoError(t, err)
		_, kept := m.config.Held.keep(&Delivered{Deliveries: []broker.Delivery{<-c.Deliveries()}})
		require.True(t, kept)
		time.Sleep(lateTime)
		synctest.Wait()
		list, err := m.office.store.ListDeadLetters(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

// A queue that expires at once brings a thousand of dead letters together.
func TestBurstOfDeadLetters(t *testing.T) {
	t.Parallel()
	m := newDeadLetters(t, nil)
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

// A letter is read on whichever node is free. It counts against its worker there too, once it has ended the execution.
func TestADeathOfAnotherNodesWorkerIsToldThere(t *testing.T) {
	t.Parallel()
	m := newDeadLetters(t, nil)
	own, other := messages.NewIncarnation(), messages.NewIncarnation()
	type told struct {
		worker messages.WorkerKey
		at     messages.Placement
	}
	var all []told
	bridge := m.child.New().(*DeadLetter)
	bridge.cfg.Own = own
	bridge.cfg.Elsewhere = func(w messages.WorkerKey, pl messages.Placement) { all = append(all, told{w, pl}) }
	var want []told
	for _, inc := range []messages.Incarnation{own, other} {
		key := messages.WorkerKey{Incarnation: inc, Pool: "pool", Slot: 3}
		require.NoError(t, m.office.store.Join(t.Context(), store.Node{Incarnation: inc, Name: "n", State: store.NodeActive}, time.Hour))
		id := m.office.submit(t, 1)[0]
		_, err := m.office.ask(t.Context(), &store.Place{ID: id, Worker: key, WorkerID: "n/pool/3", PlacedBy: inc, ClaimWithin: time.Hour})
		require.NoError(t, err)
		pl := messages.Placement{Execution: id, Attempt: 1}
		body, err := broker.Work{Worker: key, Placements: []messages.Placement{pl}}.Encode()
		require.NoError(t, err)
		for range 2 { // the second finds it stale
			require.NoError(t, bridge.judge(t.Context(), broker.Delivery{Message: broker.Message{Body: body}}))
		}
		if inc == other {
			want = append(want, told{key, pl})
		}
	}
	require.Equal(t, want, all)
}
