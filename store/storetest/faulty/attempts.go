package faulty

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Attemptless wraps a store into one that matches claims and ends of runs by the execution alone, so that an old attempt's take
// effect on a newer one. It is a planted fault, which the checker of histories must find.
func Attemptless(s store.Store) store.Store { return &attemptless{s} }

type attemptless struct{ store.Store }

// Apply implements store.Store.
func (s *attemptless) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	changes = slices.Clone(changes)
	for i, c := range changes {
		switch c := c.(type) {
		case *store.Claim:
			newest := *c
			newest.Attempt = s.newest(ctx, c.ID, c.Attempt)
			changes[i] = &newest
		case *store.Finish:
			newest := *c
			newest.Attempt = s.newest(ctx, c.ID, c.Attempt)
			changes[i] = &newest
		}
	}
	return s.Store.Apply(ctx, changes)
}

// newest is the attempt that the execution has; the one given where it cannot be read.
func (s *attemptless) newest(ctx context.Context, id messages.ExecutionID, given messages.Attempt) messages.Attempt {
	e, err := s.Get(ctx, id)
	if err != nil {
		return given
	}
	return e.Attempt
}
