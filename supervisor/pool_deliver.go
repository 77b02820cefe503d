package supervisor

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// held is a delivery in the pool's hands: it is acked when each of its placements has been claimed or found stale.
type held struct {
	delivery broker.Delivery
	open     int
}

// heldFor is a placement's share in a delivery, with the slot that it is for.
type heldFor struct {
	*held
	slot messages.Slot
}

// prefetch is how many messages a worker may have unsettled: its window and one.
const prefetch = 21

func (p *Pool) attach(queue string, workers int) {
	p.attached[queue] = false
	p.cfg.System.Send(p.cfg.Delivery, &actors.Attach{
		Queue: queue, Prefetch: min(prefetch*workers, 65_000), Topology: p.cfg.Settings.WorkQueue(queue), Pool: p.self,
	})
}

// attachWait is how long the pool waits for a delivery bridge that failed to be started again.
const attachWait = 100 * time.Millisecond

// attachAgain asks a new delivery bridge for the queues that the old one had.
func (p *Pool) attachAgain() {
	if p.draining != nil {
		return
	}
	p.actor.Watch(p.cfg.Delivery)
	for queue := range p.attached {
		workers := 1
		if p.shared() {
			workers = len(p.slots)
		}
		p.attach(queue, workers)
	}
}

// queueAttached makes the workers of a queue known to the roster: what is placed on them now will be delivered.
func (p *Pool) queueAttached(m *actors.Attached) {
	p.attached[m.Queue] = m.OK
	for _, s := range p.slots {
		if p.queueOf(s) == m.Queue {
			p.seen(s)
		}
	}
}

// delivered takes messages from the bridge.
func (p *Pool) delivered(m *actors.Delivered) {
	for _, d := range m.Deliveries {
		if id, echo := d.Headers[echoHeader]; echo {
			p.echoDelivered(d, id)
			continue
		}
		work, err := broker.DecodeWork(d.Body)
		if err != nil {
			p.quarantine(d, err)
			continue
		}
		p.hand(d, work)
	}
}

// hand gives a message's placements to its workers. A message for workers that are not here is not ours to keep.
func (p *Pool) hand(d broker.Delivery, work []broker.Work) {
	if w := work[0].Worker; w.Incarnation != p.cfg.Incarnation || w.Pool != p.cfg.Name {
		p.quarantine(d, errors.New("addressed to a worker that this queue does not serve"))
		return
	}
	for _, w := range p.hold(d, work) {
		p.give(w)
	}
}

// give hands a worker what a message has for it.
func (p *Pool) give(w broker.Work) {
	s := p.slot(w.Worker.Slot)
	if s == nil || s.cur == nil || s.cur.state >= lifecycle.Terminating || s.cur.spent || s.retiring || p.draining != nil {
		for _, pl := range w.Placements { // its row first, then the ack
			p.takeBack(pl, "worker_gone", 0)
		}
		return
	}
	ahead := 1
	if w.Ahead {
		ahead = aheadMax
	}
	p.send(s.cur.pid, &actors.Execute{Placements: w.Placements, Ahead: ahead})
}

// hold keeps a delivery for those of its placements that no worker has claimed, and returns them. One that was claimed
// already has come twice.
func (p *Pool) hold(d broker.Delivery, work []broker.Work) []broker.Work {
	d = received(d)
	h := &held{delivery: d}
	for i := range work {
		w := &work[i]
		w.Placements = slices.DeleteFunc(w.Placements, func(pl messages.Placement) bool {
			_, claimed := p.running[pl]
			return claimed
		})
		h.open += len(w.Placements)
	}
	for _, w := range work {
		for _, pl := range w.Placements {
			p.settled(pl)
			p.held[pl] = heldFor{h, w.Worker.Slot}
		}
	}
	if h.open == 0 {
		p.pending.acks = append(p.pending.acks, d)
	}
	return slices.DeleteFunc(work, func(w broker.Work) bool { return len(w.Placements) == 0 })
}

// settled notes that a placement needs its delivery no more.
func (p *Pool) settled(pl messages.Placement) {
	h, ok := p.held[pl]
	if !ok {
		return
	}
	delete(p.held, pl)
	if h.open--; h.open == 0 {
		p.pending.acks = append(p.pending.acks, h.delivery)
	}
}

// dropHeld takes back everything that a slot holds unclaimed.
func (p *Pool) dropHeld(s *slot, reason string) {
	for pl, h := range p.held {
		if h.slot == s.number {
			p.giveBack(&store.TakeBack{ID: pl.Execution, Attempt: pl.Attempt, Reason: reason, By: s.by})
		}
	}
}

