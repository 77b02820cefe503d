package placement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
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

func TestAChangeOfTierKeepsTheTimeOfUse(t *testing.T) {
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

// A worker that was full is given more when anything of it has ended, or, with groupsFrom or more, when half has, and then as much
// as it may have.
func TestRefillsByHalves(t *testing.T) {
	t.Parallel()
	for capacity, rest := range map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 20: 19, 21: 11, 50: 25} {
		table := settled(func(w *Worker) { w.Capacity = capacity })
		fill := func() (placed int) {
			for table.Free() {
				v := table.Pick(&Request{}, start())
				table.Commit(&Request{}, &v, start())
				placed++
			}
			return placed
		}
		require.Equal(t, capacity, fill(), "capacity %d", capacity)
		ended := 0
		for !table.Free() {
			require.Less(t, ended, capacity)
			require.Equal(t, Wait, table.Pick(&Request{}, start()).Kind)
			table.Release(key(0))
			ended++
		}
		require.Equal(t, capacity-rest, ended, "capacity %d", capacity)
		require.Equal(t, ended, fill(), "capacity %d", capacity)
	}
}

// A session's next execution goes to its own worker while that has room, though nothing else goes there.
func TestSatedWorkerTakesItsOwnSessions(t *testing.T) {
	t.Parallel()
	table := settled(func(w *Worker) { w.Capacity = groupsFrom })
	table.Bind("s", key(0), start())
	for table.Free() {
		v := table.Pick(&Request{}, start())
		table.Commit(&Request{}, &v, start())
	}
	table.Release(key(0))
	for _, affinity := range []messages.Affinity{messages.AffinityHint, messages.AffinityStrict, messages.AffinityStrictFail} {
		v := table.Pick(&Request{Session: "s", Affinity: affinity}, start())
		require.Equal(t, Hit, v.Effect, affinity)
		require.Equal(t, key(0), v.Worker)
	}
	require.Equal(t, WorkersBusy, table.Pick(&Request{Session: "new"}, start()).Waiting)
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

// A worker goes behind those that were used before it when its work ends, not only when it begins.
func TestTheEndOfWorkIsAUse(t *testing.T) {
	t.Parallel()
	table := settled(free, free)
	first := table.Pick(&Request{}, start())
	table.Commit(&Request{}, &first, start())
	second := table.Pick(&Request{}, start())
	table.Commit(&Request{}, &second, start())
	table.Release(second.Worker)
	table.Release(first.Worker)
	require.Equal(t, second.Worker, table.Pick(&Request{}, start()).Worker, "its work ended before the other's")
}

// Idle gives the open worker with nothing on it that was used least recently, of one node or of any, and looks at a bounded number.
func TestIdleIsTheLeastRecentlyUsedOfANode(t *testing.T) {
	t.Parallel()
	table := settled(free, free, free)
	own := worker(1)
	idle := func(of messages.Incarnation) messages.WorkerKey {
		w, ok := table.Idle(of)
		require.True(t, ok)
		return w.Key
	}
	first := idle(messages.Incarnation{})
	require.Equal(t, table.Pick(&Request{}, start()).Worker, first)
	v := Verdict{Kind: Place, Worker: first}
	table.Commit(&Request{}, &v, start())
	require.NotEqual(t, first, idle(messages.Incarnation{}), "it has something now")
	table.Release(first)
	require.NotEqual(t, first, idle(messages.Incarnation{}), "it was used last")

	far := messages.Incarnation{9}
	_, ok := table.Idle(far)
	require.False(t, ok)
	for slot := range idleLook {
		w := worker(slot)
		w.Key.Incarnation = far
		table.Upsert(w)
	}
	require.Equal(t, far, idle(far).Incarnation)
	require.Equal(t, own.Key.Incarnation, idle(own.Key.Incarnation).Incarnation)
	for slot := range 3 {
		table.Remove(worker(slot).Key, start())
		table.Upsert(worker(slot)) // never used, like the others, and after them
	}
	_, ok = table.Idle(own.Key.Incarnation)
	require.False(t, ok, "it looks at the first of them only")
}
