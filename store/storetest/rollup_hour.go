package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func (k *kit) hours(t *testing.T, q store.RollupQuery) (all []store.Rollup) {
	for range 100 {
		page, err := k.ReadRollupHours(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Rows), q.Size())
		if all = append(all, page.Rows...); !page.More {
			return all
		}
		last := page.Rows[len(page.Rows)-1]
		q.After = &last
	}
	t.Fatal("the hours have no end")
	return nil
}

func (k *kit) folds(t *testing.T, q store.FoldQuery) []store.Fold {
	folds, err := k.RollupFolds(t.Context(), q)
	require.NoError(t, err)
	return folds
}

// counted is a row of one execution in a minute.
func (k *kit) counted(minute time.Time, action string) store.Rollup {
	return store.Rollup{Minute: minute, Incarnation: k.inc, Pool: pool, Action: action, N: 1}
}

// testRollupFolds checks that a late minute makes its hour to be folded again, and an early one does not.
func testRollupFolds(t *testing.T, k *kit) {
	ctx := t.Context()
	now, err := k.Now(ctx)
	require.NoError(t, err)
	early, late := now.Add(-30*time.Minute).Truncate(time.Minute), now.Add(-50*time.Hour).Truncate(time.Hour)
	for i := range int64(3) {
		require.NoError(t, k.SaveRollups(ctx, []store.Rollup{k.counted(early, "a"), k.counted(late.Add(7*time.Minute), "a"), k.counted(late, "b"), k.counted(late.Add(-time.Minute), "a")}))
		require.Equal(t, []store.Fold{{Hour: late.Add(-time.Hour), Version: i + 1, Folded: -1}, {Hour: late, Version: i + 1, Folded: -1},
			{Hour: early.Truncate(time.Hour), Folded: -1}}, k.folds(t, store.FoldQuery{}))
	}
	require.NoError(t, k.FoldRollups(ctx, late, 3, nil))
	require.Equal(t, []store.Fold{{Hour: late, Version: 3, Folded: 3}}, k.folds(t, store.FoldQuery{From: late, To: late.Add(time.Hour)}))
	open := func(q store.FoldQuery) (hours []time.Time) {
		q.Open = true
		for _, f := range k.folds(t, q) {
			hours = append(hours, f.Hour)
		}
		return hours
	}
	require.Equal(t, []time.Time{late.Add(-time.Hour), early.Truncate(time.Hour)}, open(store.FoldQuery{}))
	require.Equal(t, []time.Time{late.Add(-time.Hour)}, open(store.FoldQuery{Limit: 1}))
	require.Empty(t, open(store.FoldQuery{From: late, To: late.Add(time.Hour)}))
	require.NoError(t, k.SaveRollups(ctx, []store.Rollup{k.counted(late, "c")}))
	require.Equal(t, []time.Time{late}, open(store.FoldQuery{From: late, To: late.Add(time.Hour)}))
	require.Len(t, k.rollups(t, store.RollupQuery{From: late, To: late.Add(time.Minute)}), 2)
}

