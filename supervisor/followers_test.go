package supervisor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// puppeteer plays a node that follows the pool of a house: what it reports is the test's.
type puppeteer struct {
	*house
	inc    messages.Incarnation
	number uint64
	queue  string
}

// term is the house's as a router.
const term = 5

// attend makes the house lead, with workers of its own that take nothing, and plays a node that is to follow it, and that
// may be silent for so long.
func attend(t *testing.T, patience time.Duration) *puppeteer {
	t.Helper()
	h := build(t, "go", 1, goes(quick), func(c *PoolConfig) {
		c.Serves, c.Peers, c.Patience = "same", &PoolPeers{
			Look:       func() {},
			EndSession: func(context.Context, messages.Incarnation, wire.EndSession) error { return nil },
		}, patience
	})
	h.ready(1)
	h.system.Send(h.pid, &Cordon{Slot: 0, Cordoned: true})
	h.system.Send(h.pid, &Led{Router: h.config.Incarnation, Name: "node", Epoch: term})
	require.Equal(t, lead.Leading, h.describe().Lead.Mode)
	p := &puppeteer{house: h, inc: messages.NewIncarnation()}
	require.NoError(t, h.store.Join(t.Context(), store.Node{Incarnation: p.inc, Name: "far", State: store.NodeActive}, 0))
	p.queue = h.config.Settings.PoolQueueName("far", "pool", p.inc)
	require.NoError(t, h.broker.Declare(t.Context(), h.config.Settings.WorkQueue(p.queue)))
	return p
}

// tell sends one report.
func (p *puppeteer) tell(change func(*wire.PoolReport), entries ...wire.PoolEntry) wire.PoolReportResult {
	p.t.Helper()
	p.number++
	r := wire.PoolReport{Pool: "pool", Epoch: term, Number: p.number, Serves: "same", Entries: entries}
	change(&r)
	result, err := actors.Ask[PeerReport, wire.PoolReportResult](p.t.Context(), p.system, p.pid, PeerReport{From: p.inc, Report: r})
	require.NoError(p.t, err)
	return result
}

func wholly(r *wire.PoolReport) { r.First, r.Last = true, true }
func partly(*wire.PoolReport)   {}

func (p *puppeteer) worker(n messages.Slot) wire.PoolWorker {
	return wire.PoolWorker{
		Slot: n, ID: messages.NewWorkerID("far", "pool", n), Queue: p.queue, Generation: 1, Accepts: true, Active: true, Grade: "healthy",
	}
}

// view is the router's view of one of the player's workers.
func (p *puppeteer) view(n messages.Slot) (v roster.WorkerView, there bool) {
	p.t.Helper()
	d := p.describe()
	for _, w := range d.Seen {
		if w.Key == (messages.WorkerKey{Incarnation: p.inc, Pool: "pool", Slot: n}) {
			return w, true
		}
	}
	return v, false
}

func (p *puppeteer) stands(n messages.Slot, how string) {
	p.t.Helper()
	soon(p.t, func() bool { v, there := p.view(n); return there && v.Standing == how }, "the worker must be", how)
}

// joins makes one worker follow.
func (p *puppeteer) joins() {
	p.t.Helper()
	require.Empty(p.t, p.tell(wholly, p.worker(0)).Refused)
	p.stands(0, "working")
	require.Equal(p.t, 1, p.describe().Lead.Followers)
}

// placedOn waits until an execution stands on the player's worker, and returns its placement.
func (p *puppeteer) placedOn(id messages.ExecutionID) messages.Placement {
	p.t.Helper()
	soon(p.t, func() bool { return p.get(id).Status == messages.Scheduled }, "it must be placed")
	e := p.get(id)
	require.Equal(p.t, p.inc, e.Worker.Incarnation)
	require.Equal(p.t, p.config.Incarnation, e.PlacedBy)
	return e.Placement()
}

// sent waits until so many placements have come to the player's queue, where they stay: before, the store may have them and the
// router not know it yet.
func (p *puppeteer) sent(count int) {
	p.t.Helper()
	queued, err := p.broker.Consume(p.t.Context(), p.queue, 100)
	require.NoError(p.t, err)
	deadline := time.After(30 * time.Second)
	for count > 0 {
		select {
		case d := <-queued.Deliveries():
			work, err := broker.DecodeWork(d.Body)
			require.NoError(p.t, err)
			for i := range work {
				count -= len(work[i].Placements)
			}
		case <-deadline:
			require.FailNow(p.t, "not all placements were sent")
		}
	}
	require.NoError(p.t, queued.Cancel())
}

