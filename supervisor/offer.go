package supervisor

import (
	"bytes"
	"maps"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/router"
)

// Offer asks a pool's router, before executions are stored, which of them it has a worker free for, so that they are stored
// as placed. Whoever gets placements sends the pool a Settled about all of them, whatever comes of the submission.
type Offer struct {
	candidates []messages.Candidate
	state      atomic.Int32
	answer     chan []*store.Place // holds one
}

// An offer is taken by the pool or withdrawn by whoever made it, never both.
const (
	offerOpen int32 = iota
	offerTaken
	offerWithdrawn
)

// NewOffer offers executions that are new, due, and of no session.
func NewOffer(candidates []messages.Candidate) *Offer {
	return &Offer{candidates: candidates, answer: make(chan []*store.Place, 1)}
}

// Openings are how many executions a pool's router would accept for an offer now. Who wants to offer one takes an opening first, so
// that a router without any is not asked.
type Openings struct{ left atomic.Int32 }

// Take takes as many openings as there are, up to n.
func (o *Openings) Take(n int) int {
	for {
		left := o.left.Load()
		take := min(int(left), n)
		if take <= 0 {
			return 0
		}
		if o.left.CompareAndSwap(left, left-int32(take)) {
			return take
		}
	}
}

// answerMax bounds the wait for a pool that has taken an offer: the pool is handling the offer, or crashed and forgot it.
const answerMax = 10 * time.Second

// Wait returns the placements that the pool makes, in the order of the candidates; none where it does not come to the offer
// within the patience.
func (o *Offer) Wait(patience time.Duration) []*store.Place {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case places := <-o.answer:
		return places
	case <-timer.C:
	}
	if o.state.CompareAndSwap(offerOpen, offerWithdrawn) {
		return nil
	}
	timer.Reset(answerMax)
	select {
	case places := <-o.answer:
		return places
	case <-timer.C:
		return nil
	}
}

// take claims the offer for the pool; false: nobody waits for its answer any more.
func (o *Offer) take() bool { return o.state.CompareAndSwap(offerOpen, offerTaken) }

// Settled says what came of placements that were given for an offer.
type Settled struct{ Results []router.SettledPlace }

// SettleOffer is what a submission has made of the placements.
func SettleOffer(places []*store.Place, submitted []store.Submitted, err error) *Settled {
	m := &Settled{Results: make([]router.SettledPlace, len(places))}
	byID := make(map[messages.ExecutionID]*messages.Execution, len(submitted))
	for i := range submitted {
		byID[submitted[i].Execution.ID] = &submitted[i].Execution
	}
	for i, p := range places {
		r := &m.Results[i]
		r.Place, r.Unknown = p, err != nil
		e := byID[p.ID]
		if err != nil || e == nil || e.Attempt != 1 || e.Worker != p.Worker || e.PlacedBy != p.PlacedBy || e.Generation != p.Generation {
			continue
		}
		switch {
		case e.Status == messages.Running && p.Generation > 0:
			r.OK, r.Execution = true, ownCopy(e)
		case e.Status == messages.Scheduled:
			r.OK, r.ClaimBy = true, e.ClaimBy
		}
	}
	return m
}

// ownCopy is a new execution for its worker. Its caller may change what it has submitted.
func ownCopy(e *messages.Execution) *messages.Execution {
	c := *e
	c.Parameters, c.RequestHash, c.Labels = bytes.Clone(e.Parameters), bytes.Clone(e.RequestHash), maps.Clone(e.Labels)
	return &c
}
