package supervisor

import (
	"fmt"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
)

// led takes the store's word on who leads.
func (l *Link) led(m *Led) {
	l.routerName = m.Name
	own := m.Router == l.cfg.Incarnation
	if own && l.draining {
		return // it has resigned, and this was said before
	}
	l.changed(l.mode.Led(l.world.Now(), m.Router, own, m.Epoch))
}

// nodeDown hears that another incarnation has ended.
func (l *Link) nodeDown(inc messages.Incarnation) {
	if _, follows := l.senders[inc]; follows {
		delete(l.senders, inc)
		l.showMode()
	}
	l.wake(&Wake{})
	l.changed(l.mode.NodeDown(l.world.Now(), inc))
}

// changed carries out a change of the mode, where there was one: the workers of this node are reported to another router.
func (l *Link) changed(change lead.Change) {
	if change.From == change.To {
		return
	}
	switch {
	case change.To == lead.Following:
		l.router.Rest()
	case change.From == lead.Following:
		l.routeHere()
	case change.From == lead.Leading:
		for inc := range l.senders {
			l.dropFollower(inc)
		}
	}
	s := l.leading()
	l.cfg.Logger.Info("pool is routed otherwise", "mode", s.Mode, "router", s.Name, "incarnation", s.Router, "epoch", s.Epoch, "why", s.Why)
	l.showMode()
}

// routeHere has a router of this node begin. What stands on the workers it reads in the store.
func (l *Link) routeHere() {
	l.outbox.reset()
	l.router.Start()
	l.Halt()
	l.ShowAll()
	if l.draining {
		l.router.Resign()
	}
}

// resign gives up what this node routes. What is on the queues of the other nodes' workers stays there for the next router.
func (l *Link) resign() {
	l.router.Resign()
	l.changed(l.mode.Resign(l.world.Now()))
	for queue := range l.attached {
		l.send(l.cfg.Delivery, &actors.Detach{Queue: queue})
	}
}

// showMode tells the metrics and the tree.
func (l *Link) showMode() {
	if l.cfg.Hooks.Mode != nil {
		l.cfg.Hooks.Mode(l.cfg.Name, l.mode.Mode(), len(l.senders))
	}
	if routing := l.Routing(); routing != "" {
		l.workers.ShowRouting(routing)
	}
}

// Routing says who routes, where several nodes share the pool.
func (l *Link) Routing() string {
	if l.cfg.Peers == nil {
		return ""
	}
	return l.leading().String()
}

// leading describes who routes.
func (l *Link) leading() Leading {
	s := Leading{
		Mode: l.mode.Mode(), Since: l.mode.Since(), Name: l.routerName, Followers: len(l.senders), Why: l.mode.Why(),
	}
	s.Router, s.Epoch = l.mode.Router()
	if s.Router.IsZero() {
		s.Name = ""
	}
	return s
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
