package supervisor

import (
	"context"

	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// A binding names a slot, and the state of its session is in one process of that slot. Where routers change, the one that
// routes when a process ends may know nothing of its bindings, or hear of the end later than the next process is ready. So
// the node of the slot ends them itself, in the store, before the next process takes work; a claim asks for the binding
// (store.ErrSession), so that what was placed for the old process does not begin on the new one.

// part begins to end the bindings of a slot whose process is gone. A pool that alone routes for the slot needs none of it:
// its roster has them all.
func (p *Pool) part(s *slot) {
	if p.cfg.Peers == nil || s.dead || p.draining != nil {
		return
	}
	s.parting = true
	s.partings++
	p.endBindings(s, s.partings)
}

// endBindings ends the bindings of a slot's process that is gone, the partings-th of the slot.
func (p *Pool) endBindings(s *slot, partings int) {
	key := s.key
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		query := store.BoundQuery{Pool: p.cfg.Name, Worker: key}
		unbind := func(page []store.Session) error {
			bound := make([]store.Binding, len(page))
			for i := range page {
				bound[i] = store.Binding{Pool: page[i].Pool, Session: page[i].Session, Epoch: page[i].Epoch, Worker: key}
			}
			_, err := p.cfg.Store.Unbind(ctx, bound)
			return err
		}
		more, err := eachBound(ctx, p.cfg.Store, query, unbind)
		for more && err == nil {
			more, err = eachBound(ctx, p.cfg.Store, query, unbind)
		}
		if err != nil {
			p.cfg.Logger.Warn("sessions of an ended worker not unbound, trying again", "slot", key.Slot, "error", err)
			return func() { p.world.After(p.retryAfter(), func() { p.endBindingsAgain(s, partings) }) }
		}
		return func() { p.parted(s, partings) }
	})
}

// endBindingsAgain repeats what the store did not answer.
func (p *Pool) endBindingsAgain(s *slot, partings int) {
	if s.parting && s.partings == partings {
		p.endBindings(s, partings)
	}
}

// parted lets the slot's next process take work. Whoever routes is told again that the one before is gone: it may have
// read the bindings meanwhile.
func (p *Pool) parted(s *slot, partings int) {
	if !s.parting || s.partings != partings {
		return
	}
	s.parting = false
	p.step(roster.WorkerGone{Worker: s.key, Restarts: true})
	p.seen(s)
}
