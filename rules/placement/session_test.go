package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func ask(a messages.Affinity) *Request { return &Request{Session: "s", Affinity: a} }

// run places an execution of session s and returns the verdict.
func run(t *testing.T, table *Table, a messages.Affinity, now time.Time) Verdict {
	t.Helper()
	r := ask(a)
	v := table.Pick(r, now)
	require.Equal(t, Place, v.Kind)
	table.Commit(r, &v, now)
	return v
}

// finish ends it well.
func finish(table *Table, v Verdict, now time.Time) {
	table.Release(v.Worker)
	table.Finished("s", v.Epoch, now)
}

func TestModesWhileTheBoundWorkerIsBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode messages.Affinity
		want Verdict
	}{
		{messages.AffinityNone, Verdict{Waiting: SessionWorker}},
		{messages.AffinityStrict, Verdict{Waiting: SessionWorker}},
		{messages.AffinityStrictFail, Verdict{Kind: Fail, Code: messages.CodeSessionBusy, Text: TextSessionBusy}},
		{messages.AffinityHint, Verdict{Kind: Place, Worker: key(1), WorkerID: worker(1).ID, Effect: Miss, Epoch: 1}},
	} {
		for name, change := range map[string]func(*Worker){"full": full, "cordoned": cordoned, "starting": starting} {
			table := settled(change, free)
			table.Bind("s", key(0), start())
			require.Equal(t, c.want, table.Pick(ask(c.mode), start()), "%s, %s", c.mode, name)
		}
	}
}

func TestModesWhenTheBoundWorkerIsGone(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*Table) *Table{
		"removed":   func(x *Table) *Table { x.Remove(key(0), start()); return x },
		"unbound":   func(x *Table) *Table { x.UnbindWorker(key(0), start()); x.Upsert(worker(0)); full0(x); return x },
		"stale":     func(x *Table) *Table { w := worker(0); stale(&w); x.Upsert(w); return x },
		"unhealthy": func(x *Table) *Table { w := worker(0); unhealthy(&w); x.Upsert(w); return x },
	}
	for name, lose := range ways {
		for _, mode := range []messages.Affinity{messages.AffinityNone, messages.AffinityStrict, messages.AffinityHint} {
			table := settled(free, full)
			finish(table, run(t, table, mode, start()), start())
			lose(table)
			table.Upsert(worker(1))
			v := run(t, table, mode, start())
			require.Equal(t, key(1), v.Worker, name)
			require.Equal(t, Lost, v.Effect, name)
			require.EqualValues(t, 2, v.Epoch, name)
			require.True(t, v.Told, name)
			require.True(t, v.Binds())
		}
		table := settled(free, full)
		finish(table, run(t, table, messages.AffinityStrictFail, start()), start())
		lose(table)
		table.Upsert(worker(1))
		r := ask(messages.AffinityStrictFail)
		v := table.Pick(r, start())
		require.Equal(t, Fail, v.Kind, name)
		require.Equal(t, messages.CodeSessionLost, v.Code, name)
		require.Equal(t, v, table.Pick(r, start()), "a verdict that nobody took up is given again")
		table.Commit(r, &v, start())
		next := run(t, table, messages.AffinityStrictFail, start())
		require.EqualValues(t, 2, next.Epoch, "one failure told the loss")
		require.True(t, next.Told, "and the execution's context tells it too")
	}
}

func full0(table *Table) {
	w := worker(0)
	full(&w)
	table.Upsert(w)
}

func TestLossIsToldUntilOneFinishes(t *testing.T) {
	t.Parallel()
	table := settled(free, free)
	first := run(t, table, "", start())
	require.False(t, first.Told, "the first execution of a session has lost nothing")
	finish(table, first, start())
	for epoch := int64(2); epoch < 5; epoch++ {
		s, _ := table.Session("s")
		table.UnbindWorker(s.Worker, start())
		v := run(t, table, "", start())
		require.True(t, v.Told)
		require.Equal(t, epoch, v.Epoch)
		table.Release(v.Worker)
		table.TakenBack("s", v.Epoch, start())
		again := run(t, table, "", start())
		require.Equal(t, Hit, again.Effect)
		require.True(t, again.Told, "none has finished since the loss")
		table.Release(again.Worker)
		table.TakenBack("s", again.Epoch, start())
	}
	v := run(t, table, "", start())
	require.True(t, v.Told)
	finish(table, v, start())
	require.False(t, run(t, table, "", start()).Told)
}

