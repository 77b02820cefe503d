package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// ordered are a router's orders.
type ordered struct {
	back   []string // the reasons of take-backs
	handed []broker.Work
	shown  int
	// taken and recalled are the claims of what was stored with them.
	taken, recalled []*store.Claim
}

func (o *ordered) Take(c *store.Claim, _ *messages.Execution) { o.taken = append(o.taken, c) }
func (o *ordered) Recall(c *store.Claim)                      { o.recalled = append(o.recalled, c) }

func (o *ordered) Hand(work []broker.Work) { o.handed = append(o.handed, work...) }

func (o *ordered) TakeBack(c *store.TakeBack)     { o.back = append(o.back, c.Reason) }
func (o *ordered) EndSession(roster.EndSession)   {}
func (o *ordered) ShowAll()                       { o.shown++ }
func (o *ordered) TellArrivals()                  {}
func (o *ordered) Halt()                          {}
func (o *ordered) Broken() (bool, string, string) { return false, "", "" }

// The router does not ask whose a worker is. One whose reports come in step takes work at once, any other once the store has said
// what stands on it.
func TestARouterAlonePlacesOnWhoeverReports(t *testing.T) {
	t.Parallel()
	for name, exact := range map[string]bool{"over the loop-back link": true, "over peers": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, _ := alone()
			r := New(s, &ordered{})
			r.Start()
			r.Report(faraway, &Report{First: true, Last: true, Exact: exact, Events: []roster.Event{idle(w, faraway)}})
			offer := []messages.Candidate{{ID: messages.NewExecutionID(), Action: "act"}}
			standing := func() string { return r.Seen()[0].Standing }
			if !exact {
				require.Equal(t, "refusing", standing())
				require.Equal(t, roster.WorkersStarting, r.roster.Condition(), "nobody works there")
			}
			w.Answer()
			w.Answer()
			require.Equal(t, "working", standing())
			places := r.Offered(offer)
			require.Len(t, places, 1)
			require.Equal(t, faraway, places[0].Worker.Incarnation)
			r.Settle([]SettledPlace{{Place: places[0], OK: true, ClaimBy: w.Time.Add(time.Minute)}})
			require.Len(t, r.publish, 1)
			require.Equal(t, "queue", r.publish[0].Queue)
		})
	}
}

// What was asked for a router that has rested is not for the one that begins after it, and what it has written meanwhile is
// taken back.
func TestARouterThatRestsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, w, rows := alone()
	orders := &ordered{}
	r := New(s, orders)
	r.Start()
	r.Report(nearby, &Report{First: true, Last: true, Exact: true, Events: []roster.Event{idle(w, nearby)}})
	w.Answer()
	w.Answer()
	require.Equal(t, 1, orders.shown, "what was read is compared with how things stand")
	places := r.Offered([]messages.Candidate{{ID: messages.NewExecutionID(), Action: "act"}})
	require.Len(t, places, 1)
	rows.live = []messages.Execution{{
		ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Scheduled, Worker: idle(w, nearby).Worker, PlacedBy: faraway,
	}}
	r.NodeDown(faraway)
	require.NotZero(t, w.Busy())
	r.Rest()
	w.Answer()
	require.Equal(t, 1, orders.shown, "the answer is for the router before")
	require.Empty(t, r.Seen())
	r.Settle([]SettledPlace{{Place: places[0], OK: true}})
	require.Equal(t, []string{"its router failed"}, orders.back)
	require.Nil(t, r.Offered([]messages.Candidate{{ID: messages.NewExecutionID()}}))
	require.True(t, r.Drained())
}

