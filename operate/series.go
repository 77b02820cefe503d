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
	if q.cfg.Counted > 0 {
		from := now.Add(-q.cfg.Counted)
		s.KnownFrom = &from
	}
	_, cut, err := q.readRows(ctx, s.From, query.To, seriesRows, s.Add)
	if err != nil {
		return nil, err
	}
	if !cut.IsZero() {
		s.Until = cut
	}
	return s.Done(), nil
}

// Digest returns what the counts of the last two hours say at first sight.
func (q *executions) Digest(ctx context.Context) (*rollup.Digest, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	d, room := rollup.NewDigest(now.Add(-seriesKnown)), seriesRows
	for _, span := range d.Spans() {
		read, cut, err := q.readRows(ctx, span[0], span[1], room, d.Add)
		if err != nil {
			return nil, err
		}
		if room -= read; room <= 0 || !cut.IsZero() {
			d.Partial = true
			break
		}
	}
	return d.Done(), nil
}

// readRows gives each row of a time, by their minutes, up to about so many. Cut is the minute at which it has met that bound; zero: it
// has read all.
func (q *executions) readRows(ctx context.Context, from, to time.Time, most int, each func(*rollup.Row)) (n int, cut time.Time, err error) {
	read := store.RollupQuery{From: from, To: to}
	for {
		page, err := q.cfg.Store.ReadRollups(ctx, read)
		if err != nil {
			return n, cut, err
		}
		for i := range page.Rows {
			each(rowOf(&page.Rows[i]))
		}
		if n += len(page.Rows); !page.More {
			return n, cut, nil
		}
		last := page.Rows[len(page.Rows)-1]
		if read.After = &last; n >= most {
			return n, last.Minute, nil
		}
	}
}

func rowOf(r *store.Rollup) *rollup.Row {
	return &rollup.Row{
		Minute: r.Minute, N: r.N, Wait: rollup.Decode(r.Wait), Run: rollup.Decode(r.Run),
		Key: rollup.Key{Pool: r.Pool, Action: r.Action, Version: r.Version, Status: r.Status, Code: messages.Code(r.Code)},
	}
}
