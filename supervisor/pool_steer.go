package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/store"
)

// probeDue asks the workers whose probe is due. They spread by jitter, so no second has all of them.
func (p *Pool) probeDue(now time.Time) {
	if !p.cfg.HealthEnabled || p.cfg.HealthInterval <= 0 || p.cfg.Runtime.InNode() {
		return
	}
	for _, s := range p.slots {
		if s.cur != nil && s.cur.ready && !now.Before(s.probeAt) {
			s.probeAt = now.Add(p.jitter(p.cfg.HealthInterval))
			p.send(s.cur.pid, &actors.Probe{})
		}
	}
}

func (p *Pool) probeNow(m *ProbeWorker) {
	s := p.slot(m.Slot)
	if s == nil || s.cur == nil {
		m.Answer.Reply("no worker is in the slot now; it is being restarted", nil)
		return
	}
	p.send(s.cur.pid, &actors.Probe{Answer: m.Answer})
}

// cordon records operator intent: it is kept apart from health and only placement asks for it.
func (p *Pool) cordon(m *Cordon) {
	switch s := p.slot(m.Slot); {
	case m.Node:
		p.nodeCordoned = m.Cordoned
	case m.Slot < 0:
		p.cordoned = m.Cordoned
	case s != nil:
		s.cordoned, p.memory.cordoned[m.Slot] = m.Cordoned, m.Cordoned
		p.seen(s)
		return
	}
	for _, s := range p.slots {
		p.seen(s)
	}
}

func (p *Pool) kill(m *KillWorker) {
	if s := p.slot(m.Slot); s != nil && s.cur != nil && (m.Generation == 0 || m.Generation == s.cur.gen) {
		s.retiring, s.by = true, m.By
		p.seen(s)
		p.dropHeld(s, "worker_gone")
		p.send(s.cur.pid, &actors.Halt{Reason: lifecycle.Terminate, Why: "killed by an operator", Hard: true, By: m.By})
	}
}

// drain is a pool's end in progress.
type drain struct {
	question *DrainQuestion
	over     bool // the time for running work is up
}

// drain stops placing, hands back what has not started, and retires every worker once it is idle.
func (p *Pool) drain(q *DrainQuestion) {
	if p.draining != nil {
		q.Reply(struct{}{}, fmt.Errorf("pool %s is draining already", p.cfg.Name))
		return
	}
	p.draining = &drain{question: q}
	p.resign()
	for queue := range p.attached {
		p.send(p.cfg.Delivery, &actors.Detach{Queue: queue})
	}
	p.world.After(q.Ask.Until.Sub(p.world.Now()), p.drainOver)
	for _, s := range p.slots {
		stopTimer(s.timer)
		s.timer = nil
		s.by = cmp.Or(s.by, q.Ask.By)
		p.dropHeld(s, "node is draining")
		if s.next != nil {
			p.send(s.next.pid, &actors.Halt{Reason: lifecycle.Shutdown, Why: "node is draining"})
		}
		if s.cur != nil {
			p.cfg.Logger.Debug("Worker shutting down gracefully", "worker", s.id)
			p.retire(s, "node is draining")
		}
	}
	p.drained()
}

// drainOver stops what still runs. Its executions are retried or abandoned by their own rules.
func (p *Pool) drainOver() {
	p.draining.over = true
	for _, s := range p.slots {
		if s.cur != nil {
			p.send(s.cur.pid, &actors.Halt{
				Reason: lifecycle.Shutdown, Why: "the node's shutdown timeout has passed", Code: messages.CodeNodeShutdown,
				By: s.by,
			})
		}
	}
}

// drained answers the drain once no worker is left and nothing is under way.
func (p *Pool) drained() {
	if p.draining == nil || p.draining.question == nil {
		return
	}
	for _, s := range p.slots {
		if s.cur != nil || s.next != nil {
			return
		}
	}
	if len(p.running) > 0 || p.unbinding > 0 || !p.handedOn() || !p.journal.written(p) {
		return
	}
	p.cfg.Logger.Info("pool stopped", "workers", len(p.slots))
	p.leaveQueues(p.draining.question)
	p.draining.question = nil
}

// leaveTimeout bounds the removal of a drained pool's queues.
const leaveTimeout = 2 * time.Second

// leaveQueues removes the queues of a drained pool's workers, which would outlive them for twice their TTL, and answers
// the drain. What is still in them was taken back: nobody else publishes to an incarnation's queues.
func (p *Pool) leaveQueues(question *DrainQuestion) {
	queues := slices.Sorted(maps.Keys(p.attached))
	if p.halts() {
		queues = nil // they expire
	}
	farewell := p.farewell()
	p.world.Beside(leaveTimeout, func(ctx context.Context) func() {
		if farewell != nil {
			farewell(ctx)
		}
		for _, queue := range queues {
			if err := p.cfg.Broker.Delete(ctx, queue); err != nil {
				p.cfg.Logger.Debug("queue of a drained pool not removed, it expires", "queue", queue, "error", err)
				break
			}
		}
		question.Reply(struct{}{}, nil)
		return nil
	})
}