// claim makes the store know that the player's worker runs it.
func (p *puppeteer) claim(pl messages.Placement) {
	p.t.Helper()
	results, err := p.store.Apply(p.t.Context(), []store.Change{&store.Claim{
		ID: pl.Execution, Attempt: pl.Attempt, Worker: messages.WorkerKey{Incarnation: p.inc, Pool: "pool"}, Generation: 1,
	}})
	require.NoError(p.t, err)
	require.Equal(p.t, store.Applied, results[0].Verdict, "%v", results[0].Err)
}

func (p *puppeteer) finish(pl messages.Placement) {
	p.t.Helper()
	_, err := p.store.Apply(p.t.Context(), []store.Change{&store.Finish{
		ID: pl.Execution, Attempt: pl.Attempt, Outcome: messages.Outcome{Status: messages.Completed},
	}})
	require.NoError(p.t, err)
}

// A router places on a follower's worker, by that worker's queue, and follows what becomes of it by the reports.
func TestARouterPlacesOnAFollowersWorker(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	p.joins()
	id := p.submit(1, nil)[0]
	pl := p.placedOn(id)
	queued, err := p.broker.Consume(t.Context(), p.queue, 1)
	require.NoError(t, err)
	d := <-queued.Deliveries()
	work, err := broker.DecodeWork(d.Body)
	require.NoError(t, err)
	require.Equal(t, []messages.Placement{pl}, work[0].Placements)
	require.NoError(t, d.Ack())
	require.NoError(t, queued.Cancel())
	p.claim(pl)
	require.Empty(t, p.tell(partly, wire.PoolPlacement{Placement: pl, Running: true}).Refused)
	v, _ := p.view(0)
	require.Equal(t, 1, v.Running)
	p.submit(1, nil)
	p.waits(1)
	p.finish(pl)
	require.Empty(t, p.tell(partly, wire.PoolRunEnded{Placement: pl, Took: time.Second, Finished: true}).Refused)
	soon(t, func() bool { v, _ := p.view(0); return v.Running == 0 && v.Depth == 1 }, "the next must be placed")
}

// waits reports until so much waits.
func (p *puppeteer) waits(n int32) {
	p.t.Helper()
	soon(p.t, func() bool { return p.tell(partly).Waiting == n }, "so many must wait", n)
}

// What a whole report does not show: a placement whose message is on its way stays; a run is missed twice before it counts
// as ended; a worker is gone.
func TestAWholeReportReplacesWhatWasKnown(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	p.joins()
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1)).Refused)
	p.stands(1, "working")
	ids := p.submit(2, nil)
	one, two := p.placedOn(ids[0]), p.placedOn(ids[1])
	p.sent(2)
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1)).Refused)
	require.Equal(t, 2, p.describe().Router.Placing, "their messages are on the way")
	at := map[messages.Placement]messages.Slot{}
	for _, pl := range []messages.Placement{one, two} {
		at[pl] = p.get(pl.Execution).Worker.Slot
	}
	runs := func(pl messages.Placement) wire.PoolEntry {
		return wire.PoolPlacement{Placement: pl, Slot: at[pl], Running: true}
	}
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1), runs(one), runs(two)).Refused, "their begins were lost")
	require.Equal(t, 2, p.describe().Router.Running)
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1), runs(two)).Refused)
	require.Equal(t, 2, p.describe().Router.Running, "missed once")
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1), runs(two)).Refused)
	require.Equal(t, 1, p.describe().Router.Running, "missed twice: its end was lost")
	require.Empty(t, p.tell(wholly, p.worker(0)).Refused)
	_, there := p.view(1)
	require.False(t, there)
}

// Parts of a whole report are one: nothing that only the last of them shows is gone before it has come.
func TestAWholeReportOfSeveralParts(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	first := func(r *wire.PoolReport) { r.First = true }
	last := func(r *wire.PoolReport) { r.Last = true }
	require.Empty(t, p.tell(first, p.worker(0)).Refused)
	require.Empty(t, p.tell(partly, p.worker(1)).Refused)
	require.Empty(t, p.tell(last, p.worker(2)).Refused)
	p.stands(2, "working")
	require.Empty(t, p.tell(first, p.worker(0)).Refused)
	for n := range messages.Slot(3) {
		p.stands(n, "working")
	}
	require.Empty(t, p.tell(last, p.worker(2)).Refused)
	_, there := p.view(1)
	require.False(t, there)
}

