package actors

import "time"

// BacklogState is what a recorder has not told the end of. All zero: nothing.
type BacklogState struct {
	Changes int       // in the queue, and of the transactions under way
	Oldest  time.Time // when the oldest of those was asked for
	Apart   int       // executions with changes that are tried apart from the others
	// ApartOldest is when the oldest of those changes was asked for, Why what the last try failed with.
	ApartOldest time.Time
	Why         error
	Committed   time.Time // when the store last took anything, while something waits
}

// State says what waits.
func (b *Backlog) State() BacklogState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := BacklogState{Changes: b.changes, Apart: len(b.apart.behind)}
	older := func(oldest *time.Time, group []pendingRecord) {
		for i := range group {
			if at := group[i].since; oldest.IsZero() || at.Before(*oldest) {
				*oldest = at
			}
		}
	}
	if len(b.waiting) > 0 {
		older(&s.Oldest, b.waiting[:1])
	}
	for _, f := range b.flights {
		s.Changes += f.changes
		older(&s.Oldest, f.group[:1])
	}
	for _, parts := range [][]*flight{b.apart.parts, b.apart.air} {
		for _, f := range parts {
			older(&s.ApartOldest, f.group)
		}
	}
	if s.Apart > 0 {
		s.Why = b.apart.why
	}
	if s.Changes > 0 || s.Apart > 0 {
		s.Committed = b.committed
	}
	return s
}
