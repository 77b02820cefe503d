package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// dock is a delivery bridge on an in-process broker.
type dock struct {
	system   *System
	broker   *memory.Broker
	settings broker.Settings
	bridge   *actor.PID
	pool     *hearer
	poolPID  *actor.PID
}

func newDock(t *testing.T, b broker.Broker) *dock {
	t.Helper()
	d := &dock{broker: memory.New(memory.Config{})}
	t.Cleanup(func() { require.NoError(t, d.broker.Close()) })
	if b == nil {
		b = d.broker
	}
	d.system = newSystem(t)
	require.NoError(t, d.broker.Declare(t.Context(), d.settings.Shared()))
	pid, err := d.system.Spawn(d.system, NewDelivery(DeliveryConfig{System: d.system, Broker: b, Logger: hclog.NewNullLogger()}))
	require.NoError(t, err)
	d.bridge = pid
	d.pool, d.poolPID = hear(t, d.system, "pool")
	return d
}

func (d *dock) attach(queue string) {
	d.system.Send(d.bridge, &Attach{Queue: queue, Prefetch: 10, Topology: d.settings.WorkQueue(queue), Pool: d.poolPID})
}

func (d *dock) publish(t *testing.T, queue string, n int) {
	t.Helper()
	batch := make([]broker.Message, n)
	for i := range batch {
		batch[i] = broker.Message{RoutingKey: queue, Body: []byte("x")}
	}
	confirms, err := d.broker.Publish(t.Context(), batch)
	require.NoError(t, err)
	require.Equal(t, broker.Confirmed, confirms[n-1])
}

// got returns every delivery that reached the pool.
func (d *dock) got() []broker.Delivery {
	var all []broker.Delivery
	for _, m := range of[*Delivered](d.pool) {
		all = append(all, m.Deliveries...)
	}
	return all
}

func (d *dock) attached(n int) func() bool {
	return func() bool {
		count := 0
		for _, m := range of[*Attached](d.pool) {
			if m.OK {
				count++
			}
		}
		return count >= n
	}
}

func TestDeliveryDelivers(t *testing.T) {
	t.Parallel()
	d := newDock(t, nil)
	d.attach("q")
	soon(t, d.attached(1), "it must be attached")
	d.publish(t, "q", 30)
	soon(t, func() bool { return len(d.got()) == 10 }, "as many as the prefetch allows")
	for _, m := range d.got() {
		require.NoError(t, m.Ack())
	}
	soon(t, func() bool { return len(d.got()) == 20 }, "a settled one makes room")
}

// What an old consumer has delivered may still be settled after the queue is detached and attached again, and what it
// had not goes to the new one; the old one's end must not end the new one.
func TestDeliveryDetachesAndAttachesAgain(t *testing.T) {
	t.Parallel()
	d := newDock(t, nil)
	d.attach("q")
	soon(t, d.attached(1), "attached")
	d.publish(t, "q", 12)
	soon(t, func() bool { return len(d.got()) == 10 }, "delivered")
	old := d.got()
	for range 5 {
		d.system.Send(d.bridge, &Detach{Queue: "q"})
		d.attach("q")
	}
	soon(t, d.attached(2), "attached again")
	for _, m := range old {
		require.NoError(t, m.Ack())
	}
	soon(t, func() bool { return len(d.got()) == 12 }, "the rest must come")
	for _, m := range d.got()[10:] {
		require.NoError(t, m.Ack())
	}
	info, err := d.broker.Inspect(t.Context(), "q")
	require.NoError(t, err)
	require.Zero(t, info.Ready)
	for _, m := range of[*Attached](d.pool) {
		require.True(t, m.OK, "a consumer that was told to end is no loss")
	}
}

// shaky is a broker whose first calls fail.
type shaky struct {
	broker.Broker
	left atomic.Int64
}

func (s *shaky) Declare(ctx context.Context, topology broker.Topology) error {
	if s.left.Add(-1) >= 0 {
		return broker.ErrUnavailable
	}
	return s.Broker.Declare(ctx, topology)
}

