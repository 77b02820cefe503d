package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// probeDue asks the workers whose probe is due. They spread by jitter, so no second has all of them.
func (w *Workers) probeDue(now time.Time) {
	if !w.Config.HealthEnabled || w.Config.HealthInterval <= 0 || w.Config.Runtime.InNode() {
		return
	}
	for _, s := range w.slots {
		if s.cur != nil && s.cur.ready && !now.Before(s.had().probeAt) {
			w.probeNext(s, now)
			w.Send(s.cur.pid, &actors.Probe{})
		}
	}
}

// probeNext plans the slot's next probe. A worker without a program of its own has none.
func (w *Workers) probeNext(s *slot, now time.Time) {
	if !w.Config.Runtime.InNode() {
		s.has().probeAt = now.Add(w.Jitter(w.Config.HealthInterval))
	}
}

// Probe probes a worker now.
func (w *Workers) Probe(n messages.Slot, answer *actors.ProbeQuestion) {
	s := w.slots.at(n)
	if s == nil || s.cur == nil {
		answer.Reply("no worker is in the slot now; it is being restarted", nil)
		return
	}
	w.Send(s.cur.pid, &actors.Probe{Answer: answer})
}

// Cordon records operators' word on a worker (slot), or with slot −1 on the pool. It is kept apart from health and only placement asks
// for it.
func (w *Workers) Cordon(n messages.Slot, cordoned bool) {
	switch s := w.slots.at(n); {
	case n < 0:
		w.cordoned = cordoned
	case s != nil:
		s.cordoned, w.memory.cordoned[n] = cordoned, cordoned
		w.seen(s)
		return
	}
	for _, s := range w.slots {
		w.seen(s)
	}
}

// CordonNode records operators' word on the node.
func (w *Workers) CordonNode(cordoned bool) {
	w.nodeCordoned = cordoned
	for _, s := range w.slots {
		w.seen(s)
	}
}

// Kill ends a worker at once; it is replaced. One of another generation is left alone; 0: whichever there is.
func (w *Workers) Kill(n messages.Slot, gen messages.Generation, by string) {
	if s := w.slots.at(n); s != nil && s.cur != nil && (gen == 0 || gen == s.cur.gen) {
		s.retiring, s.has().by = true, by
		w.seen(s)
		w.link.GiveBack(s.number, "worker_gone", by)
		w.Send(s.cur.pid, &actors.Halt{Reason: lifecycle.Terminate, Why: "killed by an operator", Hard: true, By: by})
	}
}

// Drain retires every worker once it is idle. Nothing is started any more.
func (w *Workers) Drain(by string) {
	for _, s := range w.slots {
		part.StopTimer(s.timer)
		s.timer = nil
		if by != "" && s.had().by == "" {
			s.has().by = by
		}
		w.link.GiveBack(s.number, "node is draining", s.had().by)
		if s.next != nil {
			w.Send(s.next.pid, &actors.Halt{Reason: lifecycle.Shutdown, Why: "node is draining"})
		}
		if s.cur != nil {
			w.Config.Logger.Debug("Worker shutting down gracefully", "worker", s.id)
			w.retire(s, "node is draining")
		}
	}
}

// StopRuns stops what still runs. Its executions are retried or abandoned by their own rules.
func (w *Workers) StopRuns() {
	for _, s := range w.slots {
		if s.cur != nil {
			w.Send(s.cur.pid, &actors.Halt{
				Reason: lifecycle.Shutdown, Why: "the node's shutdown timeout has passed", Code: messages.CodeNodeShutdown,
				By: s.had().by,
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
	w.link.GiveBack(s.number, "worker is being replaced", s.had().by)
	gen, order := s.cur.gen, &actors.Retire{Reason: lifecycle.Shutdown, Why: why, By: s.had().by}
	if !w.Config.Runtime.LongLived() {
		w.World.After(0, func() { w.retireWith(s, gen, order) })
		return
	}
	w.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		query := store.BoundQuery{Pool: w.Config.Name, Worker: w.key(s)}
		_, err := part.EachBound(ctx, w.Config.Store, query, func(page []store.Session) error {
			for i := range page {
				order.Sessions = append(order.Sessions, store.SessionRef{Pool: w.Config.Name, Session: page[i].Session, Epoch: page[i].Epoch})
			}
			return nil
		})
		if err != nil {
			w.Config.Logger.Warn("sessions of a leaving worker not read", "worker", s.id, "error", err)
		}
		return func() { w.retireWith(s, gen, order) }
	})
}

// retireWith has a worker leave, where it is still there.
func (w *Workers) retireWith(s *slot, gen messages.Generation, order *actors.Retire) {
	if member := s.member(gen); member != nil {
		w.Send(member.pid, order)
	}
}

// LeakChange says that a go handler was left behind, or has ended after all.
type LeakChange struct{ change int }

// LeakChanged counts the handlers that were left behind.
func (w *Workers) LeakChanged(m *LeakChange) {
	w.leaked += m.change
	if state, changed := w.tracker.Leaked(w.leaked); changed {
		w.stateChanged(state, fmt.Sprintf("%d handlers did not return", w.leaked))
	}
}

// Describe is the pool, as far as its workers know it; with used, of its workers only those that have run something or failed at it.
func (w *Workers) Describe(used bool) part.Description {
	d := part.Description{
		Name: w.Config.Name, Runtime: w.Config.Runtime.Name, State: w.tracker.State(),
		Cordoned: w.cordoned || w.nodeCordoned, Started: w.round.ended, Echo: w.echo.took, EchoLate: w.echo.late,
		Direct: w.Config.Direct,
	}
	if !used {
		d.Workers = make([]part.WorkerState, 0, len(w.slots))
	}
	switch d.State {
	case restart.Broken:
		d.Broken, _ = w.BrokenWhy()
	case restart.BackingOff:
		d.Failed, _ = w.BrokenWhy()
	}
	now := w.World.Now()
	for _, s := range w.slots {
		if s.onOldCode(w.Config.Fingerprint) {
			d.OldCode, d.Failed = d.OldCode+1, s.had().lastFailure
		}
		if s.dead && s.cur == nil {
			continue
		}
		state := s.describe(w, now)
		if length, why := w.unattached(s, now); length > 0 {
			state.Unattached, d.UnattachedWhy = length, why
		}
		if !used || state.Report.Used() {
			d.Workers = append(d.Workers, state)
		}
	}
	return d
}

// Slots is how many slots the pool has here.
func (w *Workers) Slots() int { return len(w.slots) }

// Gone reports whether no slot has a worker any more.
func (w *Workers) Gone() bool { return w.slots.gone() }

// BrokenWhy is why the pool's workers keep failing, and where their code does.
func (w *Workers) BrokenWhy() (why, trace string) {
	if w.leaked >= restart.LeakedMax {
		return fmt.Sprintf("%d handlers did not return", w.leaked), ""
	}
	for _, s := range w.slots {
		if had := s.had(); had.lastFailure != "" {
			return had.lastFailure, had.lastTrace
		}
	}
	return "every worker keeps failing", ""
}

// onOldCode reports whether the slot's worker runs the code from before a reload although the new one was tried.
func (s *slot) onOldCode(fingerprint string) bool {
	return s.cur != nil && s.cur.ready && !s.dead && s.cur.version != fingerprint && !s.had().replaceAt.IsZero()
}

func (s *slot) describe(w *Workers, now time.Time) part.WorkerState {
	had := s.had()
	d := part.WorkerState{
		Slot: s.number, ID: s.id, Cordoned: s.cordoned, Restarts: had.restarts, LastFailure: had.lastFailure, Beat: s.beat,
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
