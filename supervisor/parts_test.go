package supervisor

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// still is a world in which nothing happens before the test says so.
type still struct {
	now    time.Time
	beside []func()
}

func (s *still) Now() time.Time                           { return s.now }
func (s *still) Random() float64                          { return 0 }
func (s *still) After(time.Duration, func()) actors.Timer { return s }
func (s *still) Stop() bool                               { return true }
func (s *still) Beside(_ time.Duration, work func(context.Context) func()) {
	s.beside = append(s.beside, func() {
		if then := work(context.Background()); then != nil {
			then()
		}
	})
}

// answer has all that runs beside come back.
func (s *still) answer() {
	all := s.beside
	s.beside = nil
	for _, f := range all {
		f()
	}
}

// listed is a store that shows what stands on workers, and has nothing else.
type listed struct {
	store.Store
	live []messages.Execution
}

func (l *listed) Live(context.Context, string) ([]messages.Execution, error) { return l.live, nil }
func (l *listed) ListNodes(context.Context) ([]store.Node, error)            { return nil, nil }
func (l *listed) BoundSessions(context.Context, store.BoundQuery) ([]store.Session, error) {
	return nil, nil
}
func (l *listed) Due(context.Context, store.DueQuery) (store.DuePage, error) {
	return store.DuePage{}, nil
}

var nearby, faraway = messages.Incarnation{1}, messages.Incarnation{2}

// part is what a part of a pool needs, alone.
func part() (*Shared, *still, *listed) {
	w, l := &still{now: time.Unix(1_000_000, 0)}, &listed{}
	cfg := &PoolConfig{Logger: hclog.NewNullLogger(), Name: "pool", Node: "node", Incarnation: nearby, Store: l, ClaimTimeout: time.Minute}
	return &Shared{Config: cfg, World: w, WorkerConfig: &actors.WorkerConfig{}}, w, l
}

// ordered are a router's orders.
type ordered struct {
	back  []string // the reasons of take-backs
	shown int
}

func (o *ordered) TakeBack(c *store.TakeBack)     { o.back = append(o.back, c.Reason) }
func (o *ordered) EndSession(roster.EndSession)   {}
func (o *ordered) ShowAll()                       { o.shown++ }
func (o *ordered) TellArrivals()                  {}
func (o *ordered) Halt()                          {}
func (o *ordered) Broken() (bool, string, string) { return false, "", "" }

// idle is a worker of a node that could take work.
func idle(w *still, of messages.Incarnation) roster.WorkerSeen {
	return roster.WorkerSeen{
		Worker: messages.WorkerKey{Incarnation: of, Pool: "pool"}, ID: "n/pool/0", Queue: "queue", Generation: 1, Accepts: true,
		Active: true, Grade: health.Healthy, BeatAt: w.now, BeatEvery: time.Minute,
	}
}

// The router does not ask whose a worker is. One whose reports come in step takes work at once, any other once the store has said
// what stands on it.
func TestARouterAlonePlacesOnWhoeverReports(t *testing.T) {
	t.Parallel()
	for name, exact := range map[string]bool{"over the loop-back link": true, "over peers": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, _ := part()
			r := newRouter(s, &ordered{})
			r.Start()
			r.Report(faraway, &Report{First: true, Last: true, Exact: exact, Events: []roster.Event{idle(w, faraway)}})
			offer := []messages.Candidate{{ID: messages.NewExecutionID(), Action: "act"}}
			standing := func() string { return r.Snapshot().Workers[0].Standing }
			if !exact {
				require.Equal(t, "refusing", standing())
			}
			w.answer()
			w.answer()
			require.Equal(t, "working", standing())
			places := r.Offered(offer)
			require.Len(t, places, 1)
			require.Equal(t, faraway, places[0].Worker.Incarnation)
			r.Settle([]SettledPlace{{Place: places[0], OK: true, ClaimBy: w.now.Add(time.Minute)}})
			require.Len(t, r.publish, 1)
			require.Equal(t, "queue", r.publish[0].Queue)
		})
	}
}

// What was asked for a router that has rested is not for the one that begins after it, and what it has written meanwhile is
// taken back.
func TestARouterThatRestsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, w, rows := part()
	orders := &ordered{}
	r := newRouter(s, orders)
	r.Start()
	r.Report(nearby, &Report{First: true, Last: true, Exact: true, Events: []roster.Event{idle(w, nearby)}})
	w.answer()
	w.answer()
	require.Equal(t, 1, orders.shown, "what was read is compared with how things stand")
	places := r.Offered([]messages.Candidate{{ID: messages.NewExecutionID(), Action: "act"}})
	require.Len(t, places, 1)
	rows.live = []messages.Execution{{
		ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Scheduled, Worker: idle(w, nearby).Worker, PlacedBy: faraway,
	}}
	r.NodeDown(faraway)
	require.NotEmpty(t, w.beside)
	r.Rest()
	w.answer()
	require.Equal(t, 1, orders.shown, "the answer is for the router before")
	require.Empty(t, r.Snapshot().Workers)
	r.Settle([]SettledPlace{{Place: places[0], OK: true}})
	require.Equal(t, []string{"its router failed"}, orders.back)
	require.Nil(t, r.Offered([]messages.Candidate{{ID: messages.NewExecutionID()}}))
	require.True(t, r.Drained())
}

// crowd is a node's workers, as a link sees them.
type crowd struct{ stands []roster.WorkerSeen }

