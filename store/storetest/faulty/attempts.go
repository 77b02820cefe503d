package faulty

import (
	"context"

	"github.com/troupe-run/troupe/store"
)

// Attemptless wraps a store so that claims and ends of runs are also made for the next attempt: an old attempt then
// affects a newer one. It is a planted fault that the checker of histories must find. Both are made in one call,
// because a node that was frozen lives no longer than that.
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

// onNext returns the change for the next attempt; nil: it is no claim and no end of a run.
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
