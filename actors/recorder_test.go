package actors

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// openStore opens an embedded store that lives as long as the test.
func openStore(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// faulty is a store whose transactions can be held up and made to fail after they were made.
type faulty struct {
	store.Store
	mu    sync.Mutex
	hold  chan struct{}
	fails []error // of the next transactions, after they were made
	sizes []int
}

func (f *faulty) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	f.mu.Lock()
	hold := f.hold
	f.sizes = append(f.sizes, len(changes))
	var fail error
	if len(f.fails) > 0 {
		fail, f.fails = f.fails[0], f.fails[1:]
	}
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	results, err := f.Store.Apply(ctx, changes)
	if fail != nil {
		return nil, fail
	}
	return results, err
}

func (f *faulty) transactions() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int(nil), f.sizes...)
}

// office is a recorder on a real store.
type office struct {
	system   *System
	store    *faulty
	outcomes *Outcomes
	recorder *actor.PID
	config   RecorderConfig
}

func newOffice(t *testing.T, change func(*faulty)) *office {
	t.Helper()
	o := &office{store: &faulty{Store: openStore(t)}, outcomes: NewOutcomes()}
	if change != nil {
		change(o.store)
	}
	o.system = newSystem(t) // stopped before the store is closed
	o.config = RecorderConfig{
		System: o.system, Store: o.store, Outcomes: o.outcomes, Logger: hclog.NewNullLogger(), Backlog: &Backlog{},
	}
	o.spawn(t)
	return o
}

func (o *office) spawn(t *testing.T) {
	t.Helper()
	pid, err := o.system.Spawn(o.system, NewRecorder(o.config))
	require.NoError(t, err)
	o.recorder = pid
}

// submit stores n executions.
func (o *office) submit(t *testing.T, n int) []messages.ExecutionID {
	t.Helper()
	batch := make([]messages.Execution, n)
	ids := make([]messages.ExecutionID, n)
	for i := range batch {
		ids[i] = messages.NewExecutionID()
		batch[i] = messages.Execution{ID: ids[i], Action: "act", Pool: "pool", Timeout: time.Minute, Affinity: messages.AffinityStrict}
	}
	_, err := o.store.Submit(t.Context(), batch)
	require.NoError(t, err)
	return ids
}

func (o *office) ask(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	record := &Record{}
	for _, c := range changes {
		record.Items = append(record.Items, Item{Change: c})
	}
	return Ask[*Record, []store.Result](ctx, o.system, o.system.PID("recorder"), record)
}

func cancelOf(id messages.ExecutionID) store.Change { return &store.Cancel{ID: id, By: "test"} }

// While one transaction is under way the next collects, and every answer finds its asker.
func TestRecorderGroups(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	o := newOffice(t, func(f *faulty) { f.hold = hold })
	ids := o.submit(t, 101)
	var asked sync.WaitGroup
	ask := func(id messages.ExecutionID) {
		results, err := o.ask(context.Background(), cancelOf(id))
		if err != nil || len(results) != 1 || results[0].Execution.ID != id {
			t.Errorf("the answer for %s is %v, %v", id, results, err)
		}
	}
	asked.Go(func() { ask(ids[0]) })
	soon(t, func() bool { return len(o.store.transactions()) == 1 }, "the first transaction must begin at once")
	for _, id := range ids[1:] {
		asked.Go(func() { ask(id) })
	}
	soon(t, func() bool {
		o.config.Backlog.mu.Lock()
		defer o.config.Backlog.mu.Unlock()
		return len(o.config.Backlog.waiting) == 100
	}, "the others must collect")
	close(hold)
	asked.Wait()
	require.Equal(t, []int{1, 100}, o.store.transactions())
}

func TestRecorderBoundsATransaction(t *testing.T) {
	t.Parallel()
	b := &Backlog{}
	record := func(n int) *Record { return &Record{Items: make([]Item, n)} }
	for _, n := range []int{groupMax - 1, 1, 1, groupMax + 5, 2} {
		b.keep(record(n))
	}
	for _, want := range []int{groupMax, 1, groupMax + 5, 2} {
		f := b.depart(1)
		require.Equal(t, want, f.changes)
		require.Nil(t, b.depart(1), "one at a time")
		b.landed(f)
	}
	require.Nil(t, b.depart(1))
}