// testRollupHours checks that a fold replaces the rows of its hour, that one of an older version changes nothing, and that pages have each
// row once.
func testRollupHours(t *testing.T, k *kit) {
	ctx := t.Context()
	hour := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	row := func(hour time.Time, pool, action string, n int64) store.Rollup {
		return store.Rollup{Minute: hour, Pool: pool, Action: action, Version: "1", Status: messages.Failed, Code: "odd\xff", N: n, Wait: []byte{1, 2}, Run: []byte{0, 255}}
	}
	require.NoError(t, k.FoldRollups(ctx, hour, 0, []store.Rollup{row(hour, "p", "a", 1)}), "no minute of it is stored")
	require.Empty(t, k.hours(t, store.RollupQuery{}))
	require.NoError(t, k.SaveRollups(ctx, []store.Rollup{k.counted(hour, "a"), k.counted(hour.Add(time.Hour), "a")}))
	first := []store.Rollup{row(hour, "p\x00ü", "a", 7), {Minute: hour, Pool: "p", Action: "a", N: 3}, {Minute: hour, N: 1}}
	for range 2 {
		require.NoError(t, k.FoldRollups(ctx, hour, 1, first))
		require.ElementsMatch(t, first, k.hours(t, store.RollupQuery{}))
	}
	require.NoError(t, k.SaveRollups(ctx, []store.Rollup{k.counted(hour, "b")}))
	require.NoError(t, k.FoldRollups(ctx, hour, 1, []store.Rollup{row(hour, "p", "late", 1)}))
	require.ElementsMatch(t, first, k.hours(t, store.RollupQuery{}), "a minute was stored after that version")
	require.Equal(t, int64(1), k.folds(t, store.FoldQuery{})[0].Folded)
	second := []store.Rollup{row(hour, "q", "a", 9)}
	require.NoError(t, k.FoldRollups(ctx, hour, 2, second))
	require.Equal(t, second, k.hours(t, store.RollupQuery{}))

	next, want := hour.Add(time.Hour), map[string]int{}
	var rows []store.Rollup
	for i := range 60 {
		rows = append(rows, row(next, fmt.Sprint("p", i%2), fmt.Sprint(i), int64(i)))
		want[fmt.Sprint(rows[i])]++
	}
	require.NoError(t, k.FoldRollups(ctx, next, 1, rows))
	for _, limit := range []int{1, 7, 1000} {
		seen := map[string]int{}
		for _, r := range k.hours(t, store.RollupQuery{From: next, To: next.Add(time.Hour), Limit: limit}) {
			seen[fmt.Sprint(r)]++
		}
		require.Equal(t, want, seen, "in pages of %d", limit)
	}
	require.Len(t, k.hours(t, store.RollupQuery{To: next}), 1)

	for name, bad := range map[string]store.Rollup{
		"another hour": {Minute: next}, "a node's": {Minute: hour, Incarnation: k.inc}, "below zero": {Minute: hour, N: -1},
		"long": {Minute: hour, Run: make([]byte, store.RollupTimeMax+1)},
	} {
		require.ErrorIs(t, k.FoldRollups(ctx, hour, 2, []store.Rollup{bad}), store.ErrInvalid, name)
	}
	require.ErrorIs(t, k.FoldRollups(ctx, hour.Add(time.Minute), 2, nil), store.ErrInvalid)
	require.ErrorIs(t, k.FoldRollups(ctx, hour, 2, make([]store.Rollup, store.RollupHourMax+1)), store.ErrInvalid)

	purged, err := k.Purge(ctx, store.Purge{HoursBefore: next, Limit: 1000})
	require.NoError(t, err)
	require.Equal(t, store.Purged{Rows: 1}, purged)
	require.Len(t, k.hours(t, store.RollupQuery{}), 60)
	require.Equal(t, []store.Fold{{Hour: next, Version: 1, Folded: 1}}, k.folds(t, store.FoldQuery{}))
	require.Len(t, k.rollups(t, store.RollupQuery{}), 3, "the minutes have a time of their own")
}

// testRollupFoldRaces checks that an hour has all its minutes once no fold is left to do, while nodes store late minutes and fold.
func testRollupFoldRaces(t *testing.T, k *kit) {
	ctx := t.Context()
	hour := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	fold := func() error {
		open, err := k.RollupFolds(ctx, store.FoldQuery{Open: true})
		if err != nil || len(open) == 0 {
			return err
		}
		page, err := k.ReadRollups(ctx, store.RollupQuery{})
		if err != nil {
			return err
		}
		return k.FoldRollups(ctx, hour, open[0].Version, []store.Rollup{{Minute: hour, Pool: pool, Action: "all", N: int64(len(page.Rows))}})
	}
	const rounds = 20
	var all sync.WaitGroup
	errs := make(chan error, 4*rounds)
	for node := range 2 {
		all.Go(func() {
			for i := range rounds {
				errs <- k.SaveRollups(ctx, []store.Rollup{k.counted(hour, fmt.Sprint(node, " ", i))})
			}
		})
		all.Go(func() {
			for range rounds {
				errs <- fold()
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, fold())
	require.Empty(t, k.folds(t, store.FoldQuery{Open: true}))
	require.Equal(t, int64(2*rounds), k.hours(t, store.RollupQuery{})[0].N)
}
