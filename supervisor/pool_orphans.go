package supervisor

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
)

// readOrphans looks for placements that an ended router has stored and perhaps never published. Who routes after it, for the
// cluster or for its own workers, may have read them before it was declared dead, and took them for placements on their way.
func (p *Pool) readOrphans(placedBy messages.Incarnation) {
	if p.mode.Mode() == lead.Following {
		return
	}
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		live, err := p.cfg.Store.Live(ctx, p.cfg.Name)
		if err != nil {
			p.cfg.Logger.Warn("placements of an ended router not read; they are taken back when they are overdue", "error", err)
			return nil
		}
		return func() { p.orphansRead(placedBy, live) }
	})
}

// orphansRead takes back those that have not come to their workers.
func (p *Pool) orphansRead(placedBy messages.Incarnation, live []messages.Execution) {
	for i := range live {
		e := &live[i]
		if e.PlacedBy == placedBy && e.Status == messages.Scheduled && !p.arrived(e) {
			p.takeBack(e.Placement(), "router_gone", 0)
		}
	}
}

// arrived reports whether a placement has come to its worker, as far as is known here. Those of nodes that do not follow are
// their own business.
func (p *Pool) arrived(e *messages.Execution) bool {
	pl, inc := e.Placement(), e.Worker.Incarnation
	if inc == p.cfg.Incarnation {
		_, waits := p.held[pl]
		_, runs := p.running[pl]
		return waits || runs
	}
	f := p.followers[inc]
	return f == nil || f.shows.standing(pl) != notHere
}
