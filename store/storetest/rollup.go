package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func (k *kit) rollups(t *testing.T, q store.RollupQuery) (all []store.Rollup) {
	for range 100 {
		page, err := k.ReadRollups(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Rows), q.Size())
		if all = append(all, page.Rows...); !page.More {
			return all
		}
		last := page.Rows[len(page.Rows)-1]
		q.After = &last
	}
	t.Fatal("the rollups have no end")
	return nil
}

// testRollups checks that a row keeps every field, that a later write replaces it, and that pages have each row once.
func testRollups(t *testing.T, k *kit) {
	ctx := t.Context()
	minute := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	require.Empty(t, k.rollups(t, store.RollupQuery{}))
	whole := store.Rollup{Minute: minute, Incarnation: k.inc, Pool: "p\x00ü", Action: "a.b", Version: "1.2", Status: messages.Failed, Code: "odd\xff", N: 7,
		Wait: []byte{1, 2}, Run: []byte{0, 255}}
	submitted := store.Rollup{Minute: minute, Incarnation: k.inc, Pool: "p", Action: "a.b", N: 3}
	for range 2 {
		require.NoError(t, k.SaveRollups(ctx, []store.Rollup{whole, submitted}))
	}
	got := k.rollups(t, store.RollupQuery{})
	require.ElementsMatch(t, []store.Rollup{whole, submitted}, got)
	whole.N, whole.Wait, whole.Run = 9, []byte{3}, nil
	require.NoError(t, k.SaveRollups(ctx, []store.Rollup{whole}))
	require.ElementsMatch(t, []store.Rollup{whole, submitted}, k.rollups(t, store.RollupQuery{}))
	bare := whole
	bare.Wait = nil
	require.ElementsMatch(t, []store.Rollup{bare, submitted}, k.rollups(t, store.RollupQuery{Bare: true}))

	other := messages.NewIncarnation()
	want := map[string]int64{}
	var rows []store.Rollup
	for i := range 60 {
		r := store.Rollup{Minute: minute.Add(time.Duration(1+i/20) * time.Minute), Incarnation: other, Pool: fmt.Sprint("pool", i%2),
			Action: fmt.Sprint("a", i%5), Status: messages.Status(i % 3), Code: fmt.Sprint("c", i%20), N: int64(i)}
		rows = append(rows, r)
		want[fmt.Sprint(r)]++
	}
	require.NoError(t, k.SaveRollups(ctx, rows))
	for _, limit := range []int{1, 7, 1000} {
		seen, last := map[string]int64{}, time.Time{}
		for _, r := range k.rollups(t, store.RollupQuery{From: minute.Add(time.Minute), To: minute.Add(4 * time.Minute), Limit: limit}) {
			require.False(t, r.Minute.Before(last))
			last = r.Minute
			seen[fmt.Sprint(r)]++
		}
		require.Equal(t, want, seen, "in pages of %d", limit)
	}
	require.Len(t, k.rollups(t, store.RollupQuery{From: minute.Add(2 * time.Minute), To: minute.Add(3 * time.Minute)}), 20)

	for name, bad := range map[string]store.Rollup{
		"no incarnation": {Minute: minute}, "no minute": {Incarnation: k.inc}, "half a minute": {Minute: minute.Add(time.Second), Incarnation: k.inc},
		"below zero": {Minute: minute, Incarnation: k.inc, N: -1}, "long": {Minute: minute, Incarnation: k.inc, Run: make([]byte, store.RollupTimeMax+1)},
	} {
		require.ErrorIs(t, k.SaveRollups(ctx, []store.Rollup{submitted, bad}), store.ErrInvalid, name)
	}
	require.ErrorIs(t, k.SaveRollups(ctx, make([]store.Rollup, store.RollupBatch+1)), store.ErrInvalid)

	purged, err := k.Purge(ctx, store.Purge{MinutesBefore: minute.Add(time.Minute), Limit: 1000})
	require.NoError(t, err)
	require.Equal(t, 2, purged.Rows)
	require.Len(t, k.rollups(t, store.RollupQuery{}), 60)
}
