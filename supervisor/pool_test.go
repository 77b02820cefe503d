package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func idempotent(e *messages.Execution) { e.Idempotent = true }

func TestPoolRunsEverythingOnce(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := build(t, "go", 8, goes(func(context.Context, *messages.Task) (any, error) {
		runs.Add(1)
		return 1, nil
	}), nil)
	ids := h.submit(500, nil)
	h.all(ids, messages.Completed)
	require.Equal(t, int64(500), runs.Load())
	require.Equal(t, messages.Attempt(1), h.get(ids[499]).Attempt)
	h.empty()
}

// A worker whose actor fails under a run: what may be repeated is placed again, what may not is abandoned, and its
// claims under way are not lost with it.
func TestPoolLosesAWorker(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 2, goes(stage.wait), nil)
	h.ready(2)
	again, never := h.submit(1, idempotent), h.submit(1, nil)
	soon(t, func() bool { return stage.runs() == 2 }, "both must run")
	for slot := range 2 {
		h.crash(fmt.Sprintf("top/pool/%d.1", slot))
	}
	h.all(never, messages.Abandoned)
	soon(t, func() bool { stage.mu.Lock(); defer stage.mu.Unlock(); return stage.started[again[0]] == 2 }, "placed again")
	close(stage.release)
	h.all(again, messages.Completed)
	e := h.get(again[0])
	require.Equal(t, 1, e.CrashCount)
	require.Equal(t, messages.Attempt(2), e.Attempt)
	require.Equal(t, messages.CodeWorkerLost, h.get(never[0]).Error.Code)
	soon(t, func() bool { stage.mu.Lock(); defer stage.mu.Unlock(); return stage.stopped == 2 }, "what ran on it must be stopped")
	h.empty()
}

func TestPoolLosesAWorkerThatClaims(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 1, goes(quick), nil)
	h.ready(1)
	for round := range 5 { // at each moment between the placement and the run
		ids := h.submit(1, idempotent)
		time.Sleep(time.Duration(round) * time.Millisecond)
		h.store.close()
		h.crash(fmt.Sprintf("top/pool/0.%d", round+1))
		soon(t, func() bool { return h.describe().Workers[0].Generation == messages.Generation(round+2) }, "replaced")
		h.store.open()
		h.all(ids, messages.Completed)
	}
	h.empty()
}

// A pool whose own actor fails: its workers go with it, and the next actor gives back what they held.
func TestPoolActorFails(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 4, goes(stage.wait), nil)
	h.ready(4)
	again, never := h.submit(2, idempotent), h.submit(2, nil)
	soon(t, func() bool { return stage.runs() == 4 }, "all must run")
	waiting := h.submit(20, nil)
	h.crash("top/pool")
	h.all(never, messages.Abandoned)
	close(stage.release)
	h.all(again, messages.Completed)
	h.all(waiting, messages.Completed)
	require.Len(t, h.pools, 2)
	h.empty()
}

// failed has the pool's one worker run something and fails the pool's actor, which has heard of it: what it has not goes to the next
// one. That one gets no answer to its first question to the store before release.
func (h *house) failed(stage *theatre) (ran []messages.ExecutionID, release func()) {
	h.t.Helper()
	h.ready(1)
	ran = h.submit(1, idempotent)
	soon(h.t, func() bool {
		workers := h.describe().Seen
		return stage.runs() == 1 && len(workers) == 1 && workers[0].Running == 1
	}, "it must run, and the pool must know")
	release = h.store.holdLive()
	h.t.Cleanup(release)
	h.crash("top/pool")
	h.remade(2)
	return ran, release
}

// again has the messages of executions come again.
func (h *house) again(ids []messages.ExecutionID) {
	h.t.Helper()
	work := broker.Work{Worker: messages.WorkerKey{Incarnation: h.config.Incarnation, Pool: "pool"}}
	for _, id := range ids {
		work.Placements = append(work.Placements, messages.Placement{Execution: id, Attempt: 1})
	}
	body, err := work.Encode()
	require.NoError(h.t, err)
	queue := h.config.Settings.PoolQueueName("node", "pool", h.config.Incarnation)
	_, err = h.broker.Publish(h.t.Context(), []broker.Message{{RoutingKey: queue, Body: body}})
	require.NoError(h.t, err)
}

// What the store told an actor that has failed since says nothing of what that one has left behind.
func TestAnAnswerToTheActorBeforeIsNotTaken(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 1, goes(stage.wait), nil)
	ran, release := h.failed(stage)
	h.made()[0].World.After(0, func() { t.Error("what comes back for the actor before is not for this one") })
	h.describe()
	release()
	h.placedAgain(ran[0])
	close(stage.release)
	h.all(ran, messages.Completed)
	h.empty()
}

