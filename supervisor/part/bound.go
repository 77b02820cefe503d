package part

import (
	"context"

	"github.com/troupe-run/troupe/store"
)

// boundMax bounds the bound sessions that one look at the store brings, some 300 bytes each.
const boundMax = 200_000

// EachBound reads what is bound, page by page. more: there is more than boundMax.
func EachBound(ctx context.Context, s store.Sessions, q store.BoundQuery, do func(page []store.Session) error) (more bool, err error) {
	q.Limit = store.BoundMax
	for read := 0; read < boundMax; {
		page, err := s.BoundSessions(ctx, q)
		if err != nil || len(page) == 0 {
			return false, err
		}
		if err := do(page); err != nil {
			return false, err
		}
		if len(page) < q.Limit {
			return false, nil
		}
		read, q.After = read+len(page), page[len(page)-1]
	}
	return true, nil
}
