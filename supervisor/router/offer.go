package router

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// SettledPlace says what came of a placement that was given for an offer. Unknown: its submission may or may not have come about.
type SettledPlace struct {
	Place       *store.Place
	OK, Unknown bool
	ClaimBy     time.Time
	Execution   *messages.Execution // where it is stored with its claim
}

// Offered is what the roster accepts of an offer. A node whose lease is about to run out claims nothing.
func (r *Router) Offered(candidates []messages.Candidate) []*store.Place {
	if r.Config.Direct && !r.WorkerConfig.Lease.MayClaim() {
		return nil
	}
	r.accepted = nil
	r.step(roster.Offered{Candidates: candidates})
	accepted := r.accepted
	r.accepted = nil
	return accepted
}

// accept notes the placements that the roster makes for an offer.
func (r *Router) accept(e roster.Accept) {
	for i := range e.Assignments {
		change := r.placement(&e.Assignments[i])
		r.placing[change.ID] = change
		r.accepted = append(r.accepted, change)
	}
	r.countPlaced(e.Assignments)
}

// Settle tells the roster what came of what it has accepted. A placement that nobody is sure of is taken back, and so is one
// that was accepted by an actor that failed meanwhile. What was stored with its claim goes to its worker, whoever routes by now.
func (r *Router) Settle(results []SettledPlace) {
	for i := range results {
		result := &results[i]
		id := result.Place.ID
		mine := r.placing[id] == result.Place
		if mine {
			delete(r.placing, id)
			r.step(roster.Placed{ID: id, Attempt: 1, OK: result.OK, ClaimBy: r.Config.Clock.Local(result.ClaimBy)})
		}
		claim, carried := result.Place.AsStored().(*store.Claim)
		pl := messages.Placement{Execution: id, Attempt: 1}
		switch {
		case carried && result.OK:
			r.link.Take(claim, result.Execution)
		case carried && result.Unknown:
			r.link.Recall(claim)
		case carried:
		case result.Unknown && mine:
			r.takeBack(pl, "unknown", 0)
		case !mine && (result.OK || result.Unknown):
			r.takeBack(pl, "its router failed", 0)
		}
	}
}
