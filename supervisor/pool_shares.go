package supervisor

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// shareRead is what the store has of a follower's share.
type shareRead struct {
	of       messages.Incarnation
	sessions []store.Session
	nodes    map[messages.Incarnation]struct{}
	live     []messages.Execution
	err      error
}

// readShare reads what the store has of a follower's share: the sessions that are bound there, and what stands on its
// workers, which others may have placed.
func (p *Pool) readShare(inc messages.Incarnation, f *follower) {
	if f.reading {
		return
	}
	f.reading, f.readAt = true, p.world.Now()
	p.reads.begin()
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		m := &shareRead{of: inc}
		read, err := p.readPool(ctx)
		if m.err = err; err == nil {
			m.sessions, m.nodes, m.live = read.sessions, read.nodes, read.live
		}
		return func() { p.shareRead(m) }
	})
}

// shareRead settles a follower's share.
func (p *Pool) shareRead(m *shareRead) {
	live, doubted := p.reads.end(m.sessions, m.live)
	f := p.followers[m.of]
	if f == nil {
		return
	}
	f.reading = false
	if m.err != nil {
		p.cfg.Logger.Warn("a follower's share not read, reading again with its next report", "incarnation", m.of, "error", m.err)
		return
	}
	for i := range m.sessions {
		if s := &m.sessions[i]; s.Worker.Incarnation == m.of && (!f.settled || s.Epoch > p.roster.Epoch(s.Session)) {
			delete(p.abroad.sessions, s.Session)
			p.step(movedOf(s, s.Worker, s.StartedEpoch))
		}
	}
	for i := range live {
		if e := &live[i]; e.Worker.Incarnation == m.of {
			p.takeUp(e, m.nodes, f.shows.standing(e.Placement()))
		}
	}
	p.doubt(doubted)
	if !f.settled {
		p.settleShare(m.of, f)
	}
}

// settleShare lets the workers of a follower take work.
func (p *Pool) settleShare(inc messages.Incarnation, f *follower) {
	f.settled = true
	for key := range p.abroad.workers[inc] {
		if f.workers[key.Slot] == nil {
			p.step(roster.WorkerGone{Worker: key})
		}
	}
	delete(p.abroad.workers, inc)
	for _, n := range slotsOf(f.workers) {
		p.step(f.workers[n].seen)
	}
	p.cfg.Logger.Info("node follows", "incarnation", inc, "workers", len(f.workers))
}

func slotsOf(workers map[messages.Slot]*share) []messages.Slot {
	slots := make([]messages.Slot, 0, len(workers))
	for n := range workers {
		slots = append(slots, n)
	}
	slices.Sort(slots)
	return slots
}

func (s *shown) standing(pl messages.Placement) standsAs {
	if _, runs := s.running[pl]; runs {
		return runsHere
	}
	if _, waits := s.delivered[pl]; waits {
		return delivered
	}
	return notHere
}

// takeUp makes the roster know of a placement that it has not made, on a worker that it knows. One that was placed by an
// incarnation that has ended, and has not come to its worker, was perhaps never published: it is taken back.
func (p *Pool) takeUp(e *messages.Execution, live map[messages.Incarnation]struct{}, at standsAs) {
	pl := e.Placement()
	if _, lives := live[e.PlacedBy]; e.Status == messages.Scheduled && at == notHere && !lives {
		p.takeBack(pl, "router_gone", 0)
		return
	}
	runs := e.Status.Started()
	if e.Worker.Incarnation == p.cfg.Incarnation {
		runs = at == runsHere // what has ended meanwhile was told before this was read
	}
	p.step(roster.Holding{
		Placement: pl, Worker: e.Worker, Session: e.Session, Epoch: e.SessionEpoch, Missed: e.Session != "" && !e.SessionHit,
		TakeBacks: e.TakeBacks, Running: runs, ClaimBy: e.ClaimBy,
	})
}

// movedOf tells the roster what the store holds for a session.
func movedOf(s *store.Session, worker messages.WorkerKey, started int64) roster.SessionMoved {
	return roster.SessionMoved{
		Session: s.Session, Worker: worker, Epoch: s.Epoch, StartedEpoch: started, FinishedEpoch: s.FinishedEpoch,
		SnapshotEpoch: s.SnapshotEpoch, TouchedAt: s.TouchedAt,
	}
}
