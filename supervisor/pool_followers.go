package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// follower is another node's share of the pool, as its reports tell it.
type follower struct {
	workers map[messages.Slot]*share
	heard   time.Time
	number  uint64 // of its last report that was taken
	opened  bool   // a whole report has begun and has not ended
	whole   bool   // one has ended: the share is known
	shows   shown  // by the whole report that has begun, or was last
	missed  map[messages.Placement]struct{}
	unknown bool // it shows a run that the roster does not know
	// settled: what the store has of the share has been read too, and its workers are placed on.
	settled bool
	reading bool
	readAt  time.Time
}

// shown is what a whole report shows.
type shown struct {
	slots     map[messages.Slot]struct{}
	running   map[messages.Placement]struct{}
	delivered map[messages.Placement]struct{}
}

// reported takes a report of a node that follows this one, and answers it.
func (p *Pool) reported(m *PeerReport) wire.PoolReportResult {
	now := p.world.Now()
	f := p.followers[m.From]
	verdict, why := lead.Judge(p.asked(m, f, now))
	if verdict == lead.Taken {
		if shares, err := p.sharesOf(m, now); err != nil {
			verdict, why = lead.Refused, err.Error()
		} else {
			p.take(m, shares, now)
		}
	}
	if verdict == lead.Refused && f != nil {
		p.letGo(m.From)
	}
	return wire.PoolReportResult{Refused: clip(why), Again: verdict == lead.Failed, Waiting: int32(min(p.roster.Waiting(), 1<<30))}
}

// refusalMax bounds the text of a refusal, as the contract does.
const refusalMax = 256

func clip(text string) string {
	if len(text) > refusalMax {
		return text[:refusalMax]
	}
	return text
}

func (p *Pool) asked(m *PeerReport, f *follower, now time.Time) lead.Asked {
	_, ended := p.abroad.down[m.From]
	_, epoch := p.mode.Router()
	a := lead.Asked{
		Mode: p.mode.Mode(), Epoch: epoch, Serves: p.cfg.Serves, Ended: ended || m.From == p.cfg.Incarnation,
		Report: lead.Heading{
			Epoch: m.Report.Epoch, Number: m.Report.Number, First: m.Report.First, Last: m.Report.Last, Serves: m.Report.Serves,
		},
	}
	if !p.haltedAt.IsZero() && now.Sub(p.haltedAt) >= lead.Patience {
		a.Halted = p.cfg.Halted().Sentence()
	}
	if f != nil {
		a.Known, a.Opened, a.Whole, a.Number = true, f.opened, f.whole, f.number
	}
	return a
}

// sharesOf reads the workers of a report before anything of it is taken.
func (p *Pool) sharesOf(m *PeerReport, now time.Time) ([]*share, error) {
	shares := make([]*share, len(m.Report.Entries))
	for i, e := range m.Report.Entries {
		if w, ok := e.(wire.PoolWorker); ok {
			s, err := p.shareOf(m.From, &w, now)
			if err != nil {
				return nil, err
			}
			shares[i] = s
		}
	}
	return shares, nil
}

// take carries a report into the view.
func (p *Pool) take(m *PeerReport, shares []*share, now time.Time) {
	f := p.followers[m.From]
	if f == nil {
		f = &follower{workers: map[messages.Slot]*share{}}
		p.followers[m.From] = f
		p.stepAside(m.From)
		p.showMode()
	}
	f.heard, f.number = now, m.Report.Number
	if m.Report.First {
		f.opened, f.unknown = true, false
		f.shows = shown{map[messages.Slot]struct{}{}, map[messages.Placement]struct{}{}, map[messages.Placement]struct{}{}}
	}
	for i, e := range m.Report.Entries {
		p.takeEntry(m.From, f, e, shares[i])
	}
	if m.Report.Last && f.opened {
		p.takeWhole(m.From, f)
	}
	if m.Report.Wake {
		p.step(roster.Wake{})
	}
}

// stepAside forgets the slot that stood for all of a node's workers.
func (p *Pool) stepAside(inc messages.Incarnation) {
	key := messages.WorkerKey{Incarnation: inc, Pool: p.cfg.Name, Slot: standIn}
	if known := p.abroad.workers[inc]; known != nil {
		if _, there := known[key]; there {
			delete(known, key)
			p.step(roster.WorkerGone{Worker: key})
		}
	}
}

func (p *Pool) takeEntry(inc messages.Incarnation, f *follower, e wire.PoolEntry, s *share) {
	switch e := e.(type) {
	case wire.PoolWorker:
		p.takeWorker(f, s)
	case wire.PoolWorkerGone:
		if !e.Restarts {
			delete(f.workers, e.Slot)
		}
		p.step(roster.WorkerGone{Worker: p.keyOf(inc, e.Slot), Restarts: e.Restarts})
	case wire.PoolPlacement:
		p.takePlacement(inc, f, &e)
	case wire.PoolRunEnded:
		p.step(roster.Ended{
			Placement: e.Placement, Took: e.Took, Finished: e.Finished, Restored: e.Restored, Fault: e.Fault, Unseen: e.Unseen,
			Session: e.Session,
		})
	case wire.PoolReleased:
		p.step(roster.Released{Placement: e.Placement})
	case wire.PoolWithdrawn:
		p.step(roster.Withdrawn{ID: e.Execution})
	case wire.PoolCandidate:
		p.step(roster.Arrived{Candidates: []messages.Candidate{candidateOf(&e)}})
	}
}

