package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a series.
const (
	seriesRows  = 200_000          // that are read for one
	seriesKnown = 12 * time.Second // how long after an event its count is in the store
)

// Series returns what the nodes counted. Where it is more than is read for one answer, Until says up to when it is known.
func (q *executions) Series(ctx context.Context, query rollup.Query) (*rollup.Series, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	s := rollup.NewSeries(query)
	if known := now.Add(-seriesKnown); s.Until.After(known) {
		s.Until = known
	}
	read := store.RollupQuery{From: s.From, To: query.To}
	for n := 0; ; {
		page, err := q.cfg.Store.ReadRollups(ctx, read)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			s.Add(rowOf(&page.Rows[i]))
		}
		if n += len(page.Rows); !page.More {
			return s.Done(), nil
		}
		last := page.Rows[len(page.Rows)-1]
		if read.After = &last; n >= seriesRows {
			s.Until = last.Minute
			return s.Done(), nil
		}
	}
}

func rowOf(r *store.Rollup) *rollup.Row {
	return &rollup.Row{
		Minute: r.Minute, N: r.N, Wait: rollup.Decode(r.Wait), Run: rollup.Decode(r.Run),
		Key: rollup.Key{Pool: r.Pool, Action: r.Action, Version: r.Version, Status: r.Status, Code: messages.Code(r.Code)},
	}
}
