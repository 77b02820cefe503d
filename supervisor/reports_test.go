package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/store"
)

// street is houses that share a store and a broker, and the wire between them, which the test may disturb.
type street struct {
	t      *testing.T
	houses []*house
	mu     sync.Mutex
	post   func(wire.PoolReport) (deliver int, answer bool) // nil: once, and answered
	looks  atomic.Int64
	told   atomic.Int64 // sessions that were ended over the wire
	// misfits counts the reports that could not be encoded.
	misfits atomic.Int64
}

var errWire = errors.New("the wire is cut")

// inhabit builds so many houses of one pool.
func inhabit(t *testing.T, count, workers int, handler messages.Handler, more ...func(*PoolConfig)) *street {
	t.Helper()
	s := &street{t: t}
	outfit := func(c *PoolConfig) {
		c.Serves = "same"
		c.Peers = &PoolPeers{Report: s.report, EndSession: s.endSession, Look: func() { s.looks.Add(1) }}
		for _, change := range more {
			change(c)
		}
	}
	first := build(t, "go", workers, goes(handler), outfit)
	s.houses = append(s.houses, first)
	for len(s.houses) < count {
		h := &house{t: t, store: first.store, broker: first.broker, guest: true}
		h.furnish("node"+string(rune('0'+len(s.houses))), "go", workers, goes(handler), outfit)
		s.houses = append(s.houses, h)
	}
	for _, h := range s.houses {
		h.ready(workers)
	}
	return s
}

// pair inhabits a street with two houses, of which the first routes and the second follows.
func pair(t *testing.T, workers int, handler messages.Handler, more ...func(*PoolConfig)) (s *street, router, follower *house) {
	t.Helper()
	s = inhabit(t, 2, workers, handler, more...)
	router, follower = s.houses[0], s.houses[1]
	s.elect(router, 1)
	follower.mode(lead.Following)
	return s, router, follower
}

func (s *street) at(inc messages.Incarnation) *house {
	for _, h := range s.houses {
		if h.config.Incarnation == inc {
			return h
		}
	}
	return nil
}

// disturb gives the wire other manners.
func (s *street) disturb(post func(wire.PoolReport) (int, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.post = post
}

func (s *street) manners(r wire.PoolReport) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.post == nil {
		return 1, true
	}
	return s.post(r)
}

// report carries a report to a house, as a node does, by what the pools' contract allows. It is whose queue its workers
// name, or, of one without workers, the only other house.
func (s *street) report(ctx context.Context, to messages.Incarnation, r wire.PoolReport) (result wire.PoolReportResult, err error) {
	from := s.sender(to)
	if r, err = encoded(from, r); err != nil {
		s.misfits.Add(1)
		return result, err
	}
	deliver, answer := s.manners(r)
	for range deliver {
		h := s.at(to)
		result, err = actors.Ask[PeerReport, wire.PoolReportResult](ctx, h.system, h.pid, PeerReport{From: from, Report: r})
	}
	if deliver == 0 || !answer {
		return wire.PoolReportResult{}, errWire
	}
	return result, err
}

// encoded takes a report over the wire's encoding, which refuses what no peer would take.
func encoded(from messages.Incarnation, r wire.PoolReport) (wire.PoolReport, error) {
	p, err := wire.ToProto(wire.Envelope{ID: [16]byte{1}, Seq: 1, From: from, Body: r})
	if err != nil {
		return r, err
	}
	e, err := wire.FromProto(p)
	if err != nil {
		return r, err
	}
	return e.Body.(wire.PoolReport), nil
}

// sender is the one house that is not the receiver: the streets of these tests that are disturbed have two.
func (s *street) sender(to messages.Incarnation) messages.Incarnation {
	for _, h := range s.houses {
		if h.config.Incarnation != to {
			return h.config.Incarnation
		}
	}
	return messages.Incarnation{}
}

func (s *street) endSession(_ context.Context, to messages.Incarnation, e wire.EndSession) error {
	s.told.Add(1)
	h := s.at(to)
	h.system.Send(h.pid, &PeerEndSession{From: s.sender(to), Tell: e})
	return nil
}

// elect says that a house leads.
func (s *street) elect(router *house, epoch int64) {
	for _, h := range s.houses {
		h.system.Send(h.pid, &Led{Router: router.config.Incarnation, Name: router.config.Node, Epoch: epoch})
	}
}

