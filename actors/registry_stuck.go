package actors

import (
	"maps"
	"slices"
	"time"
)

// Waiting is an actor with messages in its mailbox.
type Waiting struct {
	ID           string
	MailboxDepth int
	Handled      uint64 // messages that it has begun to handle
}

// Waiting returns the live actors whose messages wait, in no order.
func (r *Registry) Waiting() []Waiting {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []Waiting
	for id, e := range r.live {
		if depth := e.mailbox.count(); depth > 0 {
			list = append(list, Waiting{ID: id, MailboxDepth: depth, Handled: e.handled.Load()})
		}
	}
	return list
}

// setStuck takes the observer's word on which actors are stuck, and since when.
func (r *Registry) setStuck(stuck map[string]time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck = stuck
}

// Stuck lists the actors that have handled one message for too long while others wait, by id.
func (r *Registry) Stuck() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.stuck))
}
