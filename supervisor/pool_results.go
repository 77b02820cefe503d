package supervisor

import (
	"errors"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// committed hears what became of the changes of this pool's executions.
func (p *Pool) committed(m *actors.Committed) {
	wake := false
	for _, record := range m.Records {
		for i := range record.Items {
			wake = p.changed(&record.Items[i], &record.Results[i]) || wake
		}
	}
	if wake {
		p.step(roster.Wake{})
	}
}

// changed turns one result into the roster's event; true: more work may be due now.
func (p *Pool) changed(item *actors.Item, r *store.Result) bool {
	done := r.Verdict == store.Applied || r.Verdict == store.Already
	switch c := item.Change.(type) {
	case *store.Place:
		if p.placing[c.ID] != c { // written for an actor that failed meanwhile: nobody will publish it
			if done {
				p.takeBack(messages.Placement{Execution: c.ID, Attempt: r.Attempt}, "its router failed", 0)
			}
			return false
		}
		delete(p.placing, c.ID)
		p.step(roster.Placed{
			ID: c.ID, Attempt: r.Attempt, OK: done, SessionConflict: errors.Is(r.Err, store.ErrSession),
			ClaimBy: p.cfg.Clock.Local(r.At.Add(c.ClaimWithin)),
		})
	case *store.Claim:
		p.claimed(item, c, r, done)
	case *store.Finish:
		p.over(item, messages.Placement{Execution: c.ID, Attempt: c.Attempt}, sessionOf(r), true)
		return c.Retry != nil
	case *store.Rescue:
		p.over(item, messages.Placement{Execution: c.ID, Attempt: c.Attempt}, sessionOf(r), false)
		return true
	case *store.TakeBack:
		pl := messages.Placement{Execution: c.ID, Attempt: c.Attempt}
		delete(p.returning, pl)
		switch {
		case r.Status.Terminal() && r.Attempt == c.Attempt:
			// It may have run without a word of it: its session counts as begun.
			p.letGoOf(pl)
			p.step(roster.Ended{Placement: pl, Unseen: true})
		case !r.Status.Started() || r.Attempt != c.Attempt:
			p.released(pl)
		}
		return done
	case *store.End:
		p.step(roster.Withdrawn{ID: c.ID})
		pl := messages.Placement{Execution: c.ID, Attempt: c.Attempt}
		p.released(pl)
		if item.Fault && done && item.Worker.Incarnation == p.cfg.Incarnation {
			p.deadLettered(item.Worker.Slot, pl)
		}
		return c.Retry != nil
	case *store.Cancel:
		p.cancelled(c, r)
	}
	return false
}

func (p *Pool) claimed(item *actors.Item, c *store.Claim, r *store.Result, done bool) {
	pl := messages.Placement{Execution: c.ID, Attempt: c.Attempt}
	if isFenced(r.Err) {
		return // its worker keeps it: it is claimed once the lease is renewed, or placed again by others
	}
	p.settled(pl)
	if done {
		p.running[pl] = item.Worker.Slot
		p.step(roster.Claimed{Placement: pl, Worker: item.Worker})
		if s := p.slot(item.Worker.Slot); s.member(c.Generation) == nil {
			p.rescueLost(pl, 0, item.Worker.Slot, "worker actor failed before it could start it")
		}
		return
	}
	if errors.Is(r.Err, store.ErrSession) { // its worker's process is not the one that it was placed for
		p.takeBack(pl, "session_moved", 0)
		return
	}
	p.step(roster.Released{Placement: pl})
	if _, here := p.running[pl]; !here && r.Status.Started() && r.Attempt == c.Attempt {
		p.rescueStray(pl, item.Worker.Slot)
	}
}

// deadLettered counts a message that died on a worker's queue against the worker.
func (p *Pool) deadLettered(n messages.Slot, pl messages.Placement) {
	if s := p.slot(n); s != nil && s.cur != nil {
		p.cfg.System.Send(s.cur.pid, &actors.Expired{Placement: pl})
	}
}

// sessionOf is the session of what a change was of; empty: it has none, or the store has not said so.
func sessionOf(r *store.Result) string {
	if r.Execution == nil {
		return ""
	}
	return r.Execution.Session
}

// over notes that a run has ended.
func (p *Pool) over(item *actors.Item, pl messages.Placement, session string, finished bool) {
	delete(p.running, pl)
	p.settled(pl)
	p.step(roster.Ended{
		Placement: pl, Worker: item.Worker, Session: session, Took: item.Took, Finished: finished, Restored: item.Restored, Fault: item.Fault,
	})
}

// released forgets a placement that was not claimed. What ended before it was ever placed, attempt 0, has none.
func (p *Pool) released(pl messages.Placement) {
	if pl.Attempt == 0 {
		return
	}
	p.letGoOf(pl)
	p.step(roster.Released{Placement: pl})
}

// letGoOf drops a placement's delivery, where it is held, and has its worker drop it.
func (p *Pool) letGoOf(pl messages.Placement) {
	if h, ok := p.held[pl]; ok {
		if s := p.slot(h.slot); s != nil && s.cur != nil {
			p.cfg.System.Send(s.cur.pid, &actors.Drop{Placement: pl})
		}
		p.settled(pl)
	}
}

// cancelled tells whoever holds the execution.
func (p *Pool) cancelled(c *store.Cancel, r *store.Result) {
	if r.Execution == nil {
		return
	}
	pl := r.Execution.Placement()
	if r.Status == messages.Cancelling {
		p.cancelRun(pl, r.Execution.Worker.Slot, c.By)
		return
	}
	p.step(roster.Withdrawn{ID: c.ID})
	p.released(pl)
}

func (p *Pool) cancelRun(pl messages.Placement, n messages.Slot, by string) {
	s := p.slot(n)
	if s == nil {
		return
	}
	for _, m := range []*member{s.cur, s.next} {
		if m != nil {
			p.cfg.System.Send(m.pid, &actors.CancelRun{Placement: pl, By: by})
		}
	}
}
