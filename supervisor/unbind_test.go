package supervisor

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

func strictly(session string) func(*messages.Execution) {
	return func(e *messages.Execution) { e.Session, e.Affinity = session, messages.AffinityStrict }
}

// A follower's process ends while nobody hears its node: the binding of its session ends in the store all the same, and the
// session's next run is told of the loss.
func TestASessionEndsWithItsProcessWhoeverRoutes(t *testing.T) {
	t.Parallel()
	s, router, follower := pair(t, 1, quick)
	router.system.Send(router.pid, &Cordon{Slot: 0, Cordoned: true})
	first := router.submit(1, strictly("s"))
	router.all(first, messages.Completed)
	require.Equal(t, follower.config.Incarnation, router.get(first[0]).Worker.Incarnation)

	s.disturb(func(wire.PoolReport) (int, bool) { return 0, false })
	follower.crash("top/pool/0.1")
	soon(t, func() bool {
		bound, err := router.store.GetSession(t.Context(), "pool", "s")
		require.NoError(t, err)
		return bound.Worker.IsZero()
	}, "the binding must have ended in the store")
	s.disturb(nil)
	next := router.submit(1, strictly("s"))
	router.all(next, messages.Completed)
	e := router.get(next[0])
	require.True(t, e.SessionLost)
	require.Greater(t, e.SessionEpoch, router.get(first[0]).SessionEpoch)
}

// The next process of a slot takes no work before the bindings to the one before are ended in the store: a session's
// execution would begin on it as if its state were there.
func TestTheNextProcessTakesNoWorkBeforeItsSessionsAreUnbound(t *testing.T) {
	t.Parallel()
	s, router, follower := pair(t, 1, quick)
	router.system.Send(router.pid, &Cordon{Slot: 0, Cordoned: true})
	first := router.submit(1, strictly("s"))
	router.all(first, messages.Completed)
	require.Equal(t, follower.config.Incarnation, router.get(first[0]).Worker.Incarnation)

	var mu sync.Mutex
	var last wire.PoolWorker // what the follower said last of its worker
	s.disturb(func(r wire.PoolReport) (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, entry := range r.Entries {
			if w, ok := entry.(wire.PoolWorker); ok && w.ID == "node1/pool/0" {
				last = w
			}
		}
		return 1, true
	})
	said := func() wire.PoolWorker {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
	release := follower.store.holdUnbind()
	defer release()
	follower.crash("top/pool/0.1")
	soon(t, func() bool {
		w := follower.describe().Workers[0]
		return w.Generation == 2 && w.State == lifecycle.Ready
	}, "the next process must be ready")
	follower.system.Send(follower.pid, &Cordon{Slot: 0, Cordoned: true}) // so that a report tells how the worker stands now
	soon(t, func() bool { w := said(); return w.Generation == 2 && !w.Active }, "the router must be told")
	require.False(t, said().Accepts, "the bindings to the process before are not ended")
	require.True(t, said().Starting)
	release()
	soon(t, func() bool { return said().Accepts && !said().Starting }, "it takes work once they are")
}

// placeBound stores an execution of a session that another router has placed on the first worker, where the session is bound, and
// returns its message, which has not come yet.
func (h *house) placeBound(session string) (id messages.ExecutionID, comes *actors.Delivered) {
	h.t.Helper()
	bound, err := h.store.GetSession(h.t.Context(), "pool", session)
	require.NoError(h.t, err)
	h.shut() // the router of this node must not place it first
	defer h.store.open()
	id = h.keep(1, strictly(session))[0]
	results, err := h.store.Store.Apply(h.t.Context(), []store.Change{&store.Place{
		ID: id, Worker: bound.Worker, WorkerID: "node/pool/0", PlacedBy: messages.NewIncarnation(), ClaimWithin: time.Hour,
		Session: &store.SessionUse{Pool: "pool", Session: session, Epoch: bound.Epoch, Hit: true},
	}})
	require.NoError(h.t, err)
	require.Equal(h.t, store.Applied, results[0].Verdict, "%v", results[0].Err)
	body, err := broker.Work{Worker: bound.Worker, Placements: []messages.Placement{{Execution: id, Attempt: 1}}}.Encode()
	require.NoError(h.t, err)
	return id, &actors.Delivered{Deliveries: []broker.Delivery{{Message: broker.Message{Body: body}, Settler: &settler{}}}}
}

// What was placed for a process comes only once that has ended, and the next one is ready, while the bindings to the process before
// are being ended: it does not begin there as if the state of its session were there.
func TestWhatWasPlacedForTheProcessBeforeIsNotRunWithoutItsState(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]string{"its process fails": "top/pool/0.1", "the actor of its pool fails": "top/pool"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := inhabit(t, 1, 1, quick).houses[0]
			first := h.submit(1, strictly("s"))
			h.all(first, messages.Completed)
			late, comes := h.placeBound("s")
			read, unbind := h.store.holdLive(), h.store.holdUnbind()
			defer read()
			defer unbind()
			h.crash(fails)
			soon(t, func() bool { _, next := h.system.Registry.Get("top/pool/0.2"); return next }, "the next process must start")
			h.ready(1)
			claims := h.store.claims.Load()
			h.system.Send(h.pid, comes)
			soon(t, func() bool { return h.queued("top/pool/0.2") == 1 || h.store.claims.Load() > claims }, "it must come to the worker")
			require.Equal(t, claims, h.store.claims.Load(), "it was placed with a binding that is being ended")
			read()
			unbind()
			h.all([]messages.ExecutionID{late}, messages.Completed)
			e := h.get(late)
			require.Equal(t, messages.Attempt(2), e.Attempt)
			require.True(t, e.SessionLost)
			require.Greater(t, e.SessionEpoch, h.get(first[0]).SessionEpoch)
			h.empty()
		})
	}
}