// A message of several placements comes again as long as one of them is not settled, with those that run. When the pool's
// actor has failed meanwhile, the claim of such a one is refused, for it runs: on a worker that went with the actor.
func TestWhatRanIsPlacedAgainThoughItsMessageComesAgain(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"its claim is refused while the store is read": false, "its claim is refused afterwards": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stage := newTheatre()
			h := build(t, "go", 1, goes(stage.wait), nil)
			ran, release := h.failed(stage)
			h.ready(1)
			if late {
				h.store.close()
			}
			h.again(ran)
			soon(t, func() bool { return h.store.claims.Load() >= 2 }, "it is claimed again")
			if late {
				release()
				h.describe() // likely with what was read before it
				h.store.open()
			}
			soon(t, func() bool { return h.store.refused.Load() >= 1 }, "and refused")
			release()
			h.placedAgain(ran[0])
			close(stage.release)
			h.all(ran, messages.Completed)
			h.empty()
		})
	}
}

// settled is a store that shows each execution as somebody else has left it.
type settled struct {
	store.Store
	row messages.Execution
}

func (s *settled) Get(context.Context, messages.ExecutionID) (messages.Execution, error) {
	return s.row, nil
}

// What a lost worker ran may have been settled by somebody else when it is read: its place is free then.
func TestWhatHasBeenSettledHoldsNoPlace(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]messages.Execution{
		"it has ended": {Attempt: 1, Status: messages.Abandoned}, "it was placed again": {Attempt: 2, Status: messages.Scheduled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stage := newTheatre()
			h := build(t, "go", 1, goes(stage.wait), func(c *PoolConfig) { c.Store = &settled{c.Store, e} })
			ran := h.submit(1, nil)
			depth := func() int { return h.describe().Seen[0].Depth }
			soon(t, func() bool { return stage.runs() == 1 && h.describe().Seen[0].Running == 1 }, "it must run")
			p := h.made()[0]
			p.World.After(0, func() { p.link.Lost(0, 0) })
			soon(t, func() bool { return depth() == 0 }, "its place must be free")
			close(stage.release)
			h.all(ran, messages.Completed)
			h.empty()
		})
	}
}

// inProcess is a runner whose work is in another process.
type inProcess struct {
	actors.Runner
	pid int
}

func (r inProcess) Pid() int { return r.pid }

func TestWhatRanIsNotPlacedAgainBesideItsProcess(t *testing.T) {
	t.Parallel()
	stage, other := newTheatre(), exec.Command("sleep", "60")
	require.NoError(t, other.Start())
	gone := sync.OnceFunc(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	t.Cleanup(gone)
	h := build(t, "go", 1, func(workerConfig *actors.WorkerConfig, id messages.WorkerID, gen messages.Generation) actors.Runner {
		runner := goes(stage.wait)(workerConfig, id, gen)
		if gen == 1 {
			return inProcess{runner, other.Process.Pid}
		}
		return runner
	}, nil)
	ran, release := h.failed(stage)
	h.ready(1)
	h.again(ran)
	soon(t, func() bool { return h.store.refused.Load() >= 1 }, "its claim is refused")
	require.Never(t, func() bool { return h.get(ran[0]).Attempt > 1 }, 300*time.Millisecond, 10*time.Millisecond, "its process lives")
	gone()
	h.placedAgain(ran[0])
	release()
	close(stage.release)
	h.all(ran, messages.Completed)
	h.empty()
}

// A pool that fails under load loses nothing and abandons nothing that a living worker runs.
func TestPoolActorFailsUnderLoad(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 8, goes(quick), func(c *PoolConfig) { c.ClaimTimeout = time.Hour })
	h.ready(8)
	ids := h.submit(400, idempotent)
	for range 2 { // a third time would poison what ran each time
		before := len(h.made())
		h.crash("top/pool")
		h.remade(before + 1)
	}
	h.all(ids, messages.Completed)
	h.empty()
}

// The delivery bridge fails while messages are under way: they come again, and nothing runs twice.
func TestPoolOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := build(t, "go", 4, goes(func(context.Context, *messages.Task) (any, error) {
		runs.Add(1)
		return 1, nil
	}), nil)
	h.ready(4)
	var ids []messages.ExecutionID
	for range 3 {
		before := runs.Load()
		ids = append(ids, h.submit(100, nil)...)
		soon(t, func() bool { return runs.Load() > before }, "work must come over the bridge before it fails again")
		h.crash("top/delivery")
	}
	h.all(ids, messages.Completed)
	require.Equal(t, int64(300), runs.Load())
	h.empty()
}

