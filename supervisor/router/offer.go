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
}

// Offered is what the roster accepts of an offer.
func (r *Router) Offered(candidates []messages.Candidate) []*store.Place {
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
// that was accepted by an actor that failed meanwhile.
func (r *Router) Settle(results []SettledPlace) {
	for i := range results {
		result := &results[i]
		pl := messages.Placement{Execution: result.Place.ID, Attempt: 1}
		if r.placing[result.Place.ID] != result.Place {
			if result.OK || result.Unknown {
				r.takeBack(pl, "its router failed", 0)
			}
			continue
		}
		delete(r.placing, result.Place.ID)
		r.step(roster.Placed{ID: result.Place.ID, Attempt: 1, OK: result.OK, ClaimBy: r.Config.Clock.Local(result.ClaimBy)})
		if result.Unknown {
			r.takeBack(pl, "unknown", 0)
		}
	}
}