// A pool that loses a worker and gets it back before its bindings are ended does not run what was placed for the process before either.
func TestWhatWasPlacedForARemovedSlotIsNotRunWithoutItsState(t *testing.T) {
	t.Parallel()
	h := inhabit(t, 1, 2, quick).houses[0]
	h.ready(2)
	last := ""
	for i := 0; last == ""; i++ {
		require.Less(t, i, 20, "a session must be bound to the second worker")
		session := fmt.Sprint("s", i)
		h.all(h.submit(1, strictly(session)), messages.Completed)
		bound, err := h.store.GetSession(t.Context(), "pool", session)
		require.NoError(t, err)
		if bound.Worker.Slot == 1 {
			last = session
		}
	}
	late, comes := h.placeBound(last)
	read, unbind := h.store.holdLive(), h.store.holdUnbind()
	defer read()
	defer unbind()
	for _, workers := range []int{1, 2} {
		next := h.config
		next.Workers = workers
		h.system.Send(h.pid, &Replace{Config: next})
		h.ready(workers)
	}
	claims := h.store.claims.Load()
	h.system.Send(h.pid, comes)
	soon(t, func() bool { return h.queued("top/pool/1.2") == 1 || h.store.claims.Load() > claims }, "it must come to the worker")
	require.Equal(t, claims, h.store.claims.Load(), "it was placed with a binding that is being ended")
	read()
	unbind()
	h.all([]messages.ExecutionID{late}, messages.Completed)
	require.True(t, h.get(late).SessionLost)
	h.empty()
}

// queued is how much a worker holds that it has not claimed.
func (h *house) queued(worker string) int {
	h.t.Helper()
	in, err := actors.Ask[actors.Inspect, actors.Inspection](h.t.Context(), h.system, h.system.PID(worker), actors.Inspect{})
	require.NoError(h.t, err)
	return in.Report.QueueDepth
}