func TestRecorderBeginsBesideAnotherWhatIsWorthIt(t *testing.T) {
	t.Parallel()
	b := &Backlog{}
	keep := func(changes int, of ...store.Change) {
		record := &Record{}
		for range changes - len(of) {
			of = append(of, cancelOf(messages.NewExecutionID()))
		}
		for _, c := range of {
			record.Items = append(record.Items, Item{Change: c})
		}
		b.keep(record)
	}
	keep(1)
	first := b.depart(2)
	keep(besideMin - 1)
	require.Nil(t, b.depart(2), "a small group waits")
	keep(1)
	second := b.depart(2)
	require.Equal(t, besideMin, second.changes)
	keep(besideMin)
	require.Nil(t, b.depart(2), "no third")
	b.landed(second)
	third := b.depart(2)
	require.Equal(t, besideMin, third.changes)
	keep(7)
	b.again()
	all := b.depart(2)
	require.Equal(t, 1+besideMin+7, all.changes, "what was under way comes again")
	require.Same(t, first.group[0].record, all.group[0].record, "and first")
	keep(besideMin, all.group[0].record.Items[0].Change)
	keep(besideMin)
	require.Nil(t, b.depart(2), "an execution's changes keep their order")
	b.landed(all)
	require.Equal(t, 2*besideMin, b.depart(2).changes)
}

// A transaction whose answer was lost is repeated until there is one; nothing is done twice, nobody is told twice.
func TestRecorderRepeats(t *testing.T) {
	t.Parallel()
	o := newOffice(t, func(f *faulty) {
		f.fails = []error{errors.New("lost"), fmt.Errorf("full: %w", store.ErrFull), store.ErrReadOnly}
	})
	id := o.submit(t, 1)[0]
	wait, leave, err := o.outcomes.Subscribe(id)
	require.NoError(t, err)
	defer leave()
	results, err := o.ask(t.Context(), cancelOf(id))
	require.NoError(t, err)
	require.Equal(t, store.Already, results[0].Verdict)
	require.Equal(t, []int{1, 1, 1, 1}, o.store.transactions())
	require.Nil(t, <-wait, "of an outcome whose first answer was lost, who waits is told that it is in the store")
}

