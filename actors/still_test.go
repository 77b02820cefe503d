package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/still"
)

// The tests of this file run each shell on one goroutine, in a world where nothing happens before they say so.

// One transaction is under way at a time, what comes meanwhile is the next, and one that the store does not take is asked for again
// after waits that double.
func TestARecorderOnOneGoroutine(t *testing.T) {
	t.Parallel()
	w, rows := still.New(), &rows{by: map[messages.ExecutionID]*messages.Execution{}}
	r := &Recorder{cell: &Cell{}, backlog: &Backlog{}, cfg: RecorderConfig{Store: rows, Outcomes: NewOutcomes(), Logger: hclog.NewNullLogger()}}
	r.begin(w)
	require.Zero(t, w.Busy())
	claim := func() (verdict func() store.Verdict) {
		p := rows.add(nil)
		wait, q := NewQuestion[*Record, []store.Result](&Record{Items: []Item{{Change: &store.Claim{ID: p.Execution, Attempt: p.Attempt}}}})
		signal, kept := r.backlog.keep(q)
		require.True(t, kept)
		if signal != nil {
			r.look()
		}
		return func() store.Verdict {
			results, err := wait(t.Context())
			require.NoError(t, err)
			return results[0].Verdict
		}
	}
	first := claim()
	second, third := claim(), claim()
	require.Equal(t, 1, w.Busy(), "one at a time")
	w.Answer()
	require.Equal(t, store.Applied, first())
	require.Equal(t, 1, w.Busy(), "what has come meanwhile is the next")
	rows.refuse = func() (error, bool) { return store.ErrUnavailable, true }
	for _, wait := range []time.Duration{20, 40, 80} {
		w.Answer()
		require.Equal(t, "waiting", r.cell.Read().State)
		w.Pass(wait*time.Millisecond - 1)
		require.Zero(t, w.Busy())
		w.Pass(1)
		require.Equal(t, 1, w.Busy(), "it is asked for again")
	}
	rows.refuse = nil
	w.Answer()
	require.Equal(t, store.Applied, second())
	require.Equal(t, store.Applied, third())
	require.Equal(t, [][]string{{"claim"}, {"claim", "claim"}}, rows.transactions())
	require.Empty(t, r.cell.Read().State)

	late := &Record{Items: []Item{{Change: cancelOf(rows.add(nil).Execution)}}}
	_, kept := r.backlog.keep(late)
	require.True(t, kept)
	w.Pass(lateTime)
	require.Equal(t, 1, w.Busy(), "it looks by itself for what a late sender has added")
}

// A teller takes the outbox, tells what it is rung for after a moment, and gives the outbox up in the end.
func TestNoticesOnOneGoroutine(t *testing.T) {
	t.Parallel()
	s, b := openStore(t), memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Declare(t.Context(), broker.Settings{}.Shared()))
	w, told := still.New(), 0
	n := &Notices{cell: &Cell{}, cfg: NoticesConfig{
		Store: s, Broker: b, Incarnation: messages.NewIncarnation(), Logger: hclog.NewNullLogger(),
		Count: func(_ string, n int) { told += n },
	}.withDefaults()}
	n.begin(w)
	require.Equal(t, 1, w.Busy())
	w.Answer()
	require.Equal(t, "listening", n.cell.Read().State)
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "act", Pool: "pool", Notify: true}
	_, err := s.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	_, err = s.Apply(t.Context(), []store.Change{&store.End{ID: e.ID, Outcome: messages.Outcome{Status: messages.Failed}}})
	require.NoError(t, err)
	n.heard()
	n.heard()
	require.Zero(t, w.Busy(), "outcomes gather")
	w.Pass(noticesGather)
	require.Equal(t, 1, w.Busy())
	w.Answer()
	require.Equal(t, 1, told)
	n.stop()
	w.Answer()
	require.False(t, n.teller.holds.Load())
	pending, err := s.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Zero(t, pending.Count, "it has written down what it told")
	w.Pass(time.Hour)
	require.Zero(t, w.Busy(), "its timers are over")
}

// A watch that ends is opened again, later each time, and each time all is looked at.
func TestUpdatesOnOneGoroutine(t *testing.T) {
	t.Parallel()
	w, l := still.New(), &lookout{}
	closed := make(chan store.Hint)
	close(closed)
	u := &Updates{cell: &Cell{}, cfg: UpdatesConfig{
		Every: time.Hour, Logger: hclog.NewNullLogger(),
		Watch: func(context.Context) (<-chan store.Hint, error) { return closed, nil },
		Look:  func(context.Context) error { l.note("look"); return nil },
		Inbox: func(context.Context) (bool, error) { l.note("inbox"); return false, nil },
	}}
	u.tell = u.hint
	u.begin(w)
	for _, wait := range []time.Duration{watchWait, 2 * watchWait, 4 * watchWait} {
		require.Equal(t, 1, w.Busy(), "the watch")
		w.Answer()
		require.Equal(t, 1, w.Busy(), "the look")
		w.Answer()
		require.Equal(t, []string{"look", "inbox"}, l.all())
		w.Pass(wait - 1)
		require.Zero(t, w.Busy())
		w.Pass(1)
	}
	w.Answer()
	w.Answer()
	l.all()
	w.Pass(time.Hour)
	w.Answer()
	require.Contains(t, l.all(), "inbox", "without any hint")
}

