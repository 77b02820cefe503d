package faulty

import (
	"context"

	"github.com/troupe-run/troupe/store"
)

// Attemptless wraps a store into one that gives claims and ends of runs to the attempt after theirs too, so that an old attempt's take effect on
// a newer one. It is a planted fault, which the checker of histories must find. All goes in one call: a node that has been frozen lives
// no longer than that.
func Attemptless(s store.Store) store.Store { return &attemptless{s} }

type attemptless struct{ store.Store }

// Apply implements store.Store.
func (s *attemptless) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	var all []store.Change
	for _, c := range changes {
		all = append(all, c)
		if n := onNext(c); n != nil {
			all = append(all, n)
		}
	}
	found, err := s.Store.Apply(ctx, all)
	if err != nil {
		return nil, err
	}
	out := make([]store.Result, 0, len(changes))
	for _, c := range changes {
		r := found[0]
		found = found[1:]
		if onNext(c) != nil {
			if r.Verdict == store.Stale && found[0].Verdict != store.Stale {
				r = found[0]
			}
			found = found[1:]
		}
		out = append(out, r)
	}
	return out, nil
}

// onNext is the change made of the attempt after its own; nil: it is no claim and no end of a run.
func onNext(c store.Change) store.Change {
	switch c := c.(type) {
	case *store.Claim:
		next := *c
		next.Attempt++
		return &next
	case *store.Finish:
		next := *c
		next.Attempt++
		return &next
	}
	return nil
}
