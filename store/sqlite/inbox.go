package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/store"
)

// Watch sends no hints: no other program writes here.
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

// TakeSubmissions returns nothing: the file has one node, so no other program can submit here.
func (s *Store) TakeSubmissions(context.Context, time.Duration, int) ([]store.Submission, error) {
	return nil, nil
}

// SettleSubmissions does nothing, because there are no submissions.
func (s *Store) SettleSubmissions(context.Context, []store.Settlement) error { return nil }
