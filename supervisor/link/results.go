package link

import (
	"errors"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// Committed hears what became of the changes of this pool's executions.
func (l *Link) Committed(m *actors.Committed) {
	wake := false
	for _, record := range m.Records {
		for i := range record.Items {
			wake = l.answered(&record.Items[i], &record.Results[i]) || wake
		}
	}
	if wake {
		l.Tell(roster.Wake{})
	}
}

// answered reports what the store says of one change; true: more work may be due now.
func (l *Link) answered(item *actors.Item, r *store.Result) bool {
	done := r.Verdict == store.Applied || r.Verdict == store.Already
	switch c := item.Change.(type) {
	case *store.Place:
		l.router.Placed(c, r)
	case *store.Claim:
		l.claimed(item, c, r, done)
	case *store.Finish:
		l.over(item, messages.Placement{Execution: c.ID, Attempt: c.Attempt}, sessionOf(r), !c.NeverRan)
		if done && sessionOf(r) != "" {
			l.recordRun(item, r.Execution)
		}
		return c.Retry != nil
	case *store.Rescue:
		l.over(item, messages.Placement{Execution: c.ID, Attempt: c.Attempt}, sessionOf(r), false)
		return true
	case *store.TakeBack:
		pl := messages.Placement{Execution: c.ID, Attempt: c.Attempt}
		delete(l.returning, pl)
		switch {
		case r.Status.Terminal() && r.Attempt == c.Attempt:
			// It may have run without a word of it: its session counts as begun.
			l.drop(pl)
			l.tellEnded(roster.Ended{Placement: pl, Unseen: true})
		case !r.Status.Started() || r.Attempt != c.Attempt:
			l.released(pl)
		}
		return done
	case *store.End:
		l.Tell(roster.Withdrawn{ID: c.ID})
		if done && c.Outcome.Error != nil && c.Outcome.Error.Code == messages.CodeSessionLost && sessionOf(r) != "" {
			l.Journal(journal.OfSession(l.Config.Name, r.Execution.Session, journal.SessionLost, "", &journal.LossDetail{Execution: c.ID}))
		}
		pl := messages.Placement{Execution: c.ID, Attempt: c.Attempt}
		l.released(pl)
		if item.Fault && done && item.Worker.Incarnation == l.Config.Incarnation {
			l.workers.Expired(item.Worker.Slot, pl)
		}
		return c.Retry != nil
	case *store.Cancel:
		l.cancelled(c, r)
	}
	return false
}

func (l *Link) claimed(item *actors.Item, c *store.Claim, r *store.Result, done bool) {
	pl := messages.Placement{Execution: c.ID, Attempt: c.Attempt}
	if isFenced(r.Err) {
		return // its worker keeps it: it is claimed once the lease is renewed, or placed again by others
	}
	l.settled(pl)
	if done {
		l.running[pl] = item.Worker.Slot
		l.tellClaimed(roster.Claimed{Placement: pl, Worker: item.Worker})
		if !l.workers.Has(item.Worker.Slot, c.Generation) {
			l.rescueLost(pl, 0, item.Worker.Slot, "worker actor failed before it could start it")
		}
		return
	}
	if errors.Is(r.Err, store.ErrSession) { // its worker's process is not the one that it was placed for
		l.TakeBack(&store.TakeBack{ID: pl.Execution, Attempt: pl.Attempt, Reason: "session_moved"})
		return
	}
	l.Tell(roster.Released{Placement: pl, Worker: item.Worker})
	if _, here := l.running[pl]; !here && r.Status.Started() && r.Attempt == c.Attempt {
		l.rescueStray(pl, item.Worker.Slot)
	}
}

// sessionOf is the session of what a change was of; empty: it has none, or the store has not said so.
func sessionOf(r *store.Result) string {
	if r.Execution == nil {
		return ""
	}
	return r.Execution.Session
}

// recordRun records that a run that has ended had the state of its session back from a snapshot, or was told that it was lost.
func (l *Link) recordRun(item *actors.Item, e *messages.Execution) {
	switch {
	case item.Restored:
		l.recordState(item, e, journal.SessionRestored)
	case item.Lost:
		l.recordState(item, e, journal.SessionLost)
	}
}

// recordState records what became of a session's state for one of its executions.
func (l *Link) recordState(item *actors.Item, e *messages.Execution, what string) {
	l.Journal(journal.OfSession(l.Config.Name, e.Session, what, "", &journal.SessionDetail{
		Epoch: e.SessionEpoch, Incarnation: item.Worker.Incarnation, Slot: item.Worker.Slot, Worker: e.WorkerID, Execution: e.ID,
	}))
}

// over notes that a run has ended.
func (l *Link) over(item *actors.Item, pl messages.Placement, session string, finished bool) {
	delete(l.running, pl)
	delete(l.taken, pl)
	l.settled(pl)
	l.tellEnded(roster.Ended{
		Placement: pl, Worker: item.Worker, Session: session, Took: item.Took, Finished: finished, Restored: item.Restored, Fault: item.Fault,
	})
}

// released forgets a placement that was not claimed. What ended before it was ever placed, attempt 0, has none.
func (l *Link) released(pl messages.Placement) {
	if pl.Attempt == 0 {
		return
	}
	l.drop(pl)
	l.Tell(roster.Released{Placement: pl})
}

// drop settles a placement's delivery, where it is held, and has its worker drop it.
func (l *Link) drop(pl messages.Placement) {
	if h, ok := l.held[pl]; ok {
		l.workers.Drop(h.slot, pl)
		l.settled(pl)
	}
}

// cancelled tells whoever holds the execution.
func (l *Link) cancelled(c *store.Cancel, r *store.Result) {
	if r.Execution == nil {
		return
	}
	pl := r.Execution.Placement()
	if r.Status == messages.Cancelling {
		l.workers.CancelRun(r.Execution.Worker.Slot, &actors.CancelRun{Placement: pl, By: c.By})
		return
	}
	l.Tell(roster.Withdrawn{ID: c.ID})
	l.released(pl)
}

func isFenced(err error) bool { return errors.Is(err, store.ErrFenced) }