// A queue that is lost is attached again, until it is closed for good.
func TestDeliveryAttachesAgain(t *testing.T) {
	t.Parallel()
	inner := memory.New(memory.Config{})
	connection, err := inner.Connect()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, inner.Close()) })
	b := &shaky{Broker: connection}
	b.left.Store(2)
	d := newDock(t, b)
	require.NoError(t, inner.Declare(t.Context(), d.settings.Shared()))
	d.attach("q")
	soon(t, d.attached(1), "after two failures it must be attached")
	require.False(t, of[*Attached](d.pool)[0].OK)
	require.NoError(t, inner.Delete(t.Context(), "q"))
	soon(t, d.attached(2), "a queue that went must be made again")
	require.NoError(t, connection.Close())
	soon(t, func() bool { all := of[*Attached](d.pool); return !all[len(all)-1].OK }, "its end must be told")
}

func TestMonitor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSystem(t)
		var rounds, under, most atomic.Int64
		var failing atomic.Bool
		pid, err := s.Spawn(s, NewMonitor(MonitorConfig{
			System: s, Name: "m", Every: 10 * time.Second, Logger: hclog.NewNullLogger(), Limit: time.Minute,
			Do: func(ctx context.Context) error {
				most.Store(max(most.Load(), under.Add(1)))
				defer under.Add(-1)
				switch rounds.Add(1) {
				case 2:
					failing.Store(true)
					return errors.New("out of luck")
				case 3: // longer than its limit
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			},
		}))
		require.NoError(t, err)
		at := func(d time.Duration, want int64) {
			time.Sleep(d)
			synctest.Wait()
			require.Equal(t, want, rounds.Load())
		}
		at(9*time.Second, 0)
		at(2*time.Second, 1)
		at(10*time.Second, 2)
		info, _ := s.Registry.Get("m")
		require.Equal(t, "out of luck", info.LastFailure)
		at(10*time.Second, 3)
		at(59*time.Second, 3)
		at(12*time.Second, 4)
		require.Equal(t, int64(1), most.Load(), "one round at a time")
		require.NoError(t, s.StopAndWait(t.Context(), pid))
		at(time.Hour, 4)
	})
}

func TestMonitorNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSystem(t)
		var rounds atomic.Int64
		_, err := s.Spawn(s, NewMonitor(MonitorConfig{
			System: s, Name: "m", Every: time.Hour, Jitter: 0.5, Now: true, Logger: hclog.NewNullLogger(),
			Do: func(context.Context) error { rounds.Add(1); panic("round") },
		}))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, int64(1), rounds.Load())
		_, live := s.Registry.Get("m")
		require.False(t, live, "a round that panics fails the monitor, not the node")
	})
}

// A round that is asked for comes at once, or right after the one under way, once however often it was asked for; the
// regular ones go on at their pace from there.
func TestMonitorIsAskedForARound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSystem(t)
		var rounds atomic.Int64
		pid, err := s.Spawn(s, NewMonitor(MonitorConfig{
			System: s, Name: "m", Every: 10 * time.Second, Logger: hclog.NewNullLogger(),
			Do: func(context.Context) error {
				rounds.Add(1)
				time.Sleep(time.Second)
				return nil
			},
		}))
		require.NoError(t, err)
		at := func(d time.Duration, want int64) {
			time.Sleep(d)
			synctest.Wait()
			require.Equal(t, want, rounds.Load())
		}
		at(4500*time.Millisecond, 0)
		s.Send(pid, &RoundNow{})
		at(0, 1)
		for range 5 {
			s.Send(pid, &RoundNow{})
		}
		at(0, 1)
		at(time.Second, 2)
		at(10500*time.Millisecond, 2)
		at(time.Second, 3)
		at(11*time.Second, 4)
	})
}

// deadLetters is a dead-letter bridge with everything behind it.
type deadLetters struct {
	*dock
	office *office
	config DeadLetterConfig
	child  Child
	counts sync.Map
}