func (c *crowd) Execute(*broker.Work) bool                           { return true }
func (c *crowd) Drop(messages.Slot, messages.Placement)              {}
func (c *crowd) EndSession(messages.Slot, string, int64)             {}
func (c *crowd) Expired(messages.Slot, messages.Placement)           {}
func (c *crowd) CancelRun(messages.Placement, messages.Slot, string) {}
func (c *crowd) Has(messages.Slot, messages.Generation) bool         { return true }
func (c *crowd) Standings() []roster.WorkerSeen                      { return c.stands }
func (c *crowd) QueueAttached(string)                                {}
func (c *crowd) ShareQueue() int                                     { return 1 }
func (c *crowd) Broken() (bool, string, string)                      { return false, "", "" }
func (c *crowd) ShowRouting(string)                                  {}

// heard is a router of the node, which only listens.
type heard struct {
	starts, rests int
	wholes        []*Report
	events        []roster.Event
}

func (h *heard) Start()                                               { h.starts++ }
func (h *heard) Rest()                                                { h.rests++ }
func (h *heard) Report(_ messages.Incarnation, r *Report)             { h.wholes = append(h.wholes, r) }
func (h *heard) Take(_ messages.Incarnation, e roster.Event)          { h.events = append(h.events, e) }
func (h *heard) TakeClaimed(_ messages.Incarnation, e roster.Claimed) { h.events = append(h.events, e) }
func (h *heard) TakeEnded(_ messages.Incarnation, e roster.Ended)     { h.events = append(h.events, e) }
func (h *heard) Drop(messages.Incarnation)                            {}
func (h *heard) Placed(*store.Place, *store.Result)                   {}
func (h *heard) Doubt(...string)                                      {}
func (h *heard) Halted(roster.Reason)                                 {}
func (h *heard) Resign()                                              {}
func (h *heard) Ended(messages.Incarnation) bool                      { return false }
func (h *heard) Waiting() int                                         { return 0 }
func (h *heard) Drained() bool                                        { return true }

// The workers of a node are reported to one router: to its own, until another has taken all of them, and again once that one is
// silent.
func TestALinkAloneReportsToOneRouter(t *testing.T) {
	t.Parallel()
	s, w, _ := part()
	var sent []wire.PoolReport
	deaf := false
	s.Config.Peers = &PoolPeers{Look: func() {}, Report: func(_ context.Context, _ messages.Incarnation, r wire.PoolReport) (wire.PoolReportResult, error) {
		sent = append(sent, r)
		if deaf {
			return wire.PoolReportResult{}, errWire
		}
		return wire.PoolReportResult{}, nil
	}}
	s.Config.Serves = "same"
	l, own := newLink(s, Left{}), &heard{}
	seen := idle(w, nearby)
	seen.Queue = s.Config.Settings.PoolQueueName("node", "pool", nearby)
	l.Connect(&crowd{stands: []roster.WorkerSeen{seen}}, own)
	runs := messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1}
	l.running[runs] = 0
	l.Tell(seen)
	require.Len(t, own.events, 1, "it is alone")

	l.Led(faraway, "far", 1)
	l.SendReport()
	w.answer()
	require.Equal(t, lead.Following, l.mode.Mode())
	require.Equal(t, 1, own.rests)
	require.Len(t, sent, 1)
	require.Len(t, sent[0].Entries, 2, "the worker, and what runs on it")
	l.tellEnded(roster.Ended{Placement: runs, Finished: true})
	require.Len(t, own.events, 1, "it follows")
	l.SendReport()
	w.answer()
	require.Equal(t, []wire.PoolEntry{wire.PoolRunEnded{Placement: runs, Finished: true}}, sent[1].Entries)

	deaf = true
	w.now = w.now.Add(lead.Patience)
	l.Tick(w.now)
	require.Equal(t, lead.Alone, l.mode.Mode())
	require.Equal(t, 1, own.starts)
	require.Len(t, own.wholes, 1)
	require.True(t, own.wholes[0].Exact)
	require.Equal(t, []roster.Event{seen, roster.Claimed{Placement: runs, Worker: seen.Worker}}, own.wholes[0].Events)
	l.tellEnded(roster.Ended{Placement: runs})
	require.Len(t, own.events, 2)
}

// What an actor that failed has left on this node's workers is given back by the node, whoever routes; what the next one has claimed
// is not.
func TestALinkGivesBackWhatTheActorBeforeHasLeft(t *testing.T) {
	t.Parallel()
	s, w, rows := part()
	row := func(at messages.Incarnation, gen messages.Generation) messages.Execution {
		return messages.Execution{
			ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Running, Idempotent: true, Generation: gen,
			Worker: messages.WorkerKey{Incarnation: at, Pool: "pool"},
		}
	}
	lost, new, other := row(nearby, 3), row(nearby, 4), row(faraway, 3)
	rows.live = []messages.Execution{lost, new, other}
	l := newLink(s, Left{Generations: map[messages.Slot]messages.Generation{0: 3}})
	l.Connect(&crowd{}, &heard{})
	l.giveBackLeft()
	w.answer()
	require.Len(t, s.Items, 1)
	require.Equal(t, lost.ID, s.Items[0].Change.(*store.Rescue).ID)
	require.Empty(t, l.left)
	l.giveBackLeft()
	require.Empty(t, w.beside, "once")
}
