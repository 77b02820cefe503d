package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// offerPatience is how long a submission waits for the router's word before it is stored without a placement. A router that
// is not busy answers within a tenth of a millisecond.
const offerPatience = 2 * time.Millisecond

// offers are what a submission has offered to routers, and what they made of it.
type offers []offered

type offered struct {
	router *actor.PID
	offer  *supervisor.Offer
	placed []*store.Place
}

// places are the placements of all offers.
func (o offers) places() (all []*store.Place) {
	for i := range o {
		all = append(all, o[i].placed...)
	}
	return all
}

// offer asks the routers which of the executions they have idle workers for: as many as they have said that they have. What is not
// plain, or comes in bulk, is not offered: it is placed once it is stored.
func (s *submissions) offer(executions []messages.Execution) offers {
	if len(executions) > arrivedMax {
		return nil
	}
	byPool := map[string][]messages.Candidate{}
	for i := range executions {
		if e := &executions[i]; e.IdempotencyKey == "" && e.RunAt.IsZero() && plain(e) {
			byPool[e.Pool] = append(byPool[e.Pool], candidateOf(e))
		}
	}
	var made offers
	for name, candidates := range byPool {
		pool := s.pools.of(name)
		if pool == nil {
			continue
		}
		openings := pool.openings.Take(len(candidates))
		if openings == 0 {
			continue
		}
		slices.SortStableFunc(candidates, func(x, y messages.Candidate) int { return cmp.Compare(y.Priority, x.Priority) })
		o := supervisor.NewOffer(candidates[:openings])
		made = append(made, offered{router: pool.pid, offer: o})
		s.system.Send(pool.pid, o)
	}
	for i := range made {
		made[i].placed = made[i].offer.Wait(offerPatience)
	}
	return made
}

// settle tells the routers what came of the placements that they gave.
func (s *submissions) settle(made offers, submitted []store.Submitted, err error) {
	for i := range made {
		if o := &made[i]; len(o.placed) > 0 {
			s.system.Send(o.router, supervisor.SettleOffer(o.placed, submitted, err))
		}
	}
}
