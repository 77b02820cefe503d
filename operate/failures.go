package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a walk over failures.
const (
	failuresTime = 60 * time.Millisecond // of one
	failuresPage = 500                   // executions of one page
)

// Failures groups the executions of a filter that failed in its time. From and To are times of the end: it looks at what was requested
// up to a day before, the newest first, until it has looked at as many as one page of a list may, or for failuresTime. The page has no
// executions, and says how far it came.
func (q *executions) Failures(ctx context.Context, f store.Filter, by failures.By) (*failures.Groups, store.Page, error) {
	return q.groupFailures(ctx, f, by, failuresTime)
}

// groupFailures looks for so long, at one page at least.
func (q *executions) groupFailures(ctx context.Context, f store.Filter, by failures.By, limit time.Duration) (*failures.Groups, store.Page, error) {
	from := f.From
	f.Limit, f.From = failuresPage, from.Add(-store.EndedLife)
	groups := failures.NewGroups(by)
	reached, err := walk(ctx, q.cfg.Store, f, store.ListWalk, limit, func(e *messages.Execution) {
		if !e.FinishedAt.Before(from) && e.FinishedAt.Before(f.To) {
			groups.Add(e)
		}
	})
	return groups, reached, err
}
