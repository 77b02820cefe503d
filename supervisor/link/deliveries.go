package link

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// held is a delivery in the pool's hands: it is acked when each of its placements has been claimed or found stale. What the router of
// this node has handed over came by no delivery, and its Settler is nil.
type held struct {
	delivery broker.Delivery
	open     int
}

// heldFor is a placement's share in a delivery, with the slot that it is for.
type heldFor struct {
	*held
	slot messages.Slot
}

const (
	// prefetch is how many messages a worker may have unsettled: its window and one.
	prefetch = 21
	// sharedPrefetch is enough for the workers of one queue together, unless each needs a message for its run and one for the next. Where
	// more stands ahead of a worker than that, its runs are so short that few of so many workers can have work.
	sharedPrefetch = 4096
	// prefetchMax is what a broker takes.
	prefetchMax = 65_000
)

// prefetchOf is how many messages so many workers of one queue may have unsettled. With direct dispatch few executions come by the
// queue: a worker needs no place of its own there.
func prefetchOf(workers int, direct bool) int {
	shared := max(sharedPrefetch, 2*workers)
	if direct {
		shared = sharedPrefetch
	}
	return min(prefetch*workers, shared, prefetchMax)
}

// attachment is how one queue of the workers stands.
type attachment struct {
	delivers bool
	since    time.Time // when it ceased to deliver, or was first to
	why      string    // it does not, as far as it is known
}

// Attach has a queue deliver for so many workers, once.
func (l *Link) Attach(queue string, workers int) {
	if _, known := l.attached[queue]; !known {
		l.attach(queue, workers)
	}
}

func (l *Link) attach(queue string, workers int) {
	l.attached[queue] = attachment{since: l.World.Now(), why: l.attached[queue].why}
	l.Send(l.Config.Delivery, &actors.Attach{
		Queue: queue, Prefetch: prefetchOf(workers, l.Config.Direct), Topology: l.Config.Settings.WorkQueue(queue), Pool: l.Self,
	})
}

// Queues are the queues of this node's workers, in order.
func (l *Link) Queues() []string { return slices.Sorted(maps.Keys(l.attached)) }

// Brings reports whether what is placed on the workers of a queue is delivered.
func (l *Link) Brings(queue string) bool { return l.attached[queue].delivers }

// Unattached is since when a queue does not deliver, and why.
func (l *Link) Unattached(queue string) (since time.Time, why string) {
	a := l.attached[queue]
	return a.since, a.why
}

// attachWait is how long the pool waits for a delivery bridge that failed to be started again.
const attachWait = 100 * time.Millisecond

// BridgeEnded hears that the delivery bridge has ended; its supervisor starts another.
func (l *Link) BridgeEnded() { l.World.After(attachWait, l.attachAgain) }

// attachAgain asks a new delivery bridge for the queues that the old one had.
func (l *Link) attachAgain() {
	if l.Draining {
		return
	}
	l.Actor.Watch(l.Config.Delivery)
	for queue := range l.attached {
		l.attach(queue, l.workers.ShareQueue())
	}
}

// QueueAttached has the workers of a queue reported: what is placed on them now will be delivered.
func (l *Link) QueueAttached(m *actors.Attached) {
	switch a := l.attached[m.Queue]; {
	case m.OK:
		l.attached[m.Queue] = attachment{delivers: true}
	case a.delivers || a.since.IsZero():
		l.attached[m.Queue] = attachment{since: l.World.Now(), why: m.Why}
	default:
		l.attached[m.Queue] = attachment{since: a.since, why: m.Why}
	}
	l.workers.QueueAttached(m.Queue)
}

// Delivered gives a message's placements to its workers. A message for workers that are not here is not ours to keep.
func (l *Link) Delivered(d broker.Delivery) {
	work, err := broker.DecodeWork(d.Body)
	if err != nil {
		l.quarantine(d, err)
		return
	}
	if w := work[0].Worker; w.Incarnation != l.Config.Incarnation || w.Pool != l.Config.Name {
		l.quarantine(d, errors.New("addressed to a worker that this queue does not serve"))
		return
	}
	if l.WorkerConfig.Tracer != nil {
		now := l.World.Now()
		published := d.PublishedAt(now)
		for i := range work {
			work[i].Published, work[i].Arrived = published, now
		}
	}
	l.give(l.hold(d, work))
}

