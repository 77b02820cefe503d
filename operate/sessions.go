package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// sessions answers about sessions, and ends their bindings.
type sessions struct {
	cfg   *Config
	calls *Calls
}

// Sessions returns a page of the sessions behind one, by pool and name.
func (s *sessions) Sessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error) {
	return s.cfg.Store.ListSessions(ctx, f, after, limit)
}

// Session returns one session, and what runs in it.
func (s *sessions) Session(ctx context.Context, pool, name string) (view.Session, error) {
	if shut := s.cfg.Self.Gate(); shut != nil {
		return view.Session{}, shut
	}
	row, err := s.cfg.Store.GetSession(ctx, pool, name)
	if err != nil {
		return view.Session{}, found("session", pool+"/"+name, err)
	}
	v := view.Session{Session: row}
	if v.Execution, err = s.inSession(ctx, pool, name); err != nil {
		return v, err
	}
	lives, err := s.lives(ctx, row.Worker.Incarnation)
	v.Affinity = affinity(&v, lives, s.cfg.Clock.Since(row.TouchedAt) >= s.cfg.SessionTimeout)
	return v, err
}

// affinity says what a lookup of the session's worker would answer. A worker whose node has ended is none, also before its pool's router
// has ended the binding. A session that something is placed in, or runs in, does not idle out.
func affinity(of *view.Session, lives, idle bool) string {
	switch {
	case of.Worker.IsZero() || !lives:
		return view.NoAffinity
	case of.Execution.IsZero() && idle:
		return view.AffinityExpired
	}
	return view.AffinityBound
}

// lives reports whether an incarnation has not ended. One that had workers is listed while it lives.
func (s *sessions) lives(ctx context.Context, inc messages.Incarnation) (bool, error) {
	if inc.IsZero() || inc == s.cfg.Incarnation {
		return !inc.IsZero(), nil
	}
	nodes, err := s.cfg.Store.ListNodes(ctx)
	return slices.ContainsFunc(nodes, func(n store.Node) bool { return n.Incarnation == inc && n.State != store.NodeDead }), err
}

// inSession is what is placed or runs in a session; zero: nothing. What is placed and runs in a pool is bounded by its
// workers, so reading it all costs no more than a take-over of the pool.
func (s *sessions) inSession(ctx context.Context, pool, name string) (messages.ExecutionID, error) {
	live, err := s.cfg.Store.Live(ctx, pool)
	for i := range live {
		if live[i].Session == name {
			return live[i].ID, nil
		}
	}
	return messages.ExecutionID{}, err
}

// asideMax bounds the states that a list has.
const asideMax = 1000

// SessionStates returns the states that were set aside, the newest first.
func (s *sessions) SessionStates(ctx context.Context) ([]store.AsideState, error) {
	return s.cfg.Store.AsideStates(ctx, asideMax)
}

// SessionState returns what is stored of a session's state.
func (s *sessions) SessionState(ctx context.Context, pool, name string) (view.SessionState, error) {
	v := view.SessionState{Pool: pool, Session: name}
	trouble, err := s.cfg.Store.StateTrouble(ctx, pool, name)
	if err != nil {
		return v, err
	}
	v.Tries, v.TriedOn, v.TriedAt, v.Aside = trouble.Tries, trouble.TriedOn, trouble.TriedAt, trouble.Aside
	v.State, v.Epoch, err = s.cfg.Store.Snapshot(ctx, pool, name)
	if errors.Is(err, store.ErrNotFound) && v.Aside != nil {
		err = nil
	}
	return v, found("stored state of session", pool+"/"+name, err)
}

// DropSessionState deletes what is stored of a session's state.
func (s *sessions) DropSessionState(ctx context.Context, pool, name, by string) error {
	had, err := s.cfg.Store.DropState(ctx, pool, name)
	if err == nil && !had {
		err = store.ErrNotFound
	}
	if err != nil {
		return found("stored state of session", pool+"/"+name, err)
	}
	s.cfg.Logger.Info("session's stored state is dropped by an operator", "pool", pool, "session", name, "by", by)
	s.cfg.did(ctx, "drop_session_state", pool+"/"+name, by)
	return nil
}

