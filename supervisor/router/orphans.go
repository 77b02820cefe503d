package router

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
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

// leftBindings says whether the store is asked to end the bindings that ended incarnations have left, and whether to ask again.
type leftBindings struct{ asking, again bool }

// leftPage bounds the bindings of ended incarnations that are ended at once.
const leftPage = 100

// endLeftBindings ends the bindings to workers of incarnations that have ended. Those that the view has read end with their workers. The
// others were made by another router, or were left before this one began, and nobody else ends them.
func (r *Router) endLeftBindings() {
	if r.resting {
		return
	}
	if r.left.asking {
		r.left.again = true
		return
	}
	r.left.asking = true
	term := r.term
	r.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		left, err := r.readLeft(ctx)
		var ended []bool
		if err == nil {
			ended, err = r.endEach(ctx, left)
		}
		return func() {
			some := r.recordEnded(left, ended)
			if r.term == term {
				r.leftEnded(len(left) == leftPage, some, err)
			}
		}
	})
}

// readLeft reads the first of the bindings that ended incarnations have left.
func (r *Router) readLeft(ctx context.Context) ([]roster.Unbind, error) {
	page, err := r.Config.Store.BoundSessions(ctx, store.BoundQuery{Pool: r.Config.Name, Ended: true, Limit: leftPage})
	left := make([]roster.Unbind, len(page))
	for i := range page {
		left[i] = roster.Unbind{Session: page[i].Session, Worker: page[i].Worker, Epoch: page[i].Epoch, Reason: "worker_gone"}
	}
	return left, err
}

// leftEnded goes on where there is more: at once while that ends any, else after a while.
func (r *Router) leftEnded(more, some bool, err error) {
	again := r.left.again
	r.left = leftBindings{}
	switch {
	case err != nil && some: // the store is slow
		r.later(r.RetryAfter(), r.endLeftBindings)
	case err != nil:
		r.Config.Logger.Warn("sessions of ended nodes not unbound, asking again", "error", err)
		r.later(r.RetryAfter(), r.endLeftBindings)
	case more && !some:
		r.later(r.RetryAfter(), r.endLeftBindings)
	case more || again:
		r.endLeftBindings()
	}
}

// arrived reports whether a placement has come to its worker, as far as is known here. Those of nodes that do not follow are
// their own business.
func (r *Router) arrived(e *messages.Execution) bool {
	f := r.followers[e.Worker.Incarnation]
	return f == nil || f.shows.standing(e.Placement()) != notThere
}
