package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/store"
)

// Watch gives no hints: nobody else writes here.
func (s *Store) Watch(ctx context.Context) (<-chan store.Hint, error) {
	hints := make(chan store.Hint)
	go func() {
		defer close(hints)
		select {
		case <-ctx.Done():
		case <-s.quit:
		}
	}()
	return hints, nil
}

// TakeSubmissions returns nothing: the file has one node, so nobody else could have put anything there.
func (s *Store) TakeSubmissions(context.Context, time.Duration, int) ([]store.Submission, error) {
	return nil, nil
}

// SettleSubmissions has nothing to settle.
func (s *Store) SettleSubmissions(context.Context, []store.Settlement) error { return nil }
