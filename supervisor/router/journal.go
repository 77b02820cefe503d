package router

import (
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// tellCondition records how the pool's condition changed since the last time.
func (r *Router) tellCondition() {
	if e, changed := r.condition.Take(r.World.Now(), r.Config.Name, r.StoredTime); changed {
		r.Journal(e)
	}
}

// bound records that a placement has bound its session.
func (r *Router) bound(c *store.Place) {
	if u := c.Session; u != nil && u.Bind {
		r.Journal(journal.OfSession(r.Config.Name, u.Session, journal.SessionBound, "", &journal.SessionDetail{
			Epoch: u.Epoch, Incarnation: c.Worker.Incarnation, Slot: c.Worker.Slot, Worker: c.WorkerID, Lost: u.Lost,
		}))
	}
}

// unbound records that a binding has ended.
func (r *Router) unbound(u *roster.Unbind) {
	r.Journal(journal.OfSession(r.Config.Name, u.Session, journal.SessionUnbound, u.Reason, &journal.SessionDetail{
		Epoch: u.Epoch, Incarnation: u.Worker.Incarnation, Slot: u.Worker.Slot,
	}))
}
