package router

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// readPool reads what is placed, then the pool's bound sessions, then which nodes live. Of the other sessions the store is
// asked once they are used: it refuses a placement that does not know the epoch. So a run that is not placed any more has ended in
// what is read of its session, and a node that something is bound to is listed, or has ended.
func (r *Router) readPool(ctx context.Context) (*poolRead, error) {
	read := &poolRead{}
	var err error
	if read.live, err = r.Config.Store.Live(ctx, r.Config.Name); err != nil {
		return nil, err
	}
	more, err := part.EachBound(ctx, r.Config.Store, store.BoundQuery{Pool: r.Config.Name}, func(page []store.Session) error {
		read.sessions = append(read.sessions, page...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if more {
		r.Config.Logger.Warn("more sessions are bound than a router loads; the others are read when they are used", "sessions", len(read.sessions))
	}
	read.nodes, err = r.liveNodes(ctx)
	return read, err
}

// poolRead is what has been read of the pool.
type poolRead struct {
	live     []messages.Execution
	sessions []store.Session
	nodes    map[messages.Incarnation]struct{} // that live
}

// takeOver reads what the store holds of the pool: the sessions, and what stands on the workers whose reports come in step with
// them. What stands on the others is read once they have reported.
func (r *Router) takeOver() {
	r.reads.begin()
	r.ask(part.StoreTimeout, func(ctx context.Context) func() {
		read, err := r.readPool(ctx)
		if err == nil {
			return func() { r.takenOver(read) }
		}
		r.Config.Logger.Warn("pool state not read, reading again", "error", err)
		return func() { r.later(r.RetryAfter(), r.takeOverAgain) }
	})
}

// takeOverAgain repeats the questions of a take-over that the store did not answer.
func (r *Router) takeOverAgain() {
	r.reads.end(nil, nil)
	r.takeOver()
}

func (r *Router) takenOver(read *poolRead) {
	live, doubted := r.reads.end(read.sessions, read.live)
	r.link.ShowAll() // what was read is compared with how things stand now
	r.sessionsRead(read, false)
	for i := range live {
		if f := r.followers[live[i].Worker.Incarnation]; f != nil && f.exact {
			r.adopt(&live[i], read.nodes, f)
		}
	}
	r.Doubt(doubted...)
	r.step(roster.Wake{})
}

// sessionsRead tells the roster what the store holds for sessions; asked: in answer to it.
func (r *Router) sessionsRead(read *poolRead, asked bool) {
	for i := range read.sessions {
		s := &read.sessions[i]
		if !asked && s.Epoch < r.roster.Epoch(s.Session) {
			continue // a newer binding was made after this was read
		}
		worker, started := s.Worker, s.StartedEpoch
		switch {
		case r.follows(worker) || r.exact(worker.Incarnation): // where that does not show the worker, the roster ends the binding
			delete(r.remote.sessions, s.Session)
		case !r.boundElsewhere(s, read.nodes):
			worker = messages.WorkerKey{} // its node is gone
		case started == 0:
			started = s.Epoch // it may begin there at any time, and this router does not hear of it
		}
		moved := movedOf(s, worker, started)
		moved.Asked = asked
		r.step(moved)
	}
}

// reloadBound asks which sessions are bound to the workers of a node that has left.
func (r *Router) reloadBound(inc messages.Incarnation) {
	r.ask(part.StoreTimeout, func(ctx context.Context) func() {
		read, err := r.readPool(ctx)
		if err != nil {
			r.Config.Logger.Warn("sessions of a node that routes for itself not read", "incarnation", inc, "error", err)
			return nil // they are read when they are next asked for
		}
		read.sessions = slices.DeleteFunc(read.sessions, func(s store.Session) bool { return s.Worker.Incarnation != inc })
		return func() { r.sessionsRead(read, false) }
	})
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// readFollower reads what the store has of a follower's workers: the sessions that are bound there, and what stands on them, which
// others may have placed.
func (r *Router) readFollower(from messages.Incarnation, f *follower) {
	if f.reading {
		return
	}
	f.reading, f.readAt = true, r.World.Now()
	r.reads.begin()
	r.ask(part.StoreTimeout, func(ctx context.Context) func() {
		read, err := r.readPool(ctx)
		if err != nil {
			r.Config.Logger.Warn("a follower's workers not read, reading again with its next report", "incarnation", from, "error", err)
			read = nil
		}
		return func() { r.followerRead(from, read) }
	})
}

// followerRead lets a follower's workers take work; nil: the store has not said.
func (r *Router) followerRead(from messages.Incarnation, read *poolRead) {
	if read == nil {
		r.reads.end(nil, nil)
		if f := r.followers[from]; f != nil {
			f.reading = false
		}
		return
	}
	live, doubted := r.reads.end(read.sessions, read.live)
	f := r.followers[from]
	if f == nil {
		return
	}
	f.reading = false
	for i := range read.sessions {
		if s := &read.sessions[i]; s.Worker.Incarnation == from && (!f.settled || s.Epoch > r.roster.Epoch(s.Session)) {
			delete(r.remote.sessions, s.Session)
			r.step(movedOf(s, s.Worker, s.StartedEpoch))
		}
	}
	for i := range live {
		if live[i].Worker.Incarnation == from {
			r.adopt(&live[i], read.nodes, f)
		}
	}
	r.Doubt(doubted...)
	if !f.settled {
		r.settleFollower(from, f)
	}
}

// settleFollower lets the workers of a follower take work.
func (r *Router) settleFollower(from messages.Incarnation, f *follower) {
	f.settled = true
	for key := range r.remote.workers[from] {
		if _, known := f.workers[key.Slot]; !known {
			r.step(roster.WorkerGone{Worker: key})
		}
	}
	delete(r.remote.workers, from)
	for _, n := range slotsOf(f.waiting) {
		r.showWorker(f, f.waiting[n])
	}
	f.waiting = nil
	r.Config.Logger.Info("node follows", "incarnation", from, "workers", len(f.workers))
}

// adopt makes the roster know of a placement that it has not made, on a worker that it knows. One that was placed by an
// incarnation that has ended, and has not come to its worker, was perhaps never published: it is taken back.
func (r *Router) adopt(e *messages.Execution, live map[messages.Incarnation]struct{}, f *follower) {
	pl := e.Placement()
	at := f.shows.standing(pl)
	if _, lives := live[e.PlacedBy]; e.Status == messages.Scheduled && at == notThere && !lives {
		r.takeBack(pl, "router_gone", 0)
		return
	}
	runs := e.Status.Started()
	if f.exact {
		if runs && at == notThere {
			return // it has ended meanwhile, or it was lost: its node tells
		}
		runs = at == runsThere
	}
	r.step(roster.Holding{
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
