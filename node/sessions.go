package node

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// Sessions implements api.Backend.
func (b backend) Sessions(ctx context.Context, pool, after string, boundOnly bool, limit int) ([]store.Session, error) {
	return b.store.ListSessions(ctx, pool, after, boundOnly, limit)
}

// Session implements api.Backend.
func (b backend) Session(ctx context.Context, pool, name string) (api.SessionView, error) {
	if shut := b.gate(); shut != nil {
		return api.SessionView{}, shut
	}
	s, err := b.store.GetSession(ctx, pool, name)
	if err != nil {
		return api.SessionView{}, found("session", pool+"/"+name, err)
	}
	id, err := b.inSession(ctx, pool, name)
	return api.SessionView{Session: s, Execution: id, Affinity: b.affinity(&s, id)}, err
}

// affinity says what a lookup of the session's worker would answer.
func (b backend) affinity(s *store.Session, runs messages.ExecutionID) string {
	switch {
	case s.Worker.IsZero():
		return api.NoAffinity
	case runs.IsZero() && b.clock.Since(s.TouchedAt) >= b.cfg.SessionTimeout:
		return api.AffinityExpired
	}
	return api.AffinityBound
}

// inSession is what is placed or runs in a session; zero: nothing. What is placed and runs in a pool is bounded by its
// workers, so reading it all costs no more than a take-over of the pool.
func (b backend) inSession(ctx context.Context, pool, name string) (messages.ExecutionID, error) {
	live, err := b.store.Live(ctx, pool)
	for i := range live {
		if live[i].Session == name {
			return live[i].ID, nil
		}
	}
	return messages.ExecutionID{}, err
}

// EndSession implements api.Backend. The row is changed first; then whoever routes for the session is told to read it, and
// tells its worker. That word may be lost: the router then learns of it from the row when it places the session's next
// execution. An execution that begins between the look and the change runs to its end, and the next is told of the loss.
func (b backend) EndSession(ctx context.Context, pool, name, by string) (api.SessionView, error) {
	view, err := b.Session(ctx, pool, name)
	if err != nil {
		return view, err
	}
	if !view.Execution.IsZero() {
		return view, sessionBusy(&view, fmt.Sprintf("execution %s is placed or runs in it; end the session when that has ended, or cancel it first", view.Execution))
	}
	if view.Worker.IsZero() {
		return view, nil // it has ended already
	}
	binding := store.Binding{Pool: pool, Session: name, Epoch: view.Epoch, Worker: view.Worker}
	n, err := b.store.Unbind(ctx, []store.Binding{binding})
	switch {
	case err != nil:
		return view, err
	case n == 0:
		return view, sessionBusy(&view, "it was bound anew meanwhile; try again")
	}
	b.logger.Info("session is ended by an operator", "pool", pool, "session", name, "epoch", view.Epoch, "by", by)
	b.tellSessionEnded(ctx, &binding)
	view.Worker, view.Affinity = messages.WorkerKey{}, api.NoAffinity
	return view, nil
}

func sessionBusy(v *api.SessionView, why string) error {
	p := messages.Problemf(messages.CodeSessionBusy, "session %s of pool %s is not idle: %s", v.Session.Session, v.Pool, why)
	if !v.Execution.IsZero() {
		p.Details = map[string]any{"execution": v.Execution}
	}
	return p
}

// tellSessionEnded tells the pool's router, and the node of the worker, which routes for itself while it does not reach that.
func (n *Node) tellSessionEnded(ctx context.Context, ended *store.Binding) {
	tell := wire.EndSession{Pool: ended.Pool, Slot: ended.Worker.Slot, Session: ended.Session, Epoch: ended.Epoch}
	n.pools.Tell(ended.Pool, &supervisor.PeerEndSession{From: n.incarnation, Tell: tell})
	if n.peers == nil {
		return
	}
	others := map[messages.Incarnation]struct{}{ended.Worker.Incarnation: {}}
	routers, err := n.store.Routers(ctx)
	if err != nil {
		n.logger.Debug("router of an ended session not known", "pool", ended.Pool, "error", err)
	}
	for i := range routers {
		if routers[i].Pool == ended.Pool {
			others[routers[i].Incarnation] = struct{}{}
		}
	}
	for inc := range others {
		if inc != n.incarnation && !inc.IsZero() {
			n.hint(inc, messages.Placement{}, tell)
		}
	}
}