// A run of which the router was never told is no placement that never began: its session has something to lose.
func TestARunThatNobodyToldOfHasBegun(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	p.joins()
	ran := p.placedOn(p.submit(1, strictly("s"))[0])
	p.sent(1)
	p.claim(ran)
	p.finish(ran)
	require.Empty(t, p.tell(partly, wire.PoolWorkerGone{Slot: 0, Restarts: true}).Refused)
	again := p.worker(0)
	again.Generation = 2
	require.Empty(t, p.tell(partly, again).Refused)
	next := p.submit(1, strictly("s"))[0]
	p.placedOn(next)
	require.True(t, p.get(next).SessionLost)
}

// A router takes over before the one before it has been declared dead, and takes what that one had stored for work on its
// way; with the news it takes back what has not come.
func TestWhatAnEndedRouterNeverSentIsTakenBack(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	before := store.Node{Incarnation: messages.NewIncarnation(), Name: "before", State: store.NodeActive}
	require.NoError(t, p.house.store.Join(t.Context(), before, 0))
	came := messages.Placement{Execution: p.far(before.Incarnation), Attempt: 1}
	lost := messages.Placement{Execution: p.far(before.Incarnation), Attempt: 1}
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1), wire.PoolPlacement{Placement: came}).Refused)
	p.stands(0, "working")
	require.Equal(t, messages.Attempt(1), p.get(lost.Execution).Attempt, "it may be on its way")
	p.system.Send(p.pid, &NodeDown{Node: before})
	soon(t, func() bool { return p.get(lost.Execution).Attempt == 2 }, "it must be placed again")
	require.Equal(t, messages.Attempt(1), p.get(came.Execution).Attempt)
	require.Equal(t, messages.Scheduled, p.get(came.Execution).Status)
}

// A follower that has lost its router routes for its own workers until the store names another. It too learns only then that
// the router has ended, and takes back what never came from it.
func TestAFollowerThatRoutesAloneTakesBackWhatItsRouterNeverSent(t *testing.T) {
	t.Parallel()
	s, router, follower := pair(t, 1, quick)
	id := router.placeFor(follower.config.Incarnation, router.config.Incarnation)
	s.disturb(func(wire.PoolReport) (int, bool) { return 0, false })
	follower.mode(lead.Alone)
	soon(t, func() bool { return follower.describe().Router.Placing == 1 }, "it must take it for work on its way")
	require.NoError(t, router.store.SetNode(t.Context(), router.config.Incarnation, store.NodeDead))
	follower.system.Send(follower.pid, &NodeDown{Node: store.Node{Incarnation: router.config.Incarnation}})
	follower.all([]messages.ExecutionID{id}, messages.Completed)
	require.Equal(t, messages.Attempt(2), follower.get(id).Attempt)
}

// A pool that fails while it has more workers than it starts with: what was bound to those that it does not have again ends in the
// store, for the next worker of such a slot has no state.
func TestASessionEndsWithASlotThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 1, goes(quick), nil)
	h.ready(1)
	more := h.config
	more.Workers = 2
	h.system.Send(h.pid, &Replace{Config: more})
	h.ready(2)
	h.system.Send(h.pid, &Cordon{Slot: 0, Cordoned: true})
	h.all(h.submit(1, strictly("s")), messages.Completed)
	bound := func() messages.WorkerKey {
		s, err := h.store.GetSession(t.Context(), "pool", "s")
		require.NoError(t, err)
		return s.Worker
	}
	require.Equal(t, messages.Slot(1), bound().Slot)
	before := len(h.made())
	h.crash("top/pool")
	h.remade(before + 1)
	soon(t, func() bool { return bound().IsZero() }, "the binding must have ended in the store")
}

// A pool that fails takes its workers with it, and the states of their sessions: the next run of such a session is told.
func TestASessionIsLostWithTheActorOfItsPool(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 1, goes(quick), nil)
	h.ready(1)
	first := h.submit(1, strictly("s"))
	h.all(first, messages.Completed)
	before := len(h.made())
	h.crash("top/pool")
	h.remade(before + 1)
	next := h.submit(1, strictly("s"))
	h.all(next, messages.Completed)
	e := h.get(next[0])
	require.True(t, e.SessionLost)
	require.Greater(t, e.SessionEpoch, h.get(first[0]).SessionEpoch)
}
