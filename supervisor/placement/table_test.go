package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescribingAgainKeepsTheOrder(t *testing.T) {
	t.Parallel()
	table := settled(free, free, free)
	first := table.Pick(&Request{}, start()).Worker
	for slot := range 3 {
		table.Upsert(worker(slot))
	}
	require.Equal(t, first, table.Pick(&Request{}, start()).Worker, "a report that changes nothing is no use")
}

func TestAChangeOfGradeKeepsTheTimeOfUse(t *testing.T) {
	t.Parallel()
	table := settled(free, free, free)
	var order []int32
	for range 3 {
		v := table.Pick(&Request{}, start())
		table.Commit(&Request{}, &v, start())
		table.Release(v.Worker)
		order = append(order, int32(v.Worker.Slot))
	}
	for slot := range 3 {
		w := worker(slot)
		degraded(&w)
		table.Upsert(w)
	}
	for slot := 2; slot >= 0; slot-- {
		table.Upsert(worker(slot))
	}
	for _, want := range order {
		v := table.Pick(&Request{}, start())
		require.EqualValues(t, want, v.Worker.Slot)
		table.Commit(&Request{}, &v, start())
	}
	require.False(t, table.Free())
}

func TestReleasingTooOftenOrTheUnknownChangesNothing(t *testing.T) {
	t.Parallel()
	table := settled(free)
	table.Release(key(0))
	table.Release(key(9))
	w, ok := table.Get(key(0))
	require.True(t, ok)
	require.Equal(t, worker(0), w)
	table.Finished("nobody", 1, start())
	table.TakenBack("nobody", 1, start())
	table.Restored("nobody", 1)
	table.Touch("nobody", start())
	table.Commit(&Request{}, &Verdict{Kind: Place, Worker: key(9)}, start())
	table.Undo(&Request{}, &Verdict{Kind: Wait}, start())
	bound, ended := table.Sessions()
	require.Zero(t, bound+ended)
}

func TestCapacityIsBounded(t *testing.T) {
	t.Parallel()
	table := settled(func(w *Worker) { w.Capacity = 1000 })
	placed := 0
	for table.Free() {
		v := table.Pick(&Request{}, start())
		table.Commit(&Request{}, &v, start())
		placed++
	}
	require.Equal(t, DepthMax, placed)
}
