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

// offersMax is how many submissions may be made at once of which any is offered. An offer saves a transaction before the
// start, which is what a caller alone waits for; where many submit at once they share that transaction, and offering each
// by itself would cost more than it saves (docs/lab/benchmarks-history.md).
const offersMax = 5

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

// offer asks the routers which of the executions they have workers free for. What is not plain, or comes in bulk, is not
// offered: it is placed once it is stored.
func (s *submissions) offer(executions []messages.Execution) offers {
	if len(executions) > arrivedMax || s.underway.Load() > offersMax {
		return nil
	}
	byPool := map[string][]messages.Candidate{}
	for i := range executions {
		if e := &executions[i]; e.IdempotencyKey == "" && e.RunAt.IsZero() && plain(e) {
			byPool[e.Pool] = append(byPool[e.Pool], candidateOf(e))
		}
	}
	var made offers
	for pool, candidates := range byPool {
		slices.SortStableFunc(candidates, func(x, y messages.Candidate) int { return cmp.Compare(y.Priority, x.Priority) })
		if pid := s.pools.pid(pool); pid != nil {
			o := supervisor.NewOffer(candidates)
			made = append(made, offered{router: pid, offer: o})
			s.system.Send(pid, o)
		}
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
