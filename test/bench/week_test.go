package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// recorded is the part of a store that has what nodes record.
type recorded interface {
	Now(ctx context.Context) (time.Time, error)
	store.Rollups
	store.Journal
	store.Workers
}

// What a node recorded in a week.
const (
	weekKeys    = 20     // pools, actions, versions and outcomes that it counted each minute
	weekEvents  = 50_000 // transitions of workers in trouble
	weekEntries = 60_000 // of the journal
)

// recordWeek stores what a node that is gone recorded in the week that ends now, with its hours added up.
func recordWeek(b *testing.B, s recorded) {
	b.Helper()
	ctx, inc := context.Background(), messages.NewIncarnation()
	now, err := s.Now(ctx)
	if err != nil {
		b.Fatal(err)
	}
	begin := now.Add(-7*24*time.Hour + 2*time.Hour).Truncate(time.Hour)
	spread := func(i, of int) time.Time { return begin.Add(time.Duration(i) * now.Sub(begin) / time.Duration(of)) }
	for at := begin; at.Before(now.Add(-time.Hour)); at = at.Add(store.RollupBatch / weekKeys * time.Minute) {
		if err := s.SaveRollups(ctx, operate.StoredRows(inc, countedSince(at))); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; i < scaled(weekEvents); i += store.JournalBatch {
		events, healths := make([]store.WorkerEvent, store.JournalBatch), make([]string, store.JournalBatch)
		for k := range events {
			events[k] = store.WorkerEvent{
				Key: messages.WorkerKey{Incarnation: inc, Pool: "go", Slot: messages.Slot(k % 100)}, Generation: 1, At: spread(i+k, scaled(weekEvents)), Lasted: time.Minute,
				From: lifecycle.Ready.String(), To: lifecycle.Degraded.String(), Reason: lifecycle.RecoveryDegrade.String(),
			}
			if k%2 == 1 {
				events[k].From, events[k].To, events[k].Reason = events[k].To, events[k].From, lifecycle.HealthRestored.String()
			}
		}
		if err := s.RecordTransitions(ctx, events, healths); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; i < scaled(weekEntries); i += store.JournalBatch {
		entries := make([]messages.JournalEntry, store.JournalBatch)
		for k := range entries {
			entries[k] = messages.JournalEntry{
				At: spread(i+k, scaled(weekEntries)), Incarnation: inc, Number: int64(i + k + 1), Kind: messages.JournalPool, Subject: fmt.Sprint("pool", k%20),
				What: "condition", Reason: "workers_busy",
			}
		}
		if err := s.AppendJournal(ctx, entries); err != nil {
			b.Fatal(err)
		}
	}
	open, err := s.RollupFolds(ctx, store.FoldQuery{To: now.Add(-rollup.FoldAfter), Open: true})
	for _, hour := range open {
		if err == nil {
			err = operate.FoldHour(ctx, s, hour)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}

// countedSince is what was counted in as many minutes as one call stores.
func countedSince(at time.Time) (rows []rollup.Row) {
	for i := range store.RollupBatch {
		k := i % weekKeys
		r := rollup.Row{Minute: at.Add(time.Duration(i/weekKeys) * time.Minute), N: 40,
			Key: rollup.Key{Pool: fmt.Sprint("pool", k%4), Action: fmt.Sprint("pack.action", k/2), Version: "1", Status: messages.Completed}}
		if k%2 == 1 {
			r.N, r.Status, r.Code = 2, messages.Failed, "boom"
		}
		for n := range int(r.N) {
			r.Wait.Add(time.Duration(n) * time.Millisecond)
			r.Run.Add(time.Duration(n) * 10 * time.Millisecond)
		}
		rows = append(rows, r)
	}
	return rows
}
