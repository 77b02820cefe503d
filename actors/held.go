package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
)

// heldAgain is how long what a failed bridge had in its hands stays away. One of these messages may be why it failed, and it
// comes again: a bridge that fails once in this time stays within the intensity of its supervisor (5 failures in 10 s).
const heldAgain = 3 * time.Second

// Held is what a bridge has of its queue and has not settled. It outlives the actor: one that fails is followed by one that
// gives it all back. What a mailbox lost would stay unsettled for as long as the connection lives.
type Held struct {
	mu      sync.Mutex
	waiting []broker.Delivery
	taken   []broker.Delivery
}

// heldWaits says that messages have come.
type heldWaits struct{}

// keep is a bridge's Keep.
func (h *Held) keep(message any) (any, bool) {
	m, ok := message.(*Delivered)
	if !ok {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, m.Deliveries...)
	return &heldWaits{}, true
}

// take hands out everything that waits.
func (h *Held) take() []broker.Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	group := h.waiting
	h.taken, h.waiting = append(h.taken, group...), nil
	return group
}

// forget lets go of what is settled, or will be without the actor.
func (h *Held) forget(group ...broker.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken = slices.DeleteFunc(h.taken, func(d broker.Delivery) bool {
		return slices.ContainsFunc(group, func(g broker.Delivery) bool { return g.Settler == d.Settler })
	})
}

// giveBack returns all to the queue: at once what nobody has looked at, after a while what was in hand. Settled ones are not
// touched by that.
func (h *Held) giveBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken, waiting := h.taken, h.waiting
	h.taken, h.waiting = nil, nil
	for _, d := range waiting {
		_ = d.Nack(true)
	}
	nackLater(heldAgain, taken...)
}

// nackLater gives messages back to their queue after a while, also where the actor that had them ends before: so the timer is no
// World's.
func nackLater(after time.Duration, all ...broker.Delivery) {
	time.AfterFunc(after, func() {
		for _, d := range all {
			_ = d.Nack(true)
		}
	})
}

// begin gives back what the actor before this one held, and looks later for what a sender has added that had looked that
// one up: its signal went there.
func (h *Held) begin(world World, look func()) {
	h.giveBack()
	world.After(lateTime, look)
}

// actorEnded reports whether the actor has ended whose work has this context, and not only the time for the work.
func actorEnded(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
