package link

import (
	"encoding/json"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/supervisor/part"
)

// Led takes the store's word on who leads; a zero router: nobody. The name is of its node.
func (l *Link) Led(router messages.Incarnation, name string, epoch int64) {
	l.routerName = name
	own := router == l.Config.Incarnation
	if own && l.Draining {
		return // it has resigned, and this was said before
	}
	l.changed(l.mode.Led(l.World.Now(), router, own, epoch))
}

// NodeDown hears that another incarnation has ended.
func (l *Link) NodeDown(inc messages.Incarnation) {
	if _, follows := l.senders[inc]; follows {
		delete(l.senders, inc)
		l.ShowMode()
	}
	l.Wake(false)
	l.changed(l.mode.NodeDown(l.World.Now(), inc))
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
	s := l.Leading()
	l.recordMode(change, &s)
	l.Config.Logger.Info("pool is routed otherwise", "mode", s.Mode.String(), "router", s.Name, "incarnation", s.Router, "epoch", s.Epoch, "why", s.Why)
	l.ShowMode()
}

// recordMode records who routes for this node's workers from now on.
func (l *Link) recordMode(change lead.Change, now *part.Leading) {
	e := messages.JournalEntry{Kind: messages.JournalRouter, Subject: l.Config.Name}
	switch {
	case change.To == lead.Leading:
		e.What = "taken"
	case change.From == lead.Leading:
		e.What, e.Reason = "given_up", now.Why
	case change.To == lead.Alone: // it followed
		e.What, e.Reason = "alone", now.Why
	case change.To == lead.Following: // it was alone, since its start or since an entry that says so
		e.What, e.Reason = "following", now.Name
	default:
		return
	}
	if detail, err := json.Marshal(map[string]any{"node": l.Config.Node, "epoch": now.Epoch}); err == nil {
		e.Detail = detail
	}
	l.Journal(e)
}

// routeHere has a router of this node begin. What stands on the workers it reads in the store.
func (l *Link) routeHere() {
	l.outbox.reset()
	l.router.Start()
	l.Halt()
	l.ShowAll()
	if l.Draining {
		l.router.Resign()
	}
}

// Resign gives up what this node routes. What is on the queues of the other nodes' workers stays there for the next router.
func (l *Link) Resign() {
	l.router.Resign()
	l.changed(l.mode.Resign(l.World.Now()))
	for queue := range l.attached {
		l.Send(l.Config.Delivery, &actors.Detach{Queue: queue})
	}
}

// ShowMode tells the metrics and the tree.
func (l *Link) ShowMode() {
	if l.Config.Hooks.Mode != nil {
		l.Config.Hooks.Mode(l.Config.Name, l.mode.Mode(), len(l.senders))
	}
	if routing := l.Routing(); routing != "" {
		l.workers.ShowRouting(routing)
	}
}

// Routing says who routes, where several nodes share the pool.
func (l *Link) Routing() string {
	if l.Config.Peers == nil {
		return ""
	}
	return l.Leading().String()
}

// Leading describes who routes.
func (l *Link) Leading() part.Leading {
	s := part.Leading{
		Mode: l.mode.Mode(), Since: l.mode.Since(), Name: l.routerName, Followers: len(l.senders), Why: l.mode.Why(),
	}
	s.Router, s.Epoch = l.mode.Router()
	if s.Router.IsZero() {
		s.Name = ""
	}
	return s
}