// quarantine keeps a message that cannot be handled as a dead letter, then acks it; a store that does not answer sends
// it back after a while.
func (p *Pool) quarantine(d broker.Delivery, cause error) {
	p.logs.quarantined.Warn(p.cfg.Logger, "message quarantined", "queue", d.Queue, "error", cause)
	letter := store.CutBody(store.DeadLetter{
		Queue: d.Queue, Reason: "malformed", Body: d.Body, Resolution: "quarantined: " + cause.Error(),
	})
	d.Body = nil
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		if _, err := p.cfg.Store.SaveDeadLetter(ctx, letter); err != nil {
			time.AfterFunc(p.retryAfter(), func() { _ = d.Nack(true) }) // whatever becomes of the pool
			return nil
		}
		_ = d.Ack()
		return nil
	})
}

// takeOver reads what the store holds of the pool: the sessions, and what this incarnation had placed before this
// actor was started again.
func (p *Pool) takeOver() {
	before := p.before // of the actor before this one
	p.reads.begin()
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		limited, cancel := context.WithTimeout(ctx, storeTimeout/2)
		defer cancel()
		for _, pid := range before { // what ran there is placed again only once it is gone
			awaitExit(limited, pid)
		}
		read, err := p.readPool(ctx)
		if err == nil {
			return func() { p.sessionsLoaded(read) }
		}
		p.cfg.Logger.Warn("pool state not read, reading again", "error", err)
		return func() { p.world.After(p.retryAfter(), p.takeOverAgain) }
	})
}

// readPool reads what is placed, then the pool's bound sessions, then which nodes live. Of the other sessions the store is
// asked once they are used: it refuses a placement that does not know the epoch. So a run that is not placed any more has ended in
// what is read of its session, and a node that something is bound to is listed, or has ended.
func (p *Pool) readPool(ctx context.Context) (*sessionsLoaded, error) {
	read := &sessionsLoaded{first: true}
	var err error
	if read.live, err = p.cfg.Store.Live(ctx, p.cfg.Name); err != nil {
		return nil, err
	}
	more, err := eachBound(ctx, p.cfg.Store, store.BoundQuery{Pool: p.cfg.Name}, func(page []store.Session) error {
		read.sessions = append(read.sessions, page...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if more {
		p.cfg.Logger.Warn("more sessions are bound than a router loads; the others are read when they are used", "sessions", len(read.sessions))
	}
	read.nodes, err = p.liveNodes(ctx)
	return read, err
}

// takeOverAgain repeats the questions of a take-over that the store did not answer.
func (p *Pool) takeOverAgain() {
	p.reads.end(nil, nil)
	p.takeOver()
}

func (p *Pool) sessionsLoaded(m *sessionsLoaded) {
	var doubted []string
	if m.first {
		m.live, doubted = p.reads.end(m.sessions, m.live)
	}
	for i := range m.sessions {
		s := &m.sessions[i]
		if !m.asked && s.Epoch < p.roster.Epoch(s.Session) {
			continue // a newer binding was made after this was read
		}
		worker, started := s.Worker, s.StartedEpoch
		switch {
		case worker.Incarnation == p.cfg.Incarnation || p.follows(worker):
			delete(p.abroad.sessions, s.Session)
		case !p.boundAbroad(s, m.nodes):
			worker = messages.WorkerKey{} // its node is gone
		case started == 0:
			started = s.Epoch // it may begin there at any time, and this pool does not hear of it
		}
		moved := movedOf(s, worker, started)
		moved.Asked = m.asked
		p.step(moved)
	}
	if !m.first {
		return
	}
	for i := range m.live {
		if e := &m.live[i]; e.Worker.Incarnation == p.cfg.Incarnation && !p.rescueOwn(e) {
			p.takeUp(e, m.nodes, p.standsHere(e.Placement()))
		}
	}
	p.doubt(doubted)
	p.before, p.inherited = nil, nil // they have been settled
	p.step(roster.Wake{})
}

// restartedWhy is why something is placed again that an earlier actor of the pool had.
const restartedWhy = "the pool's supervisor was started again"

// rescueOwn gives back what an earlier actor of this pool had on workers that went with it; false: it is none of that. What
// a generation of this actor's has claimed, before the answer was read, is not lost.
func (p *Pool) rescueOwn(e *messages.Execution) bool {
	if len(p.inherited) == 0 || p.standsHere(e.Placement()) != notHere {
		return false
	}
	if e.Status.Started() && e.Generation > p.inherited[e.Worker.Slot] {
		return false
	}
	if change := p.rescueChange(e, restartedWhy); change != nil {
		p.pending.items = append(p.pending.items, actors.Item{Change: change, Worker: e.Worker})
	}
	return true
}

// awaitExit waits until a process is gone, or ctx ends.
func awaitExit(ctx context.Context, pid int) {
	for pid > 0 && syscall.Kill(pid, 0) == nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }
