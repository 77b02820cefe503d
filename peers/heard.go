package peers

import (
	"context"
	"sync"

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

// Heard asks all these incarnations concurrently whether they renew their lease, until ctx ends. It counts only those
// that can be asked: one without an address shows nothing. It returns once one renews, because the others then do not
// matter.
func (n *Network) Heard(ctx context.Context, live []messages.Incarnation) membership.Heard {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		renews bool
		err    error
	}
	results := make(chan result, len(live))
	heard := membership.Heard{}
	for _, inc := range live {
		if _, err := n.addressOf(inc); err != nil {
			continue
		}
		heard.Peers++
		n.beside(func() {
			renews, err := n.probe(ctx, inc)
			results <- result{renews, err}
		})
	}
	for range heard.Peers {
		select {
		case r := <-results:
			switch {
			case r.err != nil:
			case r.renews:
				heard.Seen++
				return heard
			default:
				heard.Lost++
			}
		case <-ctx.Done():
			return heard
		}
	}
	return heard
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