// retire ends a slot's current generation once it is idle: nothing more is placed on it, what it holds unclaimed goes
// back, its sessions' states are kept where its program can.
func (p *Pool) retire(s *slot, why string) {
	if s.cur == nil || s.retiring {
		return
	}
	s.retiring = true
	p.seen(s)
	p.dropHeld(s, "worker is being replaced")
	gen, order := s.cur.gen, &actors.Retire{Reason: lifecycle.Shutdown, Why: why, By: s.by}
	if !p.cfg.Runtime.LongLived() {
		p.world.After(0, func() { p.retireWith(s, gen, order) })
		return
	}
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		query := store.BoundQuery{Pool: p.cfg.Name, Worker: s.key}
		_, err := eachBound(ctx, p.cfg.Store, query, func(page []store.Session) error {
			for i := range page {
				order.Sessions = append(order.Sessions, store.SessionRef{Pool: p.cfg.Name, Session: page[i].Session, Epoch: page[i].Epoch})
			}
			return nil
		})
		if err != nil {
			p.cfg.Logger.Warn("sessions of a leaving worker not read", "worker", s.id, "error", err)
		}
		return func() { p.retireWith(s, gen, order) }
	})
}

// retireWith has a worker leave, where it is still there.
func (p *Pool) retireWith(s *slot, gen messages.Generation, order *actors.Retire) {
	if member := s.member(gen); member != nil {
		p.send(member.pid, order)
	}
}

// leakChange says that a go handler was left behind, or has ended after all.
type leakChange struct{ change int }

func (p *Pool) leakChanged(m *leakChange) {
	p.leaked += m.change
	if state, changed := p.tracker.Leaked(p.leaked); changed {
		p.stateChanged(state, fmt.Sprintf("%d handlers did not return", p.leaked))
	}
}

func (p *Pool) describe() Description {
	d := Description{
		Name: p.cfg.Name, Runtime: p.cfg.Runtime.Name, Router: p.roster.Snapshot(), State: p.tracker.State(),
		Cordoned: p.cordoned || p.nodeCordoned, Started: p.round.ended, Echo: p.echo.took, EchoLate: p.echo.late,
		Workers: make([]WorkerState, 0, len(p.slots)), Lead: p.leading(),
	}
	switch d.State {
	case restart.Broken:
		d.Broken, _ = p.brokenWhy()
	case restart.BackingOff:
		d.Failed, _ = p.brokenWhy()
	}
	now := p.world.Now()
	for _, s := range p.slots {
		if p.onOldCode(s) {
			d.OldCode, d.Failed = d.OldCode+1, s.lastFailure
		}
		if !s.dead || s.cur != nil {
			d.Workers = append(d.Workers, p.describeSlot(s, now))
		}
	}
	return d
}

// brokenWhy is why the pool's workers keep failing, and where their code does.
func (p *Pool) brokenWhy() (why, trace string) {
	if p.leaked >= restart.LeakedMax {
		return fmt.Sprintf("%d handlers did not return", p.leaked), ""
	}
	for _, s := range p.slots {
		if s.lastFailure != "" {
			return s.lastFailure, s.lastTrace
		}
	}
	return "every worker keeps failing", ""
}

// onOldCode reports whether the slot's worker runs the code from before a reload although the new one was tried.
func (p *Pool) onOldCode(s *slot) bool {
	return s.cur != nil && s.cur.ready && !s.dead && s.cur.version != p.cfg.Fingerprint && !s.replaceAt.IsZero()
}

func (p *Pool) describeSlot(s *slot, now time.Time) WorkerState {
	w := WorkerState{
		Slot: s.number, ID: s.id, Cordoned: s.cordoned, Restarts: s.restarts, LastFailure: s.lastFailure, Beat: s.beat,
		State: lifecycle.Terminated,
	}
	if m := s.cur; m != nil {
		w.PID, w.Generation, w.State, w.Health = m.pid, m.gen, m.state, m.health
		w.Since, w.Pid = m.since, m.osPid
		status := m.cell.Read()
		w.Report, w.Execution = status.Report, status.Execution
		if state, err := lifecycle.ParseState(status.State); err == nil {
			w.State = state // check-outs and check-ins are not told to the pool one by one
			if !status.Since.IsZero() {
				w.Since = status.Since
			}
		}
		graded := p.evaluate(s, now, &w.Report, w.State)
		w.Grade, w.Causes = graded.Grade, graded.Causes
		if graded.Stale() {
			w.Health = lifecycle.Unhealthy
		}
	}
	return w
}