// A session whose executions were all taken back before they ran has lost nothing, however its binding ended.
func TestNothingIsLostWhereNothingHasBegun(t *testing.T) {
	t.Parallel()
	for _, mode := range []messages.Affinity{"", messages.AffinityHint, messages.AffinityStrictFail} {
		table := settled(free, free)
		v := run(t, table, mode, start())
		table.Release(v.Worker)
		table.TakenBack("s", v.Epoch, start())
		table.UnbindWorker(v.Worker, start())
		v = run(t, table, mode, start())
		require.Equal(t, Opened, v.Effect)
		require.False(t, v.Told)
		require.EqualValues(t, 2, v.Epoch)
		table.Began("s", v.Epoch)
		table.Release(v.Worker)
		table.TakenBack("s", v.Epoch, start())
		table.UnbindWorker(v.Worker, start())
		v = table.Pick(ask(mode), start())
		require.Equal(t, Lost, v.Effect, "one has begun and did not finish")
		require.Equal(t, mode != messages.AffinityStrictFail, v.Told)
	}
}

func TestSnapshotRestoredIsNoLoss(t *testing.T) {
	t.Parallel()
	table := settled(free, free)
	finish(table, run(t, table, "", start()), start())
	table.UnbindWorker(key(0), start())
	table.UnbindWorker(key(1), start())
	v := run(t, table, "", start())
	table.Release(v.Worker)
	table.TakenBack("s", v.Epoch, start())
	table.Restored("s", v.Epoch-1)
	require.True(t, table.Pick(ask(""), start()).Told, "a snapshot of another epoch restores nothing")
	table.Restored("s", v.Epoch)
	require.False(t, table.Pick(ask(""), start()).Told)
}

func TestSessionRunsInOrder(t *testing.T) {
	t.Parallel()
	table := settled(deep, free)
	table.Bind("s", key(0), start())
	v := run(t, table, "", start())
	require.Equal(t, key(0), v.Worker)
	require.Equal(t, SessionInOrder, table.Pick(ask(messages.AffinityStrict), start()).Waiting)
	require.Equal(t, messages.CodeSessionBusy, table.Pick(ask(messages.AffinityStrictFail), start()).Code)
	require.Equal(t, Hit, table.Pick(ask(messages.AffinityHint), start()).Effect, "hint is not serialised")
	finish(table, v, start())
	require.Equal(t, Hit, table.Pick(ask(messages.AffinityStrict), start()).Effect)
}

func TestNothingIsMovedWhileItRuns(t *testing.T) {
	t.Parallel()
	table := settled(free, free)
	v := run(t, table, "", start())
	w := worker(int(v.Worker.Slot))
	w.Depth = 1
	stale(&w)
	table.Upsert(w)
	require.Equal(t, SessionInOrder, table.Pick(ask(""), start().Add(time.Hour)).Waiting)
	_, answer := table.Worker("s", start().Add(2*time.Hour))
	require.Equal(t, Bound, answer)
}

func TestUnsettledTableLosesNoSession(t *testing.T) {
	t.Parallel()
	table := New(Config{})
	table.Load(Session{Name: "s", Worker: key(0), Epoch: 4, Finished: 4, Touched: start()})
	table.Upsert(worker(1))
	require.Equal(t, SessionWorker, table.Pick(ask(""), start()).Waiting, "its worker may be about to report")
	workers, _ := table.Len()
	require.Equal(t, 1, workers, "a worker that only a binding names is not one of the table's")
	_, ok := table.Get(key(0))
	require.False(t, ok)
	table.Upsert(worker(0))
	v := table.Pick(ask(""), start())
	require.Equal(t, Hit, v.Effect)
	require.Equal(t, key(0), v.Worker)
	require.False(t, v.Told)
}

func TestLoadedSessionOfAVanishedWorkerIsLost(t *testing.T) {
	t.Parallel()
	table := settled(free)
	table.Load(Session{Name: "s", Worker: key(7), Epoch: 4, Finished: 4, Touched: start()})
	v := run(t, table, "", start())
	require.Equal(t, Lost, v.Effect)
	require.EqualValues(t, 5, v.Epoch)
	require.Equal(t, Ended{Session: "s", Worker: key(7), Epoch: 4}, v.Ended)
	require.Len(t, table.workers, 1, "nobody remembers a worker that no binding names")
	table.Load(Session{Name: "s", Epoch: 9, Touched: start()})
	s, _ := table.Session("s")
	require.EqualValues(t, 9, s.Epoch, "what the store says replaces what was known")
	require.Nil(t, table.workers[key(0)].sessions)
}