// EndSession ends an idle session's binding, deletes its stored state, and returns the session without them. The row is changed first. Then the router of the
// session is told to read it, and tells its worker. That message may be lost: the router then learns of the end from the row when it
// places the session's next execution. An execution that begins between the look and the change runs to its end, and the next is
// told of the loss.
func (s *sessions) EndSession(ctx context.Context, pool, name, by string) (view.Session, error) {
	v, err := s.Session(ctx, pool, name)
	if err != nil {
		return v, err
	}
	if !v.Execution.IsZero() {
		return v, sessionBusy(&v, fmt.Sprintf("execution %s is placed or runs in it; end the session when that has ended, or cancel it first", v.Execution))
	}
	if _, err := s.cfg.Store.DropState(ctx, pool, name); err != nil {
		return v, err
	}
	v.SnapshotEpoch, v.SnapshotRuns = 0, 0
	if v.Worker.IsZero() {
		return v, nil // it has ended already
	}
	binding := store.Binding{Pool: pool, Session: name, Epoch: v.Epoch, Worker: v.Worker}
	n, err := s.cfg.Store.Unbind(ctx, []store.Binding{binding})
	switch {
	case err != nil:
		return v, err
	case n == 0:
		return v, sessionBusy(&v, "it was bound anew meanwhile; try again")
	}
	s.cfg.Logger.Info("session is ended by an operator", "pool", pool, "session", name, "epoch", v.Epoch, "by", by)
	s.cfg.did(ctx, "end_session", pool+"/"+name, by)
	s.ended(ctx, &binding, by)
	s.tellEnded(ctx, &binding)
	v.Worker, v.Affinity = messages.WorkerKey{}, view.NoAffinity
	return v, nil
}

// ended records that a binding has ended because somebody ended its session. A router records only the bindings that it ends itself.
func (s *sessions) ended(ctx context.Context, b *store.Binding, by string) {
	if s.cfg.Journal == nil {
		return
	}
	reason := "end_session"
	if why := view.ReasonOf(ctx); why != "" {
		reason += ": " + why
	}
	e := journal.OfSession(b.Pool, b.Session, journal.SessionUnbound, reason, &journal.SessionDetail{
		Epoch: b.Epoch, Incarnation: b.Worker.Incarnation, Slot: b.Worker.Slot,
	})
	e.Caller = by
	s.cfg.Journal(e)
}

func sessionBusy(v *view.Session, why string) error {
	p := messages.Problemf(messages.CodeSessionBusy, "session %s of pool %s is not idle: %s", v.Session.Session, v.Pool, why)
	if !v.Execution.IsZero() {
		p.Details = map[string]any{"execution": v.Execution}
	}
	return p
}

// tellEnded tells the pool's router, and the node of the worker, which routes for itself while it does not reach that.
func (s *sessions) tellEnded(ctx context.Context, ended *store.Binding) {
	tell := wire.EndSession{Pool: ended.Pool, Slot: ended.Worker.Slot, Session: ended.Session, Epoch: ended.Epoch}
	s.cfg.Pools.Tell(ended.Pool, &supervisor.PeerEndSession{From: s.cfg.Incarnation, Tell: tell})
	if s.calls.nodes.network == nil {
		return
	}
	others := map[messages.Incarnation]struct{}{ended.Worker.Incarnation: {}}
	routers, err := s.cfg.Store.Routers(ctx)
	if err != nil {
		s.cfg.Logger.Debug("router of an ended session not known", "pool", ended.Pool, "error", err)
	}
	for i := range routers {
		if routers[i].Pool == ended.Pool {
			others[routers[i].Incarnation] = struct{}{}
		}
	}
	for inc := range others {
		if inc != s.cfg.Incarnation && !inc.IsZero() {
			s.calls.hint(inc, messages.Placement{}, tell)
		}
	}
}
