package supervisor

import (
	"context"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// settleLost decides the fate of what ran on a worker whose actor failed, once its process is gone.
func (p *Pool) settleLost(s *slot, m *member) {
	for pl, n := range p.running {
		if n == s.number {
			p.rescueLost(pl, m.osPid, s.number, "worker actor failed")
		}
	}
}

// rescueLost reads an execution whose worker is gone and has its rescue or its outcome written.
func (p *Pool) rescueLost(pl messages.Placement, pid int, n messages.Slot, why string) {
	p.readLost(lostRead{placement: pl, slot: n, why: why}, []int{pid})
}

// rescueStray does the same for one whose claim was refused because it runs, which this actor knows nothing of: it was begun
// under the actor before this one, and is lost unless the process that has it is one of this actor's. Where processes of that
// actor may still end, it waits for them.
func (p *Pool) rescueStray(pl messages.Placement, n messages.Slot) {
	p.readLost(lostRead{placement: pl, slot: n, why: restartedWhy, stray: true}, p.before)
}

// readLost reads what is lost once the processes are gone that may have it.
func (p *Pool) readLost(m lostRead, pids []int) {
	p.world.Beside(3*storeTimeout, func(ctx context.Context) func() {
		for _, pid := range pids {
			awaitExit(ctx, pid)
		}
		m.execution, m.err = p.cfg.Store.Get(ctx, m.placement.Execution)
		return func() { p.lostRead(&m) }
	})
}

// lostRead brings an execution whose worker is gone.
type lostRead struct {
	placement messages.Placement
	execution messages.Execution
	err       error
	slot      messages.Slot
	why       string
	stray     bool // it may run
}

func (p *Pool) lostRead(m *lostRead) {
	if m.err != nil {
		p.cfg.Logger.Warn("lost execution not read, reading again", "execution", m.placement.Execution, "error", m.err)
		p.world.After(p.retryAfter(), func() { p.readLost(*m, nil) })
		return
	}
	e := &m.execution
	if m.stray && (e.Worker.Incarnation != p.cfg.Incarnation || p.slot(e.Worker.Slot).member(e.Generation) != nil) {
		return
	}
	if e.Attempt != m.placement.Attempt || e.Status.Terminal() { // somebody else has settled it
		delete(p.running, m.placement)
		p.step(roster.Ended{Placement: m.placement, Unseen: true})
		return
	}
	item := actors.Item{Worker: messages.WorkerKey{Incarnation: p.cfg.Incarnation, Pool: p.cfg.Name, Slot: m.slot}, Fault: true}
	item.Change = p.rescueChange(e, m.why)
	if item.Change != nil {
		p.pending.items = append(p.pending.items, item)
	}
}

// rescueChange is what becomes of an execution whose worker is gone; nil: nothing.
func (p *Pool) rescueChange(e *messages.Execution, why string) store.Change {
	return RescueChange(p.crew, e, "pool supervisor", why)
}

// RescueChange is the change that a lost worker's execution gets: placed again, ended with or without a retry, or nil
// where no worker holds it.
func RescueChange(crew *actors.Crew, e *messages.Execution, by, why string) store.Change {
	rescued := retry.Rescue(e, by, why)
	switch {
	case rescued.Action == retry.Leave:
		return nil
	case rescued.Action == retry.PlaceAgain && e.Status == messages.Scheduled:
		return &store.TakeBack{ID: e.ID, Attempt: e.Attempt, Reason: why}
	case rescued.Action == retry.PlaceAgain:
		return &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: why}
	default:
		finish := &store.Finish{ID: e.ID, Attempt: e.Attempt}
		finish.Outcome, finish.Retry = crew.RetryOf(e, rescued.Outcome)
		return finish
	}
}
