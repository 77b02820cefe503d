package router

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/part"
)

// readOrphans looks for placements that an ended router has stored and perhaps never published. Who routes after it, for the
// cluster or for its own workers, may have read them before it was declared dead, and took them for placements on their way.
func (r *Router) readOrphans(placedBy messages.Incarnation) {
	if r.resting {
		return
	}
	r.ask(part.StoreTimeout, func(ctx context.Context) func() {
		live, err := r.Config.Store.Live(ctx, r.Config.Name)
		if err != nil {
			r.Config.Logger.Warn("placements of an ended router not read; they are taken back when they are overdue", "error", err)
			return nil
		}
		return func() { r.orphansRead(placedBy, live) }
	})
}

// orphansRead takes back those that have not come to their workers.
func (r *Router) orphansRead(placedBy messages.Incarnation, live []messages.Execution) {
	r.link.ShowAll() // what was read is compared with how things stand now
	for i := range live {
		e := &live[i]
		if e.PlacedBy == placedBy && e.Status == messages.Scheduled && !r.arrived(e) {
			r.takeBack(e.Placement(), "router_gone", 0)
		}
	}
}

// arrived reports whether a placement has come to its worker, as far as is known here. Those of nodes that do not follow are
// their own business.
func (r *Router) arrived(e *messages.Execution) bool {
	f := r.followers[e.Worker.Incarnation]
	return f == nil || f.shows.standing(e.Placement()) != notThere
}
