package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// Messages of membership.
type (
	// NodeUp says that another incarnation lives.
	NodeUp struct{ Node store.Node }
	// NodeDown says that another incarnation has been declared dead, or has ended in order.
	NodeDown struct{ Node store.Node }
	// StoreStands says that the store is away, or is back and has this node's heartbeats.
	StoreStands struct{ Away bool }
	// Elsewhere says which other incarnations have workers of the pool, and when those last beat.
	Elsewhere struct {
		Beats map[messages.Incarnation]LastBeat
	}
	// LastBeat is a heartbeat, by this machine's clock, and how often its node writes them.
	LastBeat struct {
		At    time.Time
		Every time.Duration
	}
	// Fenced says that this node may be taken for dead: it stops all work and comes back as a new incarnation.
	Fenced struct{ Why string }
)

// abroad is what the pool knows of the incarnations that do not report to it: whether they have workers of it, and the workers that sessions are
// bound to there. To the roster such a worker is one that is busy: its sessions' strict executions wait, for the router of its own node places them, until
// the incarnation ends or the store says that the binding has moved.
type abroad struct {
	workers  map[messages.Incarnation]map[messages.WorkerKey]struct{}
	sessions map[string]messages.WorkerKey
	down     map[messages.Incarnation]struct{} // ended, as membership told
}

// downMax bounds the ended incarnations that a pool remembers, for answers of the store that were older than the news.
const downMax = 1000

func newAbroad() abroad {
	return abroad{
		workers:  map[messages.Incarnation]map[messages.WorkerKey]struct{}{},
		sessions: map[string]messages.WorkerKey{},
		down:     map[messages.Incarnation]struct{}{},
	}
}

// boundAbroad reports whether the session is bound to a worker of another incarnation that lives, and makes that worker
// known to the roster.
func (p *Pool) boundAbroad(s *store.Session, live map[messages.Incarnation]struct{}) bool {
	inc := s.Worker.Incarnation
	_, lives := live[inc]
	_, ended := p.abroad.down[inc]
	if s.Worker.IsZero() || inc == p.cfg.Incarnation || !lives || ended {
		delete(p.abroad.sessions, s.Session)
		return false
	}
	p.abroad.sessions[s.Session] = s.Worker
	known := p.abroad.workers[inc]
	if known == nil {
		known = map[messages.WorkerKey]struct{}{}
		p.abroad.workers[inc] = known
	}
	if _, there := known[s.Worker]; !there {
		known[s.Worker] = struct{}{}
		p.step(roster.WorkerSeen{Worker: s.Worker, Generation: 1, Starting: true, Active: true})
	}
	return true
}

// standIn is the slot by which the roster knows that another incarnation has workers of the pool. It takes nothing: to
// the roster they are busy for as long as they beat, so that what waits does not fail for want of workers while the
// router of their own node may still place it.
const standIn = messages.Slot(-1)

// elsewhere brings the stand-ins up to date.
func (p *Pool) elsewhere(m *Elsewhere) {
	for inc, known := range p.abroad.workers {
		key := messages.WorkerKey{Incarnation: inc, Pool: p.cfg.Name, Slot: standIn}
		if _, there := known[key]; there && m.Beats[inc].At.IsZero() {
			delete(known, key)
			p.step(roster.WorkerGone{Worker: key})
		}
	}
	for inc, beat := range m.Beats {
		if _, ended := p.abroad.down[inc]; ended || inc == p.cfg.Incarnation || p.followers[inc] != nil {
			continue
		}
		key := messages.WorkerKey{Incarnation: inc, Pool: p.cfg.Name, Slot: standIn}
		if p.abroad.workers[inc] == nil {
			p.abroad.workers[inc] = map[messages.WorkerKey]struct{}{}
		}
		p.abroad.workers[inc][key] = struct{}{}
		// A pool's cordon holds on every node; whether a worker or a node elsewhere is cordoned is its own router's business.
		p.step(roster.WorkerSeen{
			Worker: key, Generation: 1, Active: !p.cordoned, Grade: health.Healthy, BeatAt: beat.At, BeatEvery: beat.Every,
		})
	}
}

// nodeDown ends the bindings to the workers of an incarnation that has ended: their sessions' next executions are told
// of the loss.
func (p *Pool) nodeDown(m *NodeDown) {
	inc := m.Node.Incarnation
	if len(p.abroad.down) >= downMax {
		clear(p.abroad.down) // by now the store says so too
	}
	p.abroad.down[inc] = struct{}{}
	for key := range p.abroad.workers[inc] {
		p.step(roster.WorkerGone{Worker: key})
	}
	delete(p.abroad.workers, inc)
	p.lose(inc)
	for session, key := range p.abroad.sessions {
		if key.Incarnation == inc {
			delete(p.abroad.sessions, session)
		}
	}
	p.readOrphans(inc)
	p.readLosses() // it may have been the boot before this one
	p.step(roster.Wake{})
	p.news(p.mode.NodeDown(p.world.Now(), inc))
}

// bystander reports whether a session is bound abroad, where it lives by a clock that this pool does not see: what
// seems idle here is read again.
func (p *Pool) bystander(session string) bool {
	_, there := p.abroad.sessions[session]
	return there
}

// storeStands passes on how the store stands. What was placed before it went away is not judged by heartbeats that it
// could not take.
func (p *Pool) storeStands(m *StoreStands) { p.step(roster.Store{Away: m.Away}) }

// liveNodes are the incarnations that nobody has declared dead.
func (p *Pool) liveNodes(ctx context.Context) (map[messages.Incarnation]struct{}, error) {
	nodes, err := p.cfg.Store.ListNodes(ctx)
	live := make(map[messages.Incarnation]struct{}, len(nodes))
	for i := range nodes {
		if nodes[i].State != store.NodeDead {
			live[nodes[i].Incarnation] = struct{}{}
		}
	}
	return live, err
}

func isFenced(err error) bool { return errors.Is(err, store.ErrFenced) }
