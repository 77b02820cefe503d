package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/rules/rollup"
)

// Ledger says what became of the executions that were requested in a time, whose ends are taken to whole minutes: nodes count by minute.
func (q *executions) Ledger(ctx context.Context, from, to time.Time) (*rollup.Ledger, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, to = from.Truncate(time.Minute), to.Add(time.Minute-1).Truncate(time.Minute)
	in, err := q.cfg.Store.CountRequested(ctx, from, to)
	if err != nil {
		return nil, err
	}
	until := time.Time{}
	if cut := in.Until.Truncate(time.Minute); cut.After(from) { // the last minute is not whole
		until, to = cut, cut
		if in, err = q.cfg.Store.CountRequested(ctx, from, to); err != nil {
			return nil, err
		}
	} else if !in.Until.IsZero() {
		until = in.Until
	}
	around, err := q.around(ctx, from, to)
	if err != nil {
		return nil, err
	}
	counted := int64(0)
	_, cut, err := q.readRows(ctx, from, to, seriesRows, func(r *rollup.Row) {
		if r.Status == 0 {
			counted += r.N
		}
	})
	if err != nil {
		return nil, err
	}
	kept := time.Time{}
	if q.cfg.Retains > 0 {
		kept = now.Add(-q.cfg.Retains)
	}
	statuses := make([]rollup.Requested, len(in.Statuses))
	for i, s := range in.Statuses {
		statuses[i] = rollup.Requested(s)
	}
	l := rollup.NewLedger(from, to, statuses, around, counted, kept)
	l.Until = until
	if !cut.IsZero() {
		l.Notes = append(l.Notes, "the nodes' counts are read up to "+cut.UTC().Format(time.RFC3339)+", so later ones are not compared; ask for less time")
	}
	return l, nil
}

// around counts what was requested shortly before and behind a time, of which some was counted in it.
func (q *executions) around(ctx context.Context, from, to time.Time) (int64, error) {
	before, err := q.cfg.Store.CountRequested(ctx, from.Add(-rollup.LedgerBefore), from)
	if err != nil {
		return 0, err
	}
	behind, err := q.cfg.Store.CountRequested(ctx, to, to.Add(rollup.LedgerAfter))
	return before.All() + behind.All(), err
}