// The recorder fails while its store is held up: no claim, no finish is lost.
func TestPoolOutlivesItsRecorder(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 4, goes(quick), func(c *PoolConfig) {})
	h.ready(4)
	var ids []messages.ExecutionID
	for range 3 {
		h.store.close()
		ids = append(ids, h.submit(70, nil)...)
		soon(t, func() bool { return h.store.held.Load() > 0 }, "the recorder must wait for the store")
		h.crash("top/recorder")
		h.store.open()
	}
	soon(t, func() bool {
		for _, id := range ids {
			if !h.get(id).Status.Terminal() {
				return false
			}
		}
		return true
	}, "every execution must end")
}

func TestPoolQuarantinesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 1, goes(quick), nil)
	h.ready(1)
	h.all(h.submit(1, nil), messages.Completed)
	queue := h.config.Settings.PoolQueueName("node", "pool", h.config.Incarnation)
	foreign, err := broker.Work{
		Worker:     messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"},
		Placements: []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}},
	}.Encode()
	require.NoError(t, err)
	unknown, err := broker.Work{ // a slot that the pool does not have: its placement is nobody's
		Worker:     messages.WorkerKey{Incarnation: h.config.Incarnation, Pool: "pool", Slot: 77},
		Placements: []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}},
	}.Encode()
	require.NoError(t, err)
	_, err = h.broker.Publish(t.Context(), []broker.Message{
		{RoutingKey: queue, Body: []byte("{")}, {RoutingKey: queue, Body: foreign}, {RoutingKey: queue, Body: unknown},
	})
	require.NoError(t, err)
	soon(t, func() bool {
		letters, err := h.store.ListDeadLetters(t.Context(), 0, 10)
		return err == nil && len(letters) == 2
	}, "both must be kept")
	h.all(h.submit(1, nil), messages.Completed) // its message comes behind, and its record behind that of the third
	h.empty()
}

// unkept is a store that does not take the first dead letter.
type unkept struct {
	store.Store
	mu    sync.Mutex
	tries []time.Time
}

func (u *unkept) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	u.mu.Lock()
	u.tries = append(u.tries, time.Now())
	first := len(u.tries) == 1
	u.mu.Unlock()
	if first {
		return 0, store.ErrUnavailable
	}
	return u.Store.SaveDeadLetter(ctx, d)
}

// What cannot be read is acked after its row is there and not before: where the store does not take it, it comes again after
// a second or two.
func TestPoolQuarantinesOnceTheStoreAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // the library's window of dead letters ends
		u := &unkept{}
		h := build(t, "go", 1, goes(quick), func(c *PoolConfig) { u.Store, c.Store = c.Store, u })
		other, err := h.broker.Connect()
		require.NoError(t, err)
		h.ready(1)
		h.all(h.submit(1, nil), messages.Completed)
		queue := h.config.Settings.PoolQueueName("node", "pool", h.config.Incarnation)
		_, err = h.broker.Publish(t.Context(), []broker.Message{{RoutingKey: queue, Body: []byte("{")}})
		require.NoError(t, err)
		kept := func(after time.Duration, tries, rows int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			u.mu.Lock()
			defer u.mu.Unlock()
			require.Len(t, u.tries, tries)
			letters, err := h.store.ListDeadLetters(t.Context(), 0, 10)
			require.NoError(t, err)
			require.Len(t, letters, rows)
		}
		kept(0, 1, 0)
		kept(time.Second-1, 1, 0)
		kept(time.Second, 2, 1)
		kept(10*time.Second, 2, 1)
		require.NoError(t, h.broker.Close()) // what is unsettled comes back to the queue
		info, err := other.Inspect(t.Context(), queue)
		require.NoError(t, err)
		require.Zero(t, info.Ready)
		require.NoError(t, other.Close())
	})
}

func TestPoolTellsWhatIsCancelled(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 1, goes(stage.wait), nil)
	h.ready(1)
	ids := h.submit(3, nil)
	soon(t, func() bool { return stage.runs() == 1 }, "the first must run")
	for _, id := range slices.Backward(ids) { // first those that wait for the one that runs
		h.cancel(id)
	}
	h.all(ids, messages.Cancelled)
	require.Equal(t, 1, stage.runs(), "what waited never ran")
	h.empty()
}

func TestPoolKillsAWorker(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 1, goes(stage.wait), nil)
	h.ready(1)
	ids := h.submit(1, nil)
	soon(t, func() bool { return stage.runs() == 1 }, "it must run")
	h.system.Send(h.pid, &KillWorker{Slot: 0})
	h.all(ids, messages.Abandoned)
	soon(t, func() bool { return h.describe().Workers[0].Generation == 2 }, "it must be replaced")
	require.Zero(t, h.describe().Workers[0].Restarts, "what was told to end is no failure")
	close(stage.release)
	h.all(h.submit(1, nil), messages.Completed)
	h.empty()
}