func (h *house) mode(want lead.Mode) {
	h.t.Helper()
	soon(h.t, func() bool { return h.describe().Lead.Mode == want }, "the pool must be", want)
}

// settled waits until the router sees nothing on any worker.
func (h *house) settled() {
	h.t.Helper()
	soon(h.t, func() bool {
		v := h.describe().Router
		return v.Running == 0 && v.Placing == 0 && v.Held == 0
	}, "the view must be empty")
}

// counted counts the runs of each execution.
type counted struct {
	mu   sync.Mutex
	runs map[messages.ExecutionID]int
}

func (c *counted) run(_ context.Context, task *messages.Task) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[task.ID]++
	return 1, nil
}

// The wire loses reports and answers, and brings reports twice: everything runs once all the same, and in the end the
// router knows that all has ended.
func TestReportsOverABadWire(t *testing.T) {
	t.Parallel()
	work := &counted{runs: map[messages.ExecutionID]int{}}
	s, router, follower := pair(t, 3, work.run)
	random := rand.New(rand.NewPCG(1, 2))
	s.disturb(func(wire.PoolReport) (int, bool) {
		switch random.IntN(6) {
		case 0:
			return 0, false
		case 1:
			return 1, false
		case 2:
			return 2, true
		}
		return 1, true
	})
	var ids []messages.ExecutionID
	for range 20 {
		ids = append(ids, router.submit(5, nil)...)
		ids = append(ids, follower.submit(5, nil)...)
		time.Sleep(20 * time.Millisecond) // the load comes over time
	}
	router.all(ids, messages.Completed)
	s.disturb(nil)
	router.settled()
	follower.mode(lead.Following)
	for _, id := range ids {
		require.Equal(t, 1, work.runs[id])
	}
	require.NotZero(t, s.looks.Load())
}

// A follower whose reports do not arrive routes for itself, with what stands on its workers, and follows again after.
func TestAFollowerGoesAloneAndComesBack(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	s, router, follower := pair(t, 2, stage.wait)
	ids := router.submit(4, nil)
	soon(t, func() bool { return stage.runs() == 4 }, "all workers must run")
	s.disturb(func(wire.PoolReport) (int, bool) { return 0, false })
	follower.mode(lead.Alone)
	require.Contains(t, follower.describe().Lead.String(), "the wire is cut")
	soon(t, func() bool { return follower.describe().Router.Running == 2 }, "it must know what runs on its workers")
	ids = append(ids, follower.submit(4, nil)...)
	close(stage.release)
	follower.all(ids, messages.Completed)
	s.disturb(nil)
	follower.mode(lead.Following)
	router.settled()
	ids = follower.submit(20, nil)
	follower.all(ids, messages.Completed)
	follower.empty()
	router.empty()
}

// A node that serves other actions is left alone, and works on.
func TestOtherActionsShareNoRouter(t *testing.T) {
	t.Parallel()
	s := inhabit(t, 2, 1, quick)
	router, other := s.houses[0], s.houses[1]
	next := other.config
	next.Serves = "more"
	other.system.Send(other.pid, &Replace{Config: next})
	s.elect(router, 1)
	soon(t, func() bool { return other.describe().Lead.Why != "" }, "it must be refused")
	require.Equal(t, lead.Alone, other.describe().Lead.Mode)
	require.Contains(t, other.describe().Lead.Why, "other actions")
	other.all(other.submit(20, nil), messages.Completed)
	next = router.config
	next.Serves = "more"
	router.system.Send(router.pid, &Replace{Config: next})
	other.mode(lead.Following)
}

// The router's pool fails and starts again with nothing in mind, is told that it leads, and has its follower back.
func TestARouterFails(t *testing.T) {
	t.Parallel()
	s, router, follower := pair(t, 2, quick)
	ids := follower.submit(100, idempotent)
	router.crash("top/pool")
	router.remade(2)
	router.mode(lead.Alone)
	s.elect(router, 1)
	router.all(ids, messages.Completed)
	soon(t, func() bool { return router.describe().Lead.Followers == 1 }, "the follower must be back")
	router.settled()
}

