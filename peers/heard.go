package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/membership"
)

// probe asks a peer whether it renews its lease. An error means that it did not answer.
func (n *Network) probe(ctx context.Context, to messages.Incarnation) (renews bool, err error) {
	reply, err := n.AskAgain(ctx, to, messages.Placement{}, wire.Probe{})
	if err != nil {
		return false, err
	}
	result, ok := reply.(wire.ProbeResult)
	if !ok {
		return false, ErrUnsupported
	}
	n.said(to, result.StoreSeen)
	return result.StoreSeen, nil
}

// refuseTime bounds the question whether an address refuses connections; the rest of a Heard is for the answer.
const refuseTime = 200 * time.Millisecond

// hearing is what came of the question to one incarnation.
type hearing struct {
	renews    bool
	ended     bool // its address refuses connections, so that it counts no more
	uncounted bool // it counts only now that it answers
	err       error
}

// Heard asks all these incarnations concurrently whether they renew their lease, until ctx ends. It counts only those
// that can be asked: one without an address shows nothing. It returns once one renews, because the others then do not
// matter.
func (n *Network) Heard(ctx context.Context, of membership.Asked) membership.Heard {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, waited, heard := make(chan hearing, len(slices.Concat(of[:]...))), 0, membership.Heard{}
	for weight, list := range of {
		for _, inc := range list {
			address, err := n.addressOf(inc)
			if err != nil {
				continue
			}
			waited++
			if membership.Weight(weight) != membership.IfAnswers {
				heard.Peers++
			}
			n.beside(func() { answers <- n.hear(ctx, inc, address, membership.Weight(weight)) })
		}
	}
	for range waited {
		select {
		case a := <-answers:
			if take(&heard, a); heard.Seen > 0 {
				return heard
			}
		case <-ctx.Done():
			return heard
		}
	}
	return heard
}

// hear asks one incarnation, after a look whether anything listens at its address, where that decides.
func (n *Network) hear(ctx context.Context, inc messages.Incarnation, address string, weight membership.Weight) (a hearing) {
	if weight == membership.MayRefuse {
		limited, cancel := context.WithTimeout(ctx, refuseTime)
		defer cancel()
		if refuses(limited, address) {
			return hearing{ended: true}
		}
	}
	a.renews, a.err = n.probe(ctx, inc)
	a.uncounted = weight == membership.IfAnswers
	return a
}

// take counts one answer.
func take(h *membership.Heard, a hearing) {
	switch {
	case a.ended:
		h.Peers--
		return
	case a.err != nil:
		return
	case a.renews:
		h.Seen++
	default:
		h.Lost++
	}
	if a.uncounted {
		h.Peers++
	}
}

// look probes peers concurrently, until all have answered or ctx has ended.
func (n *Network) look(ctx context.Context, all []messages.Incarnation) {
	var round sync.WaitGroup
	for _, inc := range all {
		round.Go(func() {
			defer n.survive("look")
			if _, err := n.probe(ctx, inc); err != nil {
				n.cfg.Logger.Trace("peer not heard", "incarnation", inc, "error", err)
			}
		})
	}
	round.Wait()
}