func TestIdlingOut(t *testing.T) {
	t.Parallel()
	table := settled(free, free)
	v := run(t, table, "", start())
	finish(table, v, start())
	late := start().Add(5 * time.Minute)
	key0, answer := table.Worker("s", late.Add(-1))
	require.Equal(t, Bound, answer)
	require.Equal(t, v.Worker, key0)

	lost := table.Pick(ask(messages.AffinityStrictFail), late)
	require.Equal(t, messages.CodeSessionExpired, lost.Code)
	require.Equal(t, Expired, lost.Effect)
	got := table.Pick(ask(""), late)
	require.Equal(t, Expired, got.Effect)
	require.True(t, got.Told, "expiry counts as loss")
	require.Equal(t, Ended{Session: "s", Worker: v.Worker, Epoch: 1}, got.Ended)

	_, answer = table.Worker("s", late)
	require.Equal(t, SessionExpired, answer)
	_, answer = table.Worker("s", late)
	require.Equal(t, NoAffinity, answer, "the expired binding is deleted")
	got = run(t, table, "", late)
	require.Equal(t, Expired, got.Effect)
	require.EqualValues(t, 2, got.Epoch)
}

func TestWaitingForABusyWorkerKeepsTheSession(t *testing.T) {
	t.Parallel()
	table := settled(full, free)
	table.Bind("s", key(0), start())
	table.Began("s", 1)
	now := start()
	for range 10 {
		now = now.Add(4 * time.Minute)
		require.Equal(t, SessionWorker, table.Pick(ask(""), now).Waiting)
	}
	w := worker(0)
	cordoned(&w)
	table.Upsert(w)
	require.Equal(t, SessionWorker, table.Pick(ask(""), now.Add(4*time.Minute)).Waiting)
	require.Equal(t, Expired, table.Pick(ask(""), now.Add(5*time.Minute)).Effect, "a cordoned worker keeps no session for ever")
}

func TestUnbindByCaller(t *testing.T) {
	t.Parallel()
	table := settled(free)
	_, ok := table.Unbind("s", start())
	require.False(t, ok)
	finish(table, run(t, table, "", start()), start())
	ended, ok := table.Unbind("s", start())
	require.True(t, ok)
	require.Equal(t, Ended{Session: "s", Worker: key(0), Epoch: 1}, ended)
	v := table.Pick(ask(messages.AffinityStrictFail), start())
	require.Equal(t, Opened, v.Effect, "who unbinds a session needs no failure to know")
	require.True(t, v.Told)
}

func TestSweepIsBounded(t *testing.T) {
	t.Parallel()
	table := New(Config{SessionRetain: time.Hour, SessionMemory: 70})
	fill(table, 3, 100, start())
	r := Request{Session: "session-0"}
	v := table.Pick(&r, start())
	table.Commit(&r, &v, start())

	expired, more := table.Sweep(start().Add(5*time.Minute-1), 1000)
	require.Empty(t, expired)
	require.False(t, more)
	late := start().Add(5 * time.Minute)
	swept := 0
	for rounds := 1; ; rounds++ {
		expired, more = table.Sweep(late, 10)
		require.LessOrEqual(t, len(expired), 10)
		swept += len(expired)
		if !more {
			require.GreaterOrEqual(t, rounds, 10)
			break
		}
	}
	require.Equal(t, 99, swept, "the session in use stays")
	bound, ended := table.Sessions()
	require.Equal(t, 1, bound)
	require.Equal(t, 70, ended, "the oldest are forgotten beyond the memory")
	_, _ = table.Sweep(late.Add(time.Hour), 1000)
	_, ended = table.Sessions()
	require.Zero(t, ended, "all are forgotten after the time")
}

func TestBindingTwiceKeepsTheEpoch(t *testing.T) {
	t.Parallel()
	table := settled(free, free)
	epoch, ended := table.Bind("s", key(0), start())
	require.EqualValues(t, 1, epoch)
	require.Zero(t, ended)
	epoch, ended = table.Bind("s", key(0), start())
	require.EqualValues(t, 1, epoch)
	require.Zero(t, ended)
	epoch, ended = table.Bind("s", key(1), start())
	require.EqualValues(t, 2, epoch)
	require.Equal(t, Ended{Session: "s", Worker: key(0), Epoch: 1}, ended)
	table.Touch("s", start().Add(4*time.Minute))
	_, answer := table.Worker("s", start().Add(8*time.Minute))
	require.Equal(t, Bound, answer)
	require.Len(t, table.UnbindWorker(key(1), start()), 1)
	require.Empty(t, table.UnbindWorker(key(0), start()))
	require.Empty(t, table.UnbindWorker(key(9), start()))
	require.Empty(t, table.Remove(key(9), start()))
}