// A store that takes nothing is waited for, and shown; who asked is free to go.
func TestRecorderWaitsForTheStore(t *testing.T) {
	t.Parallel()
	o := newOffice(t, func(f *faulty) {
		for range 1000 {
			f.fails = append(f.fails, fmt.Errorf("disk: %w", store.ErrFull))
		}
	})
	id := o.submit(t, 1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := o.ask(ctx, cancelOf(id))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var info Info
	soon(t, func() bool { info, _ = o.system.Registry.Get("recorder"); return info.State == "waiting" }, "it must wait")
	require.Contains(t, info.Why, "disk")
}

func TestRecorderEndsWithItsStore(t *testing.T) {
	t.Parallel()
	o := newOffice(t, func(f *faulty) { f.fails = []error{store.ErrClosed} })
	ids := o.submit(t, 2)
	_, err := o.ask(t.Context(), cancelOf(ids[0]))
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = o.ask(t.Context(), cancelOf(ids[1]))
	require.NoError(t, err)
}

func TestRecorderTurnsCallersAway(t *testing.T) {
	t.Parallel()
	b := &Backlog{waiting: make([]pendingRecord, askersMax)}
	wait, question := NewQuestion[*Record, []store.Result](&Record{})
	_, kept := b.keep(question)
	require.True(t, kept)
	_, err := wait(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	b.keep(&Record{})
	require.Len(t, b.waiting, askersMax+1, "what an actor asks for is never turned away")
}

// A recorder that fails loses nothing: neither the transaction under way nor what waited, nor what comes meanwhile.
func TestRecorderOutlivesItsFailure(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	o := newOffice(t, func(f *faulty) { f.hold = hold })
	ids := o.submit(t, 3)
	var asked sync.WaitGroup
	ask := func(id messages.ExecutionID) {
		if results, err := o.ask(context.Background(), cancelOf(id)); err != nil || results[0].Status != messages.Cancelled {
			t.Errorf("the answer for %s is %v, %v", id, results, err)
		}
	}
	asked.Go(func() { ask(ids[0]) })
	soon(t, func() bool { return len(o.store.transactions()) == 1 }, "under way")
	asked.Go(func() { ask(ids[1]) })
	o.system.Send(o.recorder, &Crash{Reason: "test"})
	soon(t, func() bool { _, live := o.system.Registry.Get("recorder"); return !live }, "gone")
	asked.Go(func() { ask(ids[2]) })
	close(hold)
	o.spawn(t)
	asked.Wait()
}

// Everybody concerned is told: who asked, and the pool once a transaction.
func TestRecorderTells(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	o := newOffice(t, func(f *faulty) { f.hold = hold })
	ids := o.submit(t, 4)
	one, onePID := hear(t, o.system, "one")
	two, twoPID := hear(t, o.system, "two")
	worker, workerPID := hear(t, o.system, "worker")
	send := func(id messages.ExecutionID, pool, reply *actor.PID) {
		o.system.Send(o.recorder, &Record{Items: []Item{{Change: cancelOf(id)}}, Pool: pool, Reply: reply})
	}
	send(ids[0], onePID, nil)
	soon(t, func() bool { return len(o.store.transactions()) == 1 }, "under way")
	send(ids[1], onePID, workerPID)
	send(ids[2], twoPID, nil)
	send(ids[3], onePID, nil)
	close(hold)
	soon(t, func() bool { return len(of[*Committed](one)) == 2 && len(of[*Committed](two)) == 1 }, "each pool once a transaction")
	told := of[*Committed](one)[1].Records
	require.Len(t, told, 2)
	require.Equal(t, ids[1], told[0].Items[0].Change.Target())
	require.Equal(t, ids[3], told[1].Items[0].Change.Target())
	require.Equal(t, store.Applied, first[*Recorded](t, worker).Results[0].Verdict)
}

// A sender that had looked the recorder up before it ended may post after the next one has begun; its signal finds nobody.
func TestRecorderHearsALateSender(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	ids := o.submit(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	late := o.system.Registry.keeper(o.recorder)
	require.NoError(t, o.system.StopAndWait(ctx, o.recorder))
	o.spawn(t)
	_, err := o.ask(ctx, cancelOf(ids[0])) // the next one has begun
	require.NoError(t, err)
	_, kept := late(&Record{Items: []Item{{Change: cancelOf(ids[1])}}})
	require.True(t, kept)
	_, err = o.ask(ctx, cancelOf(ids[2]))
	require.NoError(t, err)
	e, err := o.store.Get(ctx, ids[1])
	require.NoError(t, err)
	require.Equal(t, messages.Cancelled, e.Status)
}

// clerk is a pool that counts what it is told of.
type clerk struct{ told int }

func (c *clerk) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *Committed:
		for _, record := range m.Records {
			c.told += len(record.Items)
		}
	case *Question[struct{}, int]:
		m.Reply(c.told, nil)
	}
}

// Whoever hears of an outcome finds that the pool has been told of it, and of all that was written with it.
func TestThePoolHearsFirst(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	require.NoError(t, o.system.StopAndWait(t.Context(), o.recorder))
	o.config.OnResult = func(Item, store.Result) { time.Sleep(time.Millisecond) } // gives who hears too early the time to ask
	o.spawn(t)
	pool, err := o.system.Spawn(o.system, Child{Name: "clerk", Kind: "pool", New: func() actor.Actor { return &clerk{} }})
	require.NoError(t, err)
	const each = 20
	told := 0
	for range 5 {
		ids := o.submit(t, each)
		outcome, leave, err := o.outcomes.Subscribe(ids[0])
		require.NoError(t, err)
		record := &Record{Pool: pool}
		for _, id := range ids {
			record.Items = append(record.Items, Item{Change: cancelOf(id)})
		}
		o.system.Send(o.recorder, record)
		<-outcome
		leave()
		told += each
		heard, err := Ask[struct{}, int](t.Context(), o.system, pool, struct{}{})
		require.NoError(t, err)
		require.Equal(t, told, heard)
	}
}
