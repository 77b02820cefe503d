package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// How often hours are folded, and how many at once: as many as take about a second, so that a week that nobody folded, as after an upgrade, is
// folded in some minutes beside the node's work.
const (
	foldsEvery = time.Minute
	foldsMax   = 100
	foldsFor   = time.Second
)

// folds adds the counts of minutes up to those of hours. Every node does, and which of them stores an hour does not matter: each stores the
// same, or what the store refuses because a late minute has come meanwhile.
type folds struct{ *base }

func (f *folds) round(ctx context.Context) error { return f.fold(ctx, time.Now().Add(foldsFor)) }

// fold folds some of the hours that are old enough: one, and further ones until a time. Hours whose minutes may be deleted meanwhile are left
// as they are.
func (f *folds) fold(ctx context.Context, until time.Time) error {
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	open := store.FoldQuery{To: now.Add(time.Second - rollup.FoldAfter), Open: true, Limit: foldsMax}
	if kept := f.cfg.minutesKept(); kept > 0 {
		open.From = now.Add(time.Hour - kept).Truncate(time.Hour).Add(time.Hour)
	}
	hours, err := f.store.RollupFolds(ctx, open)
	if err != nil {
		return err
	}
	for _, hour := range hours {
		if err := operate.FoldHour(ctx, f.store, hour); err != nil {
			return err
		}
		if time.Now().After(until) {
			return nil
		}
	}
	return nil
}