func TestPoolDrainsIdle(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 8, goes(quick), nil)
	h.ready(8)
	start := time.Now()
	queue := h.config.Settings.PoolQueueName(h.config.Node, "pool", h.config.Incarnation)
	soon(t, func() bool {
		_, err := h.broker.Inspect(t.Context(), queue)
		return err == nil
	}, "the queue must be there")
	require.NoError(t, h.drain(time.Minute))
	require.Less(t, time.Since(start), 10*time.Second)
	_, err := h.broker.Inspect(t.Context(), queue)
	require.ErrorIs(t, err, broker.ErrNoQueue, "a node that stops in order leaves no queue behind")
	require.ErrorContains(t, h.drain(time.Minute), "draining already")
	events, err := h.store.WorkerEvents(t.Context(), messages.WorkerKey{Incarnation: h.config.Incarnation, Pool: "pool"}, 10)
	require.NoError(t, err)
	require.Equal(t, "terminated", events[0].To, "the last transitions are written before the drain is over")
}

// A drain ends when the last of its answers is there, whichever that is: here the store's, long after the workers'.
func TestPoolDrainWaitsForTheStore(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 4, goes(quick), nil)
	h.ready(4)
	h.store.close()
	ids := h.submit(50, nil)
	soon(t, func() bool { return h.describe().Router.Placing > 0 }, "placements must be under way")
	done := h.drains(time.Minute)
	soon(t, func() bool { return len(h.describe().Workers) == 4 && h.describe().Workers[0].PID == nil }, "the workers go at once")
	require.Empty(t, done)
	h.store.open()
	require.NoError(t, <-done)
	for _, id := range ids {
		require.Equal(t, messages.Requested, h.get(id).Status)
	}
	h.stopEmpty()
}

// A drain ends the bindings of its workers' sessions before it is over: nothing is left to be cut short by the end of the pool.
func TestPoolDrainUnbindsItsSessions(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 2, goes(quick), nil)
	h.ready(2)
	h.all(h.submit(1, func(e *messages.Execution) { e.Session = "s" }), messages.Completed)
	bound := func() bool {
		s, err := h.store.GetSession(t.Context(), "pool", "s")
		require.NoError(t, err)
		return !s.Worker.IsZero()
	}
	require.True(t, bound())
	release := h.store.holdUnbind()
	done := h.drains(time.Minute)
	soon(t, func() bool {
		return len(h.describe().Workers) == 2 && h.describe().Workers[0].PID == nil && h.describe().Workers[1].PID == nil
	},
		"the workers go at once")
	for range 100 { // an answer that does not wait comes with one of these
		h.describe()
		require.Empty(t, done)
	}
	release()
	require.NoError(t, <-done)
	require.False(t, bound())
	h.stopEmpty()
}

func TestPoolDrainLetsRunsEnd(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 2, goes(stage.wait), nil)
	h.ready(2)
	ids := h.submit(2, nil)
	soon(t, func() bool { return stage.runs() == 2 }, "both must run")
	done := h.drains(time.Minute)
	late := h.submit(1, nil)
	h.describe()                      // it has heard of both
	time.Sleep(20 * time.Millisecond) // for an answer that comes too early
	require.Empty(t, done)
	close(stage.release)
	require.NoError(t, <-done)
	h.all(ids, messages.Completed)
	require.Equal(t, messages.Requested, h.get(late[0]).Status)
	h.stopEmpty()
}

func TestPoolDrainStopsWhatIsLeft(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 2, goes(stage.wait), nil)
	h.ready(2)
	again, never := h.submit(1, idempotent), h.submit(1, nil)
	soon(t, func() bool { return stage.runs() == 2 }, "both must run")
	require.NoError(t, h.drain(20*time.Millisecond))
	require.Equal(t, messages.Requested, h.get(again[0]).Status)
	require.Zero(t, h.get(again[0]).CrashCount)
	require.Equal(t, messages.Abandoned, h.get(never[0]).Status)
	require.Equal(t, messages.CodeNodeShutdown, h.get(never[0]).Error.Code)
	h.stopEmpty()
}

func TestPoolCountsHandlersThatWouldNotEnd(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h := build(t, "go", 1, goes(func(context.Context, *messages.Task) (any, error) {
		<-release
		return nil, errors.New("late")
	}), func(c *PoolConfig) { c.Worker.Graces.Cancel = 50 * time.Millisecond })
	h.ready(1)
	ids := h.submit(1, func(e *messages.Execution) { e.Timeout = 20 * time.Millisecond })
	h.all(ids, messages.TimedOut)
	soon(t, func() bool { return h.describe().Workers[0].Generation == 2 }, "the slot must go on")
	close(release)
	h.empty()
}