// A report that cannot be taken changes nothing, and is answered with what to do.
func TestReportsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	result := p.tell(partly, p.worker(0))
	require.True(t, result.Again)
	require.Contains(t, result.Refused, "a whole one")
	p.joins()
	for name, c := range map[string]struct {
		change func(*wire.PoolReport)
		entry  wire.PoolEntry
		again  bool
		why    string
	}{
		"late": {func(r *wire.PoolReport) { r.Number = 1 }, p.worker(7), true, "later report"},
		"gap":  {func(r *wire.PoolReport) { r.Number += 9 }, p.worker(7), true, "report before"},
		"term": {func(r *wire.PoolReport) { r.Epoch-- }, p.worker(7), true, "term is 5"},
	} {
		result := p.tell(c.change, c.entry)
		require.Equal(t, c.again, result.Again, name)
		require.Contains(t, result.Refused, c.why, name)
		p.number--
	}
	_, there := p.view(7)
	require.False(t, there)
	foreign := p.worker(0)
	foreign.Queue = p.config.Settings.PoolQueueName("node", "pool", p.config.Incarnation)
	result = p.tell(partly, foreign)
	require.False(t, result.Again)
	require.Contains(t, result.Refused, "none of its node's")
	p.stands(0, "starting")
	grade := p.worker(0)
	grade.Grade = "splendid"
	require.Contains(t, p.tell(wholly, grade).Refused, "splendid")
	require.Contains(t, p.tell(func(r *wire.PoolReport) { wholly(r); r.Serves = "other" }, p.worker(0)).Refused, "other actions")
	p.joins()
}

// A follower that says nothing leaves the view, but for its workers' names: what stands on them is its own router's. When
// it is back, what was placed there meanwhile is found in the store. When it has ended, it is gone.
func TestAFollowerThatFallsSilent(t *testing.T) {
	t.Parallel()
	p := attend(t, 10*time.Second) // for the steps of a busy machine
	p.joins()
	id := p.submit(1, func(e *messages.Execution) { e.Session, e.Affinity = "s", messages.AffinityStrict })[0]
	pl := p.placedOn(id)
	p.claim(pl)
	p.stands(0, "starting") // after its patience
	require.Zero(t, p.describe().Lead.Followers)
	require.Zero(t, p.describe().Router.Running)
	require.Empty(t, p.tell(wholly, p.worker(0), wire.PoolPlacement{Placement: pl, Running: true}).Refused)
	p.stands(0, "working")
	v, _ := p.view(0)
	require.Equal(t, []messages.Placement{pl}, v.Placements)
	require.Equal(t, 1, v.Running)
	next := p.submit(1, func(e *messages.Execution) { e.Session, e.Affinity = "s", messages.AffinityStrict })[0]
	p.finish(pl)
	require.Empty(t, p.tell(partly, wire.PoolRunEnded{Placement: pl, Finished: true}).Refused)
	require.Equal(t, p.get(id).SessionEpoch, p.get(p.placedOn(next).Execution).SessionEpoch, "its session is still bound there")
	p.system.Send(p.pid, &NodeDown{Node: store.Node{Incarnation: p.inc}})
	_, there := p.view(0)
	require.False(t, there)
	require.Contains(t, p.tell(wholly, p.worker(0)).Refused, "has ended")
}

// What a router that has ended had placed, and what never came to its worker, is taken back by the next one; what has come
// is left where it is.
func TestARouterTakesUpWhatAnotherHasPlaced(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	gone := messages.NewIncarnation()
	ids := []messages.ExecutionID{p.far(gone), p.far(gone)}
	came, lost := messages.Placement{Execution: ids[0], Attempt: 1}, messages.Placement{Execution: ids[1], Attempt: 1}
	require.Empty(t, p.tell(wholly, p.worker(0), p.worker(1), wire.PoolPlacement{Placement: came}).Refused)
	p.stands(0, "working")
	soon(t, func() bool { return p.get(lost.Execution).Attempt == 2 }, "it must be placed again")
	require.Equal(t, messages.Attempt(1), p.get(came.Execution).Attempt)
	require.Equal(t, messages.Scheduled, p.get(came.Execution).Status)
}

// far stores an execution that stands on the player's worker, placed by another.
func (p *puppeteer) far(by messages.Incarnation) messages.ExecutionID { return p.placeFor(p.inc, by) }
