package workers

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// A binding names a slot, and the state of its session is in one process of that slot. Where routers change, the one that
// routes when a process ends may know nothing of its bindings, or hear of the end later than the next process is ready. So
// the node of the slot ends them itself, in the store, before the next process takes work; a claim asks for the binding
// (store.ErrSession), so that what was placed for the old process does not begin on the new one. What comes for the old process
// meanwhile is not taken back, for it may run already. The new one keeps it, and claims it when the bindings are ended.

// unbindSessions begins to end the bindings of a slot whose process is gone. A pool that alone routes for the slot needs none of it:
// its roster has them all. A slot that is removed may come back before its bindings are ended.
func (s *slot) unbindSessions(w *Workers) {
	if w.Config.Peers == nil || w.Draining {
		return
	}
	s.unbindAll(w)
}

// unbindAll begins to end the bindings of a slot whose process is gone, also where the roster that had them is gone too.
func (s *slot) unbindAll(w *Workers) {
	s.unbinding = true
	s.has().unbindings++
	s.endBindings(w, s.rare.unbindings)
}

// endBindings ends the bindings of a slot's process that is gone, the nth of the slot.
func (s *slot) endBindings(w *Workers, nth int) {
	key := w.key(s)
	w.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		query := store.BoundQuery{Pool: w.Config.Name, Worker: key}
		unbind := func(page []store.Session) error {
			bound := make([]store.Binding, len(page))
			for i := range page {
				bound[i] = store.Binding{Pool: page[i].Pool, Session: page[i].Session, Epoch: page[i].Epoch, Worker: key}
			}
			ended, err := endBound(ctx, w.Config.Store, bound)
			w.recordUnbound(ended)
			return err
		}
		more, err := part.EachBound(ctx, w.Config.Store, query, unbind)
		for more && err == nil {
			more, err = part.EachBound(ctx, w.Config.Store, query, unbind)
		}
		if err != nil {
			w.Config.Logger.Warn("sessions of an ended worker not unbound, trying again", "slot", key.Slot, "error", err)
			return func() { w.World.After(w.RetryAfter(), func() { s.endBindingsAgain(w, nth) }) }
		}
		return func() { s.unbound(w, nth) }
	})
}

// fewBound is how many bindings are ended one by one, so that it is known which of them were.
const fewBound = 16

// endBound ends bindings in the store, and returns those that were there to end: the router ends them too, and whoever has ended one
// records it. Of many that are ended at once, some of which were not there, it returns all.
func endBound(ctx context.Context, rows unbinder, bound []store.Binding) (ended []store.Binding, err error) {
	size := len(bound)
	if size <= fewBound {
		size = 1
	}
	for part := range slices.Chunk(bound, max(size, 1)) {
		n, err := rows.Unbind(ctx, part)
		if err != nil {
			return ended, err
		}
		if n > 0 {
			ended = append(ended, part...)
		}
	}
	return ended, nil
}

// unbinder is the part of a store that ends bindings.
type unbinder interface {
	Unbind(ctx context.Context, bindings []store.Binding) (int, error)
}

// recordUnbound records that bindings have ended with their process.
func (w *Workers) recordUnbound(bound []store.Binding) {
	for i := range bound {
		b := &bound[i]
		w.Journal(journal.OfSession(b.Pool, b.Session, journal.SessionUnbound, "worker_gone", &journal.SessionDetail{
			Epoch: b.Epoch, Incarnation: b.Worker.Incarnation, Slot: b.Worker.Slot,
		}))
	}
}

// endBindingsAgain repeats what the store did not answer.
func (s *slot) endBindingsAgain(w *Workers, nth int) {
	if s.unbinding && s.had().unbindings == nth {
		s.endBindings(w, nth)
	}
}

// holdClaims has the slot's process claim nothing while the bindings to the one before are being ended.
func (s *slot) holdClaims(w *Workers) {
	if s.unbinding {
		w.Send(s.cur.pid, &actors.HoldClaims{Hold: true})
	}
}

// unbound lets the slot's next process take work. Whoever routes is told again that the one before is gone: it may have
// read the bindings meanwhile.
func (s *slot) unbound(w *Workers, nth int) {
	if !s.unbinding || s.had().unbindings != nth {
		return
	}
	s.unbinding = false
	if s.cur != nil {
		w.Send(s.cur.pid, &actors.HoldClaims{})
	}
	w.link.Tell(roster.WorkerGone{Worker: w.key(s), Restarts: !s.dead})
	w.seen(s)
}