// A monitor runs one round at a time, and one more where it was asked meanwhile.
func TestAMonitorOnOneGoroutine(t *testing.T) {
	t.Parallel()
	w, rounds := still.New(), 0
	m := &Monitor{cell: &Cell{}, cfg: MonitorConfig{
		Every: 10 * time.Second, Jitter: 0.5, Logger: hclog.NewNullLogger(),
		Do: func(context.Context) error { rounds++; return errors.New("out of luck") },
	}}
	m.begin(w)
	w.Pass(5 * time.Second)
	require.Equal(t, 1, w.Busy())
	m.now()
	m.now()
	require.Equal(t, 1, w.Busy(), "one at a time")
	w.Answer()
	require.Equal(t, 1, w.Busy(), "once more, however often it was asked")
	w.Draw = 0.5
	w.Answer()
	require.Equal(t, 2, rounds)
	require.Equal(t, "out of luck", m.cell.Read().LastFailure)
	w.Pass(10*time.Second - 1)
	require.Zero(t, w.Busy(), "its times are spread")
	w.Pass(1)
	require.Equal(t, 1, w.Busy())
}

// An observer says that an actor is stuck once it has stood at one message for long enough, until it goes on.
func TestAnObserverOnOneGoroutine(t *testing.T) {
	t.Parallel()
	w, system, began, goOn := still.New(), newSystem(t), make(chan struct{}, 2), make(chan struct{})
	h := &hearer{on: func(ctx actor.Context) {
		if _, waits := ctx.Message().(string); waits {
			began <- struct{}{}
			<-goOn
		}
	}}
	pid, err := system.Spawn(system, h.child("stuck"))
	require.NoError(t, err)
	for range 2 {
		system.Send(pid, "wait")
	}
	<-began // before that both wait, and to begin is progress
	soon(t, func() bool { return len(system.Registry.Waiting()) == 1 }, "one message waits behind another")
	o := &Observer{cell: &Cell{}, seen: map[string]progress{}, cfg: ObserverConfig{
		System: system, Logger: hclog.NewNullLogger(), Every: time.Second, After: time.Minute,
	}}
	o.begin(w)
	w.Pass(time.Minute)
	require.Empty(t, system.Registry.Stuck())
	w.Pass(time.Second)
	require.Equal(t, []string{"stuck"}, system.Registry.Stuck())
	close(goOn)
	soon(t, func() bool { return len(system.Registry.Waiting()) == 0 }, "it goes on")
	w.Pass(time.Second)
	require.Empty(t, system.Registry.Stuck())
}

// The bridges take one group at a time, give back what they cannot take, and attach again to what they lost.
func TestBridgesOnOneGoroutine(t *testing.T) {
	t.Parallel()
	t.Run("intake", func(t *testing.T) {
		t.Parallel()
		w, settled, letters := still.New(), &acks{}, &acceptsLetters{}
		i := &Intake{held: &Held{}, cfg: IntakeConfig{
			DeadLetters: letters, Logger: hclog.NewNullLogger(),
			Read: func(broker.Delivery) (messages.Execution, *Refusal) {
				return messages.Execution{}, &Refusal{Malformed: true, Text: "it is no request"}
			},
		}}
		come := func(n int) {
			_, kept := i.held.keep(&Delivered{Deliveries: make([]broker.Delivery, n)})
			require.True(t, kept)
			for k := range i.held.waiting {
				i.held.waiting[k].Settler = settled
			}
		}
		i.begin(w)
		come(1)
		i.flush()
		come(2)
		i.flush()
		require.Equal(t, 1, w.Busy(), "one group at a time")
		w.Answer()
		require.Equal(t, 1, settled.n)
		w.Answer()
		require.Equal(t, 3, settled.n)
		require.Equal(t, 3, letters.kept)
		come(1)
		w.Pass(lateTime)
		require.Equal(t, 1, w.Busy(), "it looks by itself for what a late sender has added")
	})
	t.Run("dead letters", func(t *testing.T) {
		t.Parallel()
		w, settled, letters := still.New(), &acks{}, &lettersAlone{}
		d := &DeadLetter{held: &Held{}, cfg: DeadLetterConfig{Store: letters, Logger: hclog.NewNullLogger()}}
		d.begin(w)
		for range 2 {
			_, kept := d.held.keep(&Delivered{Deliveries: []broker.Delivery{{Settler: settled, Message: broker.Message{Body: []byte("{")}}}})
			require.True(t, kept)
		}
		d.take()
		require.Equal(t, 2, w.Busy(), "each by itself")
		w.Answer()
		require.Equal(t, 2, settled.n)
		require.Equal(t, 2, letters.kept)
	})
	t.Run("delivery", func(t *testing.T) {
		t.Parallel()
		w, b := still.New(), &shaky{}
		b.left.Store(1000)
		d := &Delivery{world: w, consumers: map[string]*consumption{}, cfg: DeliveryConfig{
			System: newSystem(t), Broker: &upBroker{b}, Logger: hclog.NewNullLogger(),
		}}
		d.attach(&Attach{Queue: "q"})
		for _, wait := range []time.Duration{attachWait, 2 * attachWait, 4 * attachWait} {
			require.Equal(t, 1, w.Busy())
			w.Answer()
			w.Pass(wait - 1)
			require.Zero(t, w.Busy(), "it waits longer each time")
			w.Pass(1)
		}
		w.Answer()
		d.reattach()
		require.Equal(t, 1, w.Busy(), "the broker is back: at once")
		w.Pass(attachWaitMax)
		require.Equal(t, 1, w.Busy(), "the try that waited is not made, too")
		d.detach("q")
		w.Answer()
		w.Pass(attachWaitMax)
		require.Zero(t, w.Busy(), "nobody wants it any more")
	})
}

// upBroker is a broker that says that it is there.
type upBroker struct{ broker.Broker }

func (upBroker) Status() broker.Status { return broker.Status{Up: true} }