func newDeadLetters(t *testing.T, change func(*faulty)) *deadLetters {
	t.Helper()
	m := &deadLetters{dock: newDock(t, nil), office: newOffice(t, change)}
	action := &messages.Action{Ref: "act"}
	_, err := m.office.system.Spawn(m.office.system, NewDelivery(DeliveryConfig{
		System: m.office.system, Broker: m.broker, Logger: hclog.NewNullLogger(),
	}))
	require.NoError(t, err)
	m.config = DeadLetterConfig{
		System: m.office.system, Store: m.office.store, Settings: m.settings, Logger: hclog.NewNullLogger(),
		Delivery: m.office.system.PID("delivery"), Recorder: m.office.recorder,
		Pool:  func(string) *actor.PID { return nil },
		Judge: &WorkerConfig{Action: func(string, string) (*messages.Action, bool) { return action, true }},
		Count: func(_, resolution string) {
			count, _ := m.counts.LoadOrStore(resolution, &atomic.Int64{})
			count.(*atomic.Int64).Add(1)
		},
		Held: &Held{},
	}
	m.child = NewDeadLetter(m.config)
	m.open(t)
	return m
}

// open starts the bridge, as a group does: its child is made anew each time.
func (m *deadLetters) open(t *testing.T) {
	t.Helper()
	_, err := m.office.system.Spawn(m.office.system, NewDeadLetter(m.config))
	require.NoError(t, err)
}

// settled closes the broker's connection and checks that all letters had been acked: what is not comes back to the queue.
func (m *deadLetters) settled(t *testing.T) {
	t.Helper()
	other, err := m.broker.Connect()
	require.NoError(t, err)
	require.NoError(t, m.broker.Close())
	info, err := other.Inspect(t.Context(), m.settings.DeadLetterQueue())
	require.NoError(t, err)
	require.Zero(t, info.Ready)
	require.NoError(t, other.Close())
}

// letter puts a message into the dead-letter queue.
func (m *deadLetters) letter(t *testing.T, body []byte, headers map[string]string) {
	t.Helper()
	confirms, err := m.broker.Publish(t.Context(), []broker.Message{
		{RoutingKey: m.settings.DeadLetterQueue(), Body: body, Headers: headers},
	})
	require.NoError(t, err)
	require.Equal(t, broker.Confirmed, confirms[0])
}

func (m *deadLetters) resolved(resolution string) func() bool {
	return func() bool {
		count, ok := m.counts.Load(resolution)
		return ok && count.(*atomic.Int64).Load() > 0
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	m := newDeadLetters(t, nil)
	ids := m.office.submit(t, 2)
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
	results, err := m.office.ask(t.Context(), &store.Place{
		ID: ids[0], Worker: key, WorkerID: "n/pool/0", PlacedBy: key.Incarnation, ClaimWithin: time.Hour,
	})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	letter := func(id messages.ExecutionID, attempt messages.Attempt) {
		body, err := broker.Work{Worker: key, Placements: []messages.Placement{{Execution: id, Attempt: attempt}}}.Encode()
		require.NoError(t, err)
		m.letter(t, body, nil)
	}
	letter(ids[0], 7) // another attempt
	letter(ids[1], 1) // not placed
	soon(t, m.resolved("stale"), "what stands elsewhere is stale")
	letter(messages.NewExecutionID(), 1)
	soon(t, m.resolved("missing"), "what is not there is missing")
	m.letter(t, []byte("{"), nil)
	soon(t, func() bool {
		list, err := m.office.store.ListDeadLetters(t.Context(), 0, 10)
		return err == nil && len(list) == 4
	}, "kept")
	m.letter(t, nil, map[string]string{EchoHeader: "1"})
	letter(ids[0], 1)
	soon(t, m.resolved("failed"), "what still waits fails")
	soon(t, func() bool {
		e, err := m.office.store.Get(t.Context(), ids[0])
		return err == nil && e.Status == messages.Failed && e.Error.Code == messages.CodeQueueTimeout
	}, "its outcome must be written")
	soon(t, func() bool {
		info, err := m.broker.Inspect(t.Context(), m.settings.DeadLetterQueue())
		return err == nil && info.Ready == 0
	}, "all are acked")
	list, err := m.office.store.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, list, 5, "an echo is no work")
}
