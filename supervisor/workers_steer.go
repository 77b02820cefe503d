package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/store"
)

// probeDue asks the workers whose probe is due. They spread by jitter, so no second has all of them.
func (w *Workers) probeDue(now time.Time) {
	if !w.cfg.HealthEnabled || w.cfg.HealthInterval <= 0 || w.cfg.Runtime.InNode() {
		return
	}
	for _, s := range w.slots {
		if s.cur != nil && s.cur.ready && !now.Before(s.probeAt) {
			s.probeAt = now.Add(w.jitter(w.cfg.HealthInterval))
			w.send(s.cur.pid, &actors.Probe{})
		}
	}
}

func (w *Workers) probeNow(m *ProbeWorker) {
	s := w.slots.at(m.Slot)
	if s == nil || s.cur == nil {
		m.Answer.Reply("no worker is in the slot now; it is being restarted", nil)
		return
	}
	w.send(s.cur.pid, &actors.Probe{Answer: m.Answer})
}

// cordon records operator intent: it is kept apart from health and only placement asks for it.
func (w *Workers) cordon(m *Cordon) {
	switch s := w.slots.at(m.Slot); {
	case m.Node:
		w.nodeCordoned = m.Cordoned
	case m.Slot < 0:
		w.cordoned = m.Cordoned
	case s != nil:
		s.cordoned, w.memory.cordoned[m.Slot] = m.Cordoned, m.Cordoned
		w.seen(s)
		return
	}
	for _, s := range w.slots {
		w.seen(s)
	}
}

func (w *Workers) kill(m *KillWorker) {
	if s := w.slots.at(m.Slot); s != nil && s.cur != nil && (m.Generation == 0 || m.Generation == s.cur.gen) {
		s.retiring, s.by = true, m.By
		w.seen(s)
		w.link.GiveBack(s.number, "worker_gone", s.by)
		w.send(s.cur.pid, &actors.Halt{Reason: lifecycle.Terminate, Why: "killed by an operator", Hard: true, By: m.By})
	}
}

// drain retires every worker once it is idle. Nothing is started any more.
func (w *Workers) drain(by string) {
	for _, s := range w.slots {
		stopTimer(s.timer)
		s.timer = nil
		s.by = cmp.Or(s.by, by)
		w.link.GiveBack(s.number, "node is draining", s.by)
		if s.next != nil {
			w.send(s.next.pid, &actors.Halt{Reason: lifecycle.Shutdown, Why: "node is draining"})
		}
		if s.cur != nil {
			w.cfg.Logger.Debug("Worker shutting down gracefully", "worker", s.id)
			w.retire(s, "node is draining")
		}
	}
}

// drainOver stops what still runs. Its executions are retried or abandoned by their own rules.
func (w *Workers) drainOver() {
	for _, s := range w.slots {
		if s.cur != nil {
			w.send(s.cur.pid, &actors.Halt{
				Reason: lifecycle.Shutdown, Why: "the node's shutdown timeout has passed", Code: messages.CodeNodeShutdown,
				By: s.by,
			})
		}
	}
}

// retire ends a slot's current generation once it is idle: nothing more is placed on it, what it holds unclaimed goes
// back, its sessions' states are kept where its program can.
func (w *Workers) retire(s *slot, why string) {
	if s.cur == nil || s.retiring {
		return
	}
	s.retiring = true
	w.seen(s)
	w.link.GiveBack(s.number, "worker is being replaced", s.by)
	gen, order := s.cur.gen, &actors.Retire{Reason: lifecycle.Shutdown, Why: why, By: s.by}
	if !w.cfg.Runtime.LongLived() {
		w.world.After(0, func() { w.retireWith(s, gen, order) })
		return
	}
	w.world.Beside(storeTimeout, func(ctx context.Context) func() {
		query := store.BoundQuery{Pool: w.cfg.Name, Worker: s.key}
		_, err := eachBound(ctx, w.cfg.Store, query, func(page []store.Session) error {
			for i := range page {
				order.Sessions = append(order.Sessions, store.SessionRef{Pool: w.cfg.Name, Session: page[i].Session, Epoch: page[i].Epoch})
			}
			return nil
		})
		if err != nil {
			w.cfg.Logger.Warn("sessions of a leaving worker not read", "worker", s.id, "error", err)
		}
		return func() { w.retireWith(s, gen, order) }
	})
}

// retireWith has a worker leave, where it is still there.
func (w *Workers) retireWith(s *slot, gen messages.Generation, order *actors.Retire) {
	if member := s.member(gen); member != nil {
		w.send(member.pid, order)
	}
}

// leakChange says that a go handler was left behind, or has ended after all.
type leakChange struct{ change int }

func (w *Workers) leakChanged(m *leakChange) {
	w.leaked += m.change
	if state, changed := w.tracker.Leaked(w.leaked); changed {
		w.stateChanged(state, fmt.Sprintf("%d handlers did not return", w.leaked))
	}
}

func (w *Workers) describe() Description {
	d := Description{
		Name: w.cfg.Name, Runtime: w.cfg.Runtime.Name, State: w.tracker.State(),
		Cordoned: w.cordoned || w.nodeCordoned, Started: w.round.ended, Echo: w.echo.took, EchoLate: w.echo.late,
		Workers: make([]WorkerState, 0, len(w.slots)),
	}
	switch d.State {
	case restart.Broken:
		d.Broken, _ = w.brokenWhy()
	case restart.BackingOff:
		d.Failed, _ = w.brokenWhy()
	}
	now := w.world.Now()
	for _, s := range w.slots {
		if s.onOldCode(w.cfg.Fingerprint) {
			d.OldCode, d.Failed = d.OldCode+1, s.lastFailure
		}
		if !s.dead || s.cur != nil {
			d.Workers = append(d.Workers, s.describe(w, now))
		}
	}
	return d
}

// brokenWhy is why the pool's workers keep failing, and where their code does.
func (w *Workers) brokenWhy() (why, trace string) {
	if w.leaked >= restart.LeakedMax {
		return fmt.Sprintf("%d handlers did not return", w.leaked), ""
	}
	for _, s := range w.slots {
		if s.lastFailure != "" {
			return s.lastFailure, s.lastTrace
		}
	}
	return "every worker keeps failing", ""
}

// onOldCode reports whether the slot's worker runs the code from before a reload although the new one was tried.
func (s *slot) onOldCode(fingerprint string) bool {
	return s.cur != nil && s.cur.ready && !s.dead && s.cur.version != fingerprint && !s.replaceAt.IsZero()
}

func (s *slot) describe(w *Workers, now time.Time) WorkerState {
	d := WorkerState{
		Slot: s.number, ID: s.id, Cordoned: s.cordoned, Restarts: s.restarts, LastFailure: s.lastFailure, Beat: s.beat,
		State: lifecycle.Terminated,
	}
	if m := s.cur; m != nil {
		d.PID, d.Generation, d.State, d.Health = m.pid, m.gen, m.state, m.health
		d.Since, d.Pid = m.since, m.osPid
		status := m.cell.Read()
		d.Report, d.Execution = status.Report, status.Execution
		if state, err := lifecycle.ParseState(status.State); err == nil {
			d.State = state // check-outs and check-ins are not told to the pool one by one
			if !status.Since.IsZero() {
				d.Since = status.Since
			}
		}
		graded := w.evaluate(s, now, &d.Report, d.State)
		d.Grade, d.Causes = graded.Grade, graded.Causes
		if graded.Stale() {
			d.Health = lifecycle.Unhealthy
		}
	}
	return d
}
