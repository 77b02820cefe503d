package operate

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Journal returns a page of the journal, with what befell workers, which the store has apart, in its place.
func (q *executions) Journal(ctx context.Context, query store.JournalQuery) (store.JournalPage, error) {
	if len(query.Kinds) > 0 && !slices.Contains(query.Kinds, messages.JournalWorker) {
		return q.cfg.Store.ReadJournal(ctx, query)
	}
	workers, err := q.cfg.Store.ReadWorkerJournal(ctx, query)
	if err != nil {
		return workers, err
	}
	others := query
	others.Kinds = slices.DeleteFunc(slices.Clone(query.Kinds), func(k messages.JournalKind) bool { return k == messages.JournalWorker })
	if len(query.Kinds) > 0 && len(others.Kinds) == 0 {
		return workers, nil
	}
	page, err := q.cfg.Store.ReadJournal(ctx, others)
	if err != nil {
		return page, err
	}
	return store.MergeJournal(&query, workers, page), nil
}
