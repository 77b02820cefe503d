package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
)

// workerEnded hears that a generation has come to its end in order.
func (p *Pool) workerEnded(m *actors.WorkerEnded) {
	s := p.slot(m.Slot)
	member := s.member(m.Generation)
	if member == nil || member.told {
		return
	}
	member.told = true
	p.ended(s, member, m)
}

// terminated hears that an actor is gone. The news overtakes the actor's own last word, WorkerEnded, which may still
// stand in the mailbox; so unless a panic is known, it is judged behind what stands there now.
func (p *Pool) terminated(m *actor.Terminated) {
	if m.Who.Id == p.cfg.Delivery.Id {
		p.world.After(attachWait, p.attachAgain)
		return
	}
	if _, failed := p.cfg.System.Registry.Failure(m.Who.Id); failed {
		p.vanished(m.Who.Id)
		return
	}
	p.world.After(0, func() { p.vanished(m.Who.Id) })
}

// vanished ends a generation whose actor is gone without having said so: it was stopped by a panic of its own.
func (p *Pool) vanished(id string) {
	for _, s := range p.slots {
		for _, member := range []*member{s.cur, s.next} {
			if member != nil && !member.told && member.pid.Id == id {
				member.told = true
				failure, _ := p.cfg.System.Registry.Failure(id)
				if member == s.cur { // a replacement runs nothing yet
					p.settleLost(s, member)
				}
				why := "worker actor failed: " + failure.Reason
				verdict := lifecycle.Recover(lifecycle.Failure{Text: why}, lifecycle.Snapshot{State: member.state})
				p.ended(s, member, &actors.WorkerEnded{
					Slot: s.number, Generation: member.gen, Cause: verdict.Cause, Why: why, WasReady: member.ready,
				})
				return
			}
		}
	}
}

// ended takes a generation out and decides about the slot's next.
func (p *Pool) ended(s *slot, m *member, end *actors.WorkerEnded) {
	if m == s.next {
		s.next = nil
		s.lastFailure, s.lastTrace = end.Why, end.Traceback
		p.replacementFailed(s)
		return
	}
	s.cur, s.retiring = nil, false
	delete(p.memory.pids, s.number)
	p.step(roster.WorkerGone{Worker: s.key, Restarts: !s.dead})
	p.part(s)
	p.dropHeld(s, "worker_gone")
	s.by, s.renewedBy = "", ""
	p.roundDone(s)
	if p.draining != nil || s.dead {
		if s.dead {
			p.cfg.Logger.Info("Removing worker", "worker", s.id, "generation", end.Generation, "reason", end.Why)
		}
		p.dismiss(s)
		return
	}
	if s.next != nil {
		s.cur, s.next = s.next, nil
		if !end.Wanted && !s.cur.ready {
			s.lose(end, p.world.Now())
		}
		p.seen(s)
		if !s.cur.ready {
			p.replaced()
		}
		return
	}
	p.again(s, end)
	p.spawnMore(0) // a start that ended makes room for the next
}

// dismiss ends what a slot that is not to be started again still has: its replacement, its next start, its place among
// the restarts.
func (p *Pool) dismiss(s *slot) {
	if s.next != nil {
		p.send(s.next.pid, &actors.Halt{Reason: lifecycle.Shutdown, Why: "its slot is not needed any more"})
	}
	stopTimer(s.timer)
	s.timer = nil
	if !s.dead {
		return
	}
	if state, changed := p.tracker.Remove(s.number); changed {
		p.stateChanged(state, "")
	}
}

// again starts the slot's next generation, at once or after the delay that the restart tracker says.
func (p *Pool) again(s *slot, end *actors.WorkerEnded) {
	if end.Wanted {
		p.countReplaced()
		p.spawn(s)
		return
	}
	s.restarts++
	s.lastFailure, s.lastTrace = end.Why, end.Traceback
	s.lose(end, p.world.Now())
	if end.WasReady && end.Cause.Removes() {
		p.cfg.Logger.Info("Removing worker", "worker", s.id, "generation", end.Generation, "cause", end.Cause, "reason", end.Why)
	}
	verdict := p.judgeEnd(s, end)
	if p.cfg.Hooks.Restarted != nil {
		p.cfg.Hooks.Restarted(p.cfg.Name, verdict.Delay)
	}
	if verdict.Changed {
		p.stateChanged(verdict.State, end.Why)
	}
	if verdict.Delay <= 0 {
		p.spawn(s)
		return
	}
	s.timer = p.world.After(verdict.Delay, func() { p.respawn(s) })
	p.seen(s)
}

// judgeEnd says when the slot's next start is due, and tells of it. A start that the node had no room for is not the worker's
// failure, and the node tells of it for all of its workers.
func (p *Pool) judgeEnd(s *slot, end *actors.WorkerEnded) restart.Verdict {
	if end.Cause == lifecycle.CauseNodeShort {
		return p.tracker.Postponed(s.number, p.world.Now(), p.world.Random)
	}
	verdict := p.tracker.Failed(s.number, p.world.Now(), p.world.Random)
	p.cfg.Logger.Warn("Replacing worker", "worker", s.id, "generation", end.Generation, "cause", end.Cause,
		"reason", end.Why, "delay", verdict.Delay)
	return verdict
}

// lose notes when a slot lost its worker. Starts that fail after that belong to the same loss.
func (s *slot) lose(end *actors.WorkerEnded, now time.Time) {
	if s.lostAt.IsZero() && end.WasReady {
		s.lostAt = now
	}
}

// backAgain counts the downtime of a slot whose worker was lost, once: it ends with the first that becomes ready, however many
// starts it took.
func (p *Pool) backAgain(s *slot, now time.Time) {
	if !s.lostAt.IsZero() && p.cfg.Hooks.Away != nil {
		p.cfg.Hooks.Away(p.cfg.Name, max(0, now.Sub(s.lostAt)))
	}
	s.lostAt = time.Time{}
}
