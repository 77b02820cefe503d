package router

import (
	"encoding/json"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// tellCondition records how the pool's condition changed since the last time.
func (r *Router) tellCondition() {
	if e, changed := r.condition.Take(r.World.Now(), r.Config.Name, r.StoredTime); changed {
		r.Journal(e)
	}
}

// sessionDetail is what the journal says of a binding.
type sessionDetail struct {
	Epoch       int64                `json:"epoch"`
	Incarnation messages.Incarnation `json:"incarnation"`
	Slot        messages.Slot        `json:"slot"`
	Worker      messages.WorkerID    `json:"worker,omitempty"`
	Lost        bool                 `json:"lost,omitempty"` // the run was told that state was lost
}

func (r *Router) sessionEntry(session, what, reason string, d sessionDetail) {
	e := messages.JournalEntry{Kind: messages.JournalSession, Subject: r.Config.Name + "/" + session, What: what, Reason: reason}
	if detail, err := json.Marshal(d); err == nil {
		e.Detail = detail
	}
	r.Journal(e)
}

// bound records that a placement has bound its session.
func (r *Router) bound(c *store.Place) {
	if u := c.Session; u != nil && u.Bind {
		r.sessionEntry(u.Session, "bound", "", sessionDetail{
			Epoch: u.Epoch, Incarnation: c.Worker.Incarnation, Slot: c.Worker.Slot, Worker: c.WorkerID, Lost: u.Lost,
		})
	}
}

// unbound records that a binding has ended.
func (r *Router) unbound(u *roster.Unbind) {
	r.sessionEntry(u.Session, "unbound", u.Reason, sessionDetail{Epoch: u.Epoch, Incarnation: u.Worker.Incarnation, Slot: u.Worker.Slot})
}
