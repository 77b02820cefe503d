package router

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// LastBeat is a heartbeat, by this machine's clock, and how often its node writes them.
type LastBeat struct {
	At    time.Time
	Every time.Duration
}

// remoteWorkers are what the router knows of the incarnations that do not report to it: whether they have workers of it, and the workers that sessions are
// bound to there. To the roster such a worker is one that is busy: its sessions' strict executions wait, for the router of its own node places them, until
// the incarnation ends or the store says that the binding has moved.
type remoteWorkers struct {
	workers  map[messages.Incarnation]map[messages.WorkerKey]struct{}
	sessions map[string]messages.WorkerKey
	ended    map[messages.Incarnation]struct{} // ended, as membership told
}

// endedNodesMax bounds the ended incarnations that a router remembers, for answers of the store that were older than the news.
const endedNodesMax = 1000

func newRemoteWorkers() remoteWorkers {
	return remoteWorkers{
		workers:  map[messages.Incarnation]map[messages.WorkerKey]struct{}{},
		sessions: map[string]messages.WorkerKey{},
		ended:    map[messages.Incarnation]struct{}{},
	}
}

// boundElsewhere reports whether the session is bound to a worker of another incarnation that lives, and makes that worker
// known to the roster.
func (r *Router) boundElsewhere(s *store.Session, live map[messages.Incarnation]struct{}) bool {
	inc := s.Worker.Incarnation
	_, lives := live[inc]
	if s.Worker.IsZero() || !lives || r.Ended(inc) {
		delete(r.remote.sessions, s.Session)
		return false
	}
	r.remote.sessions[s.Session] = s.Worker
	known := r.remote.workers[inc]
	if known == nil {
		known = map[messages.WorkerKey]struct{}{}
		r.remote.workers[inc] = known
	}
	if _, there := known[s.Worker]; !there {
		known[s.Worker] = struct{}{}
		r.step(roster.WorkerSeen{Worker: s.Worker, Generation: 1, Starting: true, Active: true})
	}
	return true
}

// standIn is the slot by which the roster knows that another incarnation has workers of the pool. It takes nothing: to
// the roster they are busy for as long as they beat, so that what waits does not fail for want of workers while the
// router of their own node may still place it.
const standIn = messages.Slot(-1)

// dropStandIn forgets the slot that stands for all of a node's workers.
func (r *Router) dropStandIn(inc messages.Incarnation) {
	key := messages.WorkerKey{Incarnation: inc, Pool: r.Config.Name, Slot: standIn}
	if _, there := r.remote.workers[inc][key]; there {
		delete(r.remote.workers[inc], key)
		r.step(roster.WorkerGone{Worker: key})
	}
}

// Elsewhere brings the stand-ins up to date: which other incarnations have workers of the pool, and when those last beat.
func (r *Router) Elsewhere(beats map[messages.Incarnation]LastBeat) {
	if r.resting {
		return
	}
	for inc := range r.remote.workers {
		if beats[inc].At.IsZero() {
			r.dropStandIn(inc)
		}
	}
	for inc, beat := range beats {
		if r.Ended(inc) || r.followers[inc] != nil {
			continue
		}
		key := messages.WorkerKey{Incarnation: inc, Pool: r.Config.Name, Slot: standIn}
		if r.remote.workers[inc] == nil {
			r.remote.workers[inc] = map[messages.WorkerKey]struct{}{}
		}
		r.remote.workers[inc][key] = struct{}{}
		// A pool's cordon holds on every node; whether a worker or a node elsewhere is cordoned is its own router's business.
		r.step(roster.WorkerSeen{
			Worker: key, Generation: 1, Active: !r.cordoned, Grade: health.Healthy, BeatAt: beat.At, BeatEvery: beat.Every,
		})
	}
}

// NodeDown ends the bindings to the workers of an incarnation that has ended: their sessions' next executions are told
// of the loss.
func (r *Router) NodeDown(inc messages.Incarnation) {
	if len(r.remote.ended) >= endedNodesMax {
		clear(r.remote.ended) // by now the store says so too
	}
	r.remote.ended[inc] = struct{}{}
	for session, key := range r.remote.sessions { // before its workers go: their bindings are this router's to end now
		if key.Incarnation == inc {
			delete(r.remote.sessions, session)
		}
	}
	for key := range r.remote.workers[inc] {
		r.step(roster.WorkerGone{Worker: key})
	}
	delete(r.remote.workers, inc)
	r.lose(inc)
	r.readOrphans(inc)
	r.endLeftBindings()
}

// boundWhereNoneReports says that a session is bound to a worker of a node that does not follow, where it lives by a clock that this
// router does not see: what seems idle here is read again.
func (r *Router) boundWhereNoneReports(session string) bool {
	_, there := r.remote.sessions[session]
	return there
}

// liveNodes are the incarnations that nobody has declared dead.
func (r *Router) liveNodes(ctx context.Context) (map[messages.Incarnation]struct{}, error) {
	nodes, err := r.Config.Store.ListNodes(ctx)
	live := make(map[messages.Incarnation]struct{}, len(nodes))
	for i := range nodes {
		if nodes[i].State != store.NodeDead {
			live[nodes[i].Incarnation] = struct{}{}
		}
	}
	return live, err
}
