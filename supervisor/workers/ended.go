package workers

import (
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// WorkerEnded hears that a generation has come to its end in order.
func (w *Workers) WorkerEnded(m *actors.WorkerEnded) {
	s := w.slots.at(m.Slot)
	member := s.member(m.Generation)
	if member == nil || member.told {
		return
	}
	member.told = true
	w.ended(s, member, m)
}

// Vanished ends a generation whose actor is gone without having said so: it was stopped by a panic of its own.
func (w *Workers) Vanished(id string) {
	for _, s := range w.slots {
		for _, member := range []*member{s.cur, s.next} {
			if member != nil && !member.told && member.pid.Id == id {
				member.told = true
				failure, _ := w.Config.System.Registry.Failure(id)
				if member == s.cur { // a replacement runs nothing yet
					w.link.Lost(s.number, member.osPid)
				}
				why := "worker actor failed: " + failure.Reason
				verdict := lifecycle.Recover(lifecycle.Failure{Text: why}, lifecycle.Snapshot{State: member.state})
				w.ended(s, member, &actors.WorkerEnded{
					Slot: s.number, Generation: member.gen, Cause: verdict.Cause, Why: why, WasReady: member.ready,
				})
				return
			}
		}
	}
}

// ended takes a generation out and decides about the slot's next.
func (w *Workers) ended(s *slot, m *member, end *actors.WorkerEnded) {
	if m == s.next {
		s.next = nil
		s.has().failed(end)
		w.replacementFailed(s)
		return
	}
	s.cur, s.retiring = nil, false
	delete(w.memory.pids, s.number)
	w.link.Tell(roster.WorkerGone{Worker: w.key(s), Restarts: !s.dead})
	s.unbindSessions(w)
	by := s.had().by
	w.link.GiveBack(s.number, "worker_gone", by)
	w.link.GiveBackUntaken(s.number, end.Taken, by)
	if r := s.rare; r != nil {
		r.by, r.renewedBy = "", ""
	}
	w.round.done(w, s)
	if w.Draining || s.dead {
		if s.dead {
			w.Config.Logger.Info("Removing worker", "worker", s.id, "generation", end.Generation, "reason", end.Why)
		}
		w.dismiss(s)
		return
	}
	if s.next != nil {
		s.cur, s.next = s.next, nil
		s.holdClaims(w)
		if !end.Wanted && !s.cur.ready {
			s.lose(end, w.World.Now())
		}
		w.seen(s)
		if !s.cur.ready {
			w.replacing.goOn(w)
		}
		return
	}
	w.again(s, end)
	w.spawnMore(0) // a start that ended makes room for the next
}

// dismiss ends what a slot that is not to be started again still has: its replacement, its next start, its place among
// the restarts.
func (w *Workers) dismiss(s *slot) {
	if s.next != nil {
		w.Send(s.next.pid, &actors.Halt{Reason: lifecycle.Shutdown, Why: "its slot is not needed any more"})
	}
	part.StopTimer(s.timer)
	s.timer = nil
	if !s.dead {
		return
	}
	if state, changed := w.tracker.Remove(s.number); changed {
		w.stateChanged(state, "")
	}
}

// again starts the slot's next generation, at once or after the delay that the restart tracker says.
func (w *Workers) again(s *slot, end *actors.WorkerEnded) {
	if end.Wanted {
		w.countReplaced()
		w.spawn(s)
		return
	}
	s.has().restarts++
	s.has().failed(end)
	s.lose(end, w.World.Now())
	if end.WasReady && end.Cause.Removes() {
		w.Config.Logger.Info("Removing worker", "worker", s.id, "generation", end.Generation, "cause", end.Cause, "reason", end.Why)
	}
	verdict := w.judgeEnd(s, end)
	if w.Config.Hooks.Restarted != nil {
		w.Config.Hooks.Restarted(w.Config.Name, verdict.Delay)
	}
	if verdict.Changed {
		w.stateChanged(verdict.State, end.Why)
	}
	if verdict.Delay <= 0 {
		w.spawn(s)
		return
	}
	s.timer = w.World.After(verdict.Delay, func() { w.respawn(s) })
	w.seen(s)
}

// judgeEnd says when the slot's next start is due, and tells of it. A start that the node had no room for is not the worker's
// failure, and the node tells of it for all of its workers.
func (w *Workers) judgeEnd(s *slot, end *actors.WorkerEnded) restart.Verdict {
	if end.Cause == lifecycle.CauseNodeShort {
		return w.tracker.Postponed(s.number, w.World.Now(), w.World.Random)
	}
	verdict := w.tracker.Failed(s.number, w.World.Now(), w.World.Random)
	w.Config.Logger.Warn("Replacing worker", "worker", s.id, "generation", end.Generation, "cause", end.Cause,
		"reason", end.Why, "delay", verdict.Delay)
	return verdict
}

// lose notes when a slot lost its worker. Starts that fail after that belong to the same loss.
func (s *slot) lose(end *actors.WorkerEnded, now time.Time) {
	if s.had().lostAt.IsZero() && end.WasReady {
		s.has().lostAt = now
	}
}

// backAgain counts the downtime of a slot whose worker was lost, once: it ends with the first that becomes ready, however many
// starts it took.
func (s *slot) backAgain(w *Workers, now time.Time) {
	lostAt := s.had().lostAt
	if lostAt.IsZero() {
		return
	}
	if w.Config.Hooks.Away != nil {
		w.Config.Hooks.Away(w.Config.Name, max(0, now.Sub(lostAt)))
	}
	s.rare.lostAt = time.Time{}
}

// failed notes why a start, or what was started, came to its end.
func (r *rare) failed(end *actors.WorkerEnded) { r.lastFailure, r.lastTrace = end.Why, end.Traceback }