// Without a broker server a router does not store a placement. It names the attempt, and hands the execution to the worker: of its own
// node by no message at all. A worker of an older node, which could not claim it, and a session, get a stored placement.
func TestARouterHandsOverDirectly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		off, old         bool
		of               messages.Incarnation
		session          string
		stored, by, sent bool
	}{
		"own node":                {of: nearby, by: true},
		"another node":            {of: faraway, by: true, sent: true},
		"a node of an old build":  {of: faraway, old: true, stored: true},
		"a session":               {of: nearby, session: "s", stored: true},
		"with a broker's server":  {of: nearby, off: true, stored: true},
		"another node, a session": {of: faraway, session: "s", stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, _ := alone()
			s.Config.Direct = !c.off
			orders := &ordered{}
			r := New(s, orders)
			r.Start()
			seen := idle(w, c.of)
			seen.Direct = !c.old
			r.Report(c.of, &Report{First: true, Last: true, Exact: true, Events: []roster.Event{seen}})
			for range 4 {
				w.Answer()
			}
			id := messages.NewExecutionID()
			r.step(roster.Loaded{Candidates: []messages.Candidate{{ID: id, Attempt: 2, Action: "act", Session: c.session}}})
			require.Equal(t, c.stored, len(s.Items) == 1, "written: %v", s.Items)
			require.Equal(t, c.sent || c.by, len(r.publish) == 1)
			if c.sent {
				require.Equal(t, nearby, r.workOf(&r.publish[0]).By)
				return
			}
			r.Flush()
			require.Equal(t, c.by, len(orders.handed) == 1)
			if c.by {
				pl := messages.Placement{Execution: id, Attempt: 3}
				require.Equal(t, broker.Work{Worker: seen.Worker, Placements: []messages.Placement{pl}, By: nearby}, orders.handed[0])
				require.Equal(t, roster.OnQueue, r.Why(id))
				w.Pass(time.Minute)
				r.Tick()
				require.Equal(t, []string{"unclaimed"}, orders.back, "it is taken back when it is not claimed")
			}
		})
	}
}

// What is offered to a router that hands over directly is claimed for an idle worker of its own node as it is stored. Once it is, it goes to
// that worker, whoever routes by then; where nobody knows whether it is, it is recalled.
func TestWhatIsOfferedIsClaimedAsItIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of       messages.Incarnation
		lease    *actors.Lease
		settle   SettledPlace
		rests    bool
		accepted bool
		taken    int
		recalled int
		standing roster.Reason
	}{
		"stored":               {of: nearby, settle: SettledPlace{OK: true}, accepted: true, taken: 1, standing: roster.OnQueue},
		"stored, and rests":    {of: nearby, settle: SettledPlace{OK: true}, rests: true, accepted: true, taken: 1, standing: roster.NotLoaded},
		"not stored":           {of: nearby, accepted: true, standing: roster.NotLoaded},
		"perhaps stored":       {of: nearby, settle: SettledPlace{Unknown: true}, accepted: true, recalled: 1, standing: roster.NotLoaded},
		"perhaps, and rests":   {of: nearby, settle: SettledPlace{Unknown: true}, rests: true, accepted: true, recalled: 1, standing: roster.NotLoaded},
		"another node's":       {of: faraway},
		"the lease is old":     {of: nearby, lease: actors.NewLease(false)},
		"the lease is granted": {of: nearby, lease: granted(), settle: SettledPlace{OK: true}, accepted: true, taken: 1, standing: roster.OnQueue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, _ := alone()
			s.Config.Direct, s.Config.Roster.Claims, s.WorkerConfig.Lease = true, nearby, c.lease
			orders := &ordered{}
			r := New(s, orders)
			r.Start()
			seen := idle(w, c.of)
			seen.Direct, seen.Generation = true, 7
			r.Report(c.of, &Report{First: true, Last: true, Exact: true, Events: []roster.Event{seen}})
			for range 4 {
				w.Answer()
			}
			id := messages.NewExecutionID()
			places := r.Offered([]messages.Candidate{{ID: id, Action: "act"}})
			require.Equal(t, c.accepted, len(places) == 1)
			if !c.accepted {
				return
			}
			require.Equal(t, messages.Generation(7), places[0].Generation)
			require.Zero(t, r.Openings())
			if c.rests {
				r.Rest()
			}
			c.settle.Place, c.settle.Execution = places[0], &messages.Execution{ID: id, Attempt: 1}
			r.Settle([]SettledPlace{c.settle})
			require.Equal(t, []int{c.taken, c.recalled, 0}, []int{len(orders.taken), len(orders.recalled), len(orders.back)})
			require.Equal(t, c.standing, r.Why(id))
			require.Empty(t, r.publish, "nothing is sent")
			for _, claim := range append(orders.taken, orders.recalled...) {
				require.Equal(t, &store.Claim{ID: id, Attempt: 1, Worker: seen.Worker, Generation: 7, PlacedBy: nearby, WorkerID: seen.ID}, claim)
			}
		})
	}
}

// granted is a lease that holds for a while.
func granted() *actors.Lease {
	l := actors.NewLease(false)
	l.Grant(time.Now(), time.Hour)
	return l
}