// The lead goes from one to the other and back under load.
func TestTheLeadMoves(t *testing.T) {
	t.Parallel()
	work := &counted{runs: map[messages.ExecutionID]int{}}
	s := inhabit(t, 2, 3, work.run)
	var ids []messages.ExecutionID
	for term := range int64(4) {
		router, follower := s.houses[term%2], s.houses[(term+1)%2]
		s.elect(router, term+1)
		for range 10 {
			ids = append(ids, router.submit(5, nil)...)
			ids = append(ids, follower.submit(5, nil)...)
		}
		follower.mode(lead.Following)
		router.mode(lead.Leading)
	}
	s.houses[0].all(ids, messages.Completed)
	s.houses[1].settled()
	for _, id := range ids {
		require.Equal(t, 1, work.runs[id])
	}
	for _, h := range s.houses {
		h.empty()
	}
}

// A follower that drains tells the router, which places elsewhere; a router that drains leaves what is on the follower's
// queues there.
func TestDrainsOfAStreet(t *testing.T) {
	t.Parallel()
	for name, leaver := range map[string]int{"router": 0, "follower": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inhabit(t, 2, 2, quick)
			s.elect(s.houses[0], 1)
			s.houses[1].mode(lead.Following)
			stays := s.houses[1-leaver]
			ids := stays.submit(200, nil)
			require.NoError(t, s.houses[leaver].drain(10*time.Second))
			require.NoError(t, stays.store.SetNode(t.Context(), s.houses[leaver].config.Incarnation, store.NodeDead))
			stays.system.Send(stays.pid, &NodeDown{Node: store.Node{Incarnation: s.houses[leaver].config.Incarnation}})
			if leaver == 0 {
				s.elect(stays, 2)
			}
			stays.all(ids, messages.Completed)
			stays.settled()
			require.Len(t, stays.describe().Seen, 2)
		})
	}
}

// A session's end is told to the follower that has it.
func TestAnEndedSessionIsToldAbroad(t *testing.T) {
	t.Parallel()
	s, router, follower := pair(t, 1, quick, func(c *PoolConfig) {
		c.Roster.SessionTimeout, c.Roster.SessionSweep = time.Second, 100*time.Millisecond
	})
	router.system.Send(router.pid, &Cordon{Slot: 0, Cordoned: true})
	ids := router.submit(1, func(e *messages.Execution) { e.Session, e.Affinity = "s", messages.AffinityStrict })
	router.all(ids, messages.Completed)
	require.Equal(t, follower.config.Incarnation, router.get(ids[0]).Worker.Incarnation)
	soon(t, func() bool { return s.told.Load() > 0 }, "it must be told")
	soon(t, func() bool {
		bound, err := router.store.ListSessions(t.Context(), store.SessionFilter{Pools: []string{"pool"}, Bound: true}, "", 10)
		return err == nil && len(bound) == 0
	}, "and unbound")
}

// What ends before it was ever placed is no placement, and a report cannot name it as one. A follower that did so could
// tell nothing more, and its workers left the router's view.
func TestAFollowerTellsOfWhatWasNeverPlaced(t *testing.T) {
	t.Parallel()
	s, router, follower := pair(t, 1, quick)
	for name, change := range map[string]func(messages.ExecutionID) store.Change{
		"cancelled": func(id messages.ExecutionID) store.Change { return &store.Cancel{ID: id, By: "test"} },
		"ended": func(id messages.ExecutionID) store.Change {
			return &store.End{ID: id, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: messages.CodeQueueTimeout, Message: "late"}}}
		},
	} {
		id := follower.keep(1, nil)[0]
		record := &actors.Record{Pool: follower.pid, Items: []actors.Item{{Change: change(id)}}}
		_, err := actors.Ask[*actors.Record, []store.Result](t.Context(), follower.system, follower.config.Recorder, record)
		require.NoError(t, err, name)
		require.True(t, follower.get(id).Status.Terminal(), name)
	}
	ids := follower.submit(20, nil)
	follower.all(ids, messages.Completed)
	router.settled()
	require.Zero(t, s.misfits.Load(), "each report must be one that a peer can read")
}

// placeFor stores an execution that stands on the first worker of an incarnation, placed by another, and sends nothing.
func (h *house) placeFor(inc, by messages.Incarnation) messages.ExecutionID {
	h.t.Helper()
	id := h.keep(1, nil)[0]
	results, err := h.store.Apply(h.t.Context(), []store.Change{&store.Place{
		ID: id, Worker: messages.WorkerKey{Incarnation: inc, Pool: "pool"}, WorkerID: "far/pool/0", PlacedBy: by, ClaimWithin: time.Hour,
	}})
	require.NoError(h.t, err)
	require.Equal(h.t, store.Applied, results[0].Verdict)
	return id
}
