package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a walk over failures.
const (
	failuresTime = 60 * time.Millisecond // of one, but for the last page
	failuresPage = 500                   // executions of one page
	failuresLife = 24 * time.Hour        // how long before a failure its execution may have been requested
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
	f.Limit, f.From = failuresPage, from.Add(-failuresLife)
	groups, reached := failures.NewGroups(by), store.Page{More: store.MoreUnsearched}
	for end := time.Now().Add(limit); ; {
		page, err := q.cfg.Store.List(ctx, f)
		if err != nil {
			return nil, reached, err
		}
		for i := range page.Executions {
			if e := &page.Executions[i]; !e.FinishedAt.Before(from) && e.FinishedAt.Before(f.To) {
				groups.Add(e)
			}
		}
		if page.Next == 0 {
			return groups, store.Page{More: store.MoreEnd}, nil
		}
		page.Searched.Walked = reached.Searched.Walked + max(page.Searched.Walked, len(page.Executions))
		if reached.Searched = page.Searched; page.Searched.Walked >= store.ListWalk || time.Now().After(end) {
			return groups, reached, nil
		}
		f.Before = page.Next
	}
}
