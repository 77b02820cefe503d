package supervisor

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
)

// led takes the store's word on who leads.
func (p *Pool) led(m *Led) {
	p.router = m.Name
	own := m.Router == p.cfg.Incarnation
	if own && p.draining != nil {
		return // it has resigned, and this was said before
	}
	p.news(p.mode.Led(p.world.Now(), m.Router, own, m.Epoch))
}

// news carries out a change of the mode, where there was one.
func (p *Pool) news(change lead.Change) {
	if change.From == change.To {
		return
	}
	switch {
	case change.To == lead.Following:
		p.follow()
	case change.From == lead.Following:
		p.routeAgain()
	case change.From == lead.Leading:
		p.letAllGo()
	}
	l := p.leading()
	p.cfg.Logger.Info("pool is routed otherwise", "mode", l.Mode, "router", l.Name, "incarnation", l.Router, "epoch", l.Epoch, "why", l.Why)
	p.showMode()
}

// showMode tells the metrics and the tree.
func (p *Pool) showMode() {
	if p.cfg.Hooks.Mode != nil {
		p.cfg.Hooks.Mode(p.cfg.Name, p.mode.Mode(), len(p.followers))
	}
	if p.cfg.Peers != nil && p.tracker.State() != restart.Broken {
		p.cell.Update(func(s *actors.Status) { s.Why = p.leading().String() })
	}
}

// leading describes who routes.
func (p *Pool) leading() Leading {
	l := Leading{
		Mode: p.mode.Mode(), Since: p.mode.Since(), Name: p.router, Followers: len(p.followers), Why: p.mode.Why(),
	}
	l.Router, l.Epoch = p.mode.Router()
	if l.Router.IsZero() {
		l.Name = ""
	}
	return l
}

// String tells a person.
func (l Leading) String() string {
	switch {
	case l.Mode == lead.Leading:
		return fmt.Sprintf("routes for the cluster, term %d; %d other nodes follow", l.Epoch, l.Followers)
	case l.Mode == lead.Following:
		return fmt.Sprintf("follows the router on node %s, term %d", l.Name, l.Epoch)
	case l.Router.IsZero():
		return "routes for its own workers"
	case l.Why == "":
		return fmt.Sprintf("routes for its own workers; node %s leads, term %d", l.Name, l.Epoch)
	}
	return fmt.Sprintf("routes for its own workers, for it cannot follow node %s: %s", l.Name, l.Why)
}

// leadTick lets time pass for the modes.
func (p *Pool) leadTick(now time.Time) {
	p.news(p.mode.Tick(now))
	for inc, f := range p.followers {
		if now.Sub(f.heard) >= max(p.cfg.Patience, lead.Patience) {
			p.cfg.Logger.Warn("follower is silent: its workers leave the router's view", "incarnation", inc)
			p.letGo(inc)
		}
	}
}

// resign gives up what this node routes. What is on the queues of the other nodes' workers stays there for the next
// router.
func (p *Pool) resign() {
	p.step(roster.Resigned{Own: p.cfg.Incarnation})
	p.news(p.mode.Resign(p.world.Now()))
}

// handedOn reports whether nothing of a drained pool is left to be settled with the store.
func (p *Pool) handedOn() bool {
	if p.mode.Mode() == lead.Following {
		return len(p.returning) == 0
	}
	return p.roster.Drained()
}

// follow stops routing: what this node has placed stands on its workers' queues, where the router learns of it, and what is
// being placed is taken back when the store answers.
func (p *Pool) follow() {
	stopTimer(p.sleep)
	p.sleep, p.sleepAt = nil, time.Time{}
	clear(p.placing)
	p.newRoster()
}

// routeAgain begins to route for this node's own workers: what stands on them the store knows.
func (p *Pool) routeAgain() {
	p.feed.reset()
	p.newRoster()
	p.halt()
	for _, s := range p.slots {
		p.seen(s)
	}
	p.takeOver()
	if p.draining != nil {
		p.step(roster.Resigned{Own: p.cfg.Incarnation})
	}
}

// newRoster forgets who is elsewhere too, but not who has ended.
func (p *Pool) newRoster() {
	before := p.roster
	p.roster = roster.New(p.cfg.Roster)
	p.roster.Remember(before)
	down := p.abroad.down
	p.abroad = newAbroad()
	p.abroad.down = down
}

// why says why an execution is not running, or who knows.
func (p *Pool) why(id messages.ExecutionID) WhyAnswer {
	if p.mode.Mode() != lead.Following {
		answer := WhyAnswer{Reason: p.roster.Why(p.world.Now(), id)}
		if answer.Reason == roster.PoolBroken {
			answer.Detail, _ = p.brokenWhy()
		}
		return answer
	}
	router, _ := p.mode.Router()
	return WhyAnswer{Reason: roster.NotLoaded, Router: router}
}

// waiting is how much work waits for workers.
func (p *Pool) waiting() int {
	if p.mode.Mode() == lead.Following {
		return p.feed.waiting
	}
	return p.roster.Waiting()
}

// idle counts the workers that could take work and have none.
func (p *Pool) idle() (count int) {
	busy := map[messages.Slot]struct{}{}
	for _, n := range p.running {
		busy[n] = struct{}{}
	}
	for _, h := range p.held {
		busy[h.slot] = struct{}{}
	}
	for _, s := range p.slots {
		if _, has := busy[s.number]; !has && s.cur != nil && s.cur.ready && !s.retiring && s.cur.state == lifecycle.Ready {
			count++
		}
	}
	return count
}