// Hand gives placements of this node's router to workers of this node.
func (l *Link) Hand(work []broker.Work) { l.give(l.hold(broker.Delivery{}, work)) }

// give gives placements to their workers.
func (l *Link) give(work []broker.Work) {
	for i := range work {
		if l.workers.Execute(&work[i]) {
			continue
		}
		for _, pl := range work[i].Placements { // its row first, then the ack
			l.TakeBack(&store.TakeBack{ID: pl.Execution, Attempt: pl.Attempt, Reason: "worker_gone"})
		}
	}
}

// hold keeps a delivery for those of its placements that no worker has claimed, and returns them. One that was claimed
// already has come twice.
func (l *Link) hold(d broker.Delivery, work []broker.Work) []broker.Work {
	h := &held{delivery: d}
	for i := range work {
		w := &work[i]
		w.Placements = slices.DeleteFunc(w.Placements, func(pl messages.Placement) bool {
			_, claimed := l.running[pl]
			return claimed
		})
		h.open += len(w.Placements)
	}
	for _, w := range work {
		for _, pl := range w.Placements {
			l.settled(pl)
			l.held[pl] = heldFor{h, w.Worker.Slot}
		}
	}
	if h.open == 0 {
		l.ack(h)
	}
	return slices.DeleteFunc(work, func(w broker.Work) bool { return len(w.Placements) == 0 })
}

// settled notes that a placement needs its delivery no more.
func (l *Link) settled(pl messages.Placement) {
	h, ok := l.held[pl]
	if !ok {
		return
	}
	delete(l.held, pl)
	if h.open--; h.open == 0 {
		l.ack(h.held)
	}
}

// ack settles the delivery, where there is one.
func (l *Link) ack(h *held) {
	if h.delivery.Settler != nil {
		l.Ack(h.delivery)
	}
}

// GiveBack takes back what a slot holds and has not claimed.
func (l *Link) GiveBack(n messages.Slot, reason, by string) {
	for pl, h := range l.held {
		if h.slot == n {
			l.TakeBack(&store.TakeBack{ID: pl.Execution, Attempt: pl.Attempt, Reason: reason, By: by})
		}
	}
}

// TakeBack has a placement returned, once: until the store has answered, it is not asked again.
func (l *Link) TakeBack(change *store.TakeBack) {
	pl := messages.Placement{Execution: change.ID, Attempt: change.Attempt}
	if _, asked := l.returning[pl]; asked {
		return
	}
	l.returning[pl] = struct{}{}
	l.Record(actors.Item{Change: change})
	if l.Config.Hooks.TakenBack != nil {
		l.Config.Hooks.TakenBack(l.Config.Name, change.Reason)
	}
}

// quarantine keeps a message that cannot be handled as a dead letter, then acks it; a store that does not answer sends
// it back after a while.
func (l *Link) quarantine(d broker.Delivery, cause error) {
	l.quarantined.Warn(l.Config.Logger, "message quarantined", "queue", d.Queue, "error", cause)
	letter := store.CutBody(store.DeadLetter{
		Queue: d.Queue, Reason: "malformed", Body: d.Body, Resolution: "quarantined: " + cause.Error(),
	})
	d.Body = nil
	h := &held{delivery: d, open: 1}
	l.malformed[h] = struct{}{}
	l.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		if _, err := l.Config.Store.SaveDeadLetter(ctx, letter); err != nil {
			return func() { l.World.After(l.RetryAfter(), func() { l.unkept(h) }) }
		}
		_ = d.Ack()
		return func() { delete(l.malformed, h) }
	})
}

// unkept sends back what the store did not keep as a dead letter.
func (l *Link) unkept(h *held) {
	delete(l.malformed, h)
	_ = h.delivery.Nack(true)
}