func (p *Pool) keyOf(inc messages.Incarnation, n messages.Slot) messages.WorkerKey {
	return messages.WorkerKey{Incarnation: inc, Pool: p.cfg.Name, Slot: n}
}

// takeWorker brings a follower's worker up to date. Before the store has said what stands on it, it takes nothing.
func (p *Pool) takeWorker(f *follower, s *share) {
	n := s.seen.Worker.Slot
	f.workers[n] = s
	if f.opened {
		f.shows.slots[n] = struct{}{}
	}
	seen := s.seen
	seen.Accepts = seen.Accepts && f.settled
	p.step(seen)
}

func (p *Pool) takePlacement(inc messages.Incarnation, f *follower, e *wire.PoolPlacement) {
	if !e.Running {
		if f.opened {
			f.shows.delivered[e.Placement] = struct{}{}
		}
		return
	}
	if f.opened {
		f.shows.running[e.Placement] = struct{}{}
	}
	f.unknown = f.unknown || !p.roster.Knows(e.Placement)
	p.step(roster.Claimed{Placement: e.Placement, Worker: p.keyOf(inc, e.Slot)})
}

// takeWhole compares the view with what the whole report has shown.
func (p *Pool) takeWhole(inc messages.Incarnation, f *follower) {
	f.opened, f.whole = false, true
	var running []messages.Placement
	for n := range f.workers {
		if _, shown := f.shows.slots[n]; !shown {
			delete(f.workers, n)
			p.step(roster.WorkerGone{Worker: p.keyOf(inc, n)})
			continue
		}
		running = append(running, p.roster.Running(p.keyOf(inc, n))...)
	}
	var ended []messages.Placement
	ended, f.missed = lead.Reconcile(f.shows.running, running, f.missed)
	for _, pl := range ended {
		p.step(roster.Ended{Placement: pl, Unseen: true})
	}
	if !f.settled || f.unknown && p.world.Now().Sub(f.readAt) >= lead.WholeEvery {
		p.readShare(inc, f)
	}
}

// letGo lets the workers of a node that lives go from the view: its own router has them now. To this one they are busy, so
// that what waits for them, and for any worker, waits on.
func (p *Pool) letGo(inc messages.Incarnation) {
	f := p.followers[inc]
	delete(p.followers, inc)
	known := map[messages.WorkerKey]struct{}{}
	for _, n := range slotsOf(f.workers) {
		known[p.keyOf(inc, n)] = struct{}{}
		p.step(roster.WorkerLeft{Worker: p.keyOf(inc, n)})
	}
	p.abroad.workers[inc] = known
	p.reloadBound(inc)
	p.showMode()
}

func (p *Pool) letAllGo() {
	for inc := range p.followers {
		p.letGo(inc)
	}
}

// lose takes the workers of an incarnation that has ended out of the view.
func (p *Pool) lose(inc messages.Incarnation) {
	f := p.followers[inc]
	if f == nil {
		return
	}
	delete(p.followers, inc)
	for _, n := range slotsOf(f.workers) {
		p.step(roster.WorkerGone{Worker: p.keyOf(inc, n)})
	}
	p.showMode()
}

// reloadBound asks which sessions are bound to the workers of a node that has left.
func (p *Pool) reloadBound(inc messages.Incarnation) {
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		m, err := p.readPool(ctx)
		if err != nil {
			p.cfg.Logger.Warn("sessions of a node that routes for itself not read", "incarnation", inc, "error", err)
			return nil // they are read when they are next asked for
		}
		m.sessions = slices.DeleteFunc(m.sessions, func(s store.Session) bool { return s.Worker.Incarnation != inc })
		m.first, m.live = false, nil
		return func() { p.sessionsLoaded(m) }
	})
}

// follows reports whether a worker is one of a follower's.
func (p *Pool) follows(key messages.WorkerKey) bool {
	f := p.followers[key.Incarnation]
	return f != nil && f.workers[key.Slot] != nil
}

// queueAbroad is the queue of a follower's worker; empty: it has left.
func (p *Pool) queueAbroad(key messages.WorkerKey) string {
	if !p.follows(key) {
		return ""
	}
	return p.followers[key.Incarnation].workers[key.Slot].queue
}

// gradeOf is the health of a worker, here or with a follower; zero: it has left.
func (p *Pool) gradeOf(key messages.WorkerKey) health.Grade {
	if key.Incarnation == p.cfg.Incarnation {
		if s := p.slot(key.Slot); s != nil && s.cur != nil {
			return s.cur.grade
		}
		return 0
	}
	if p.follows(key) {
		return p.followers[key.Incarnation].workers[key.Slot].seen.Grade
	}
	return 0
}

// endSessionAbroad has a follower's worker drop a session's state. A word that is lost costs memory there until the worker
// is replaced, and nothing else: epochs tell the runs.
func (p *Pool) endSessionAbroad(e roster.EndSession) {
	if !p.follows(e.Worker) {
		return
	}
	peers, tell := p.cfg.Peers, wire.EndSession{Pool: p.cfg.Name, Slot: e.Worker.Slot, Session: e.Session, Epoch: e.Epoch}
	p.world.Beside(reportTime, func(ctx context.Context) func() {
		if err := peers.EndSession(ctx, e.Worker.Incarnation, tell); err != nil {
			p.cfg.Logger.Debug("end of a session not told", "session", fmt.Sprint(e.Session), "error", err)
		}
		return nil
	})
}
