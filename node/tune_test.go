package node

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests change what the whole process shares, so they do not run beside others.

func TestTheCollectorIsTunedUntilTheLastNodeEnds(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(goDefault))
	first, second := Tune(), Tune()
	require.EqualValues(t, collectAt, collectorTarget())
	first()
	first()
	require.EqualValues(t, collectAt, collectorTarget())
	second()
	require.EqualValues(t, goDefault, collectorTarget())
}

func TestAProgramsOwnTargetStays(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	end := Tune()
	require.EqualValues(t, 50, collectorTarget())
	end()
	require.EqualValues(t, 50, collectorTarget())

	debug.SetGCPercent(goDefault)
	end = Tune()
	debug.SetGCPercent(80) // after the start
	end()
	require.EqualValues(t, 80, collectorTarget())

	debug.SetGCPercent(goDefault)
	t.Setenv("GOGC", "100")
	Tune()()
	require.EqualValues(t, goDefault, collectorTarget(), "GOGC says so")
}

func TestAnIdleProcessIsTrimmedWhereThatIsWorthACollection(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name                  string
		allocated, live, held uint64 // MiB
		want                  bool
	}{
		{"a small node with a little garbage", 1, 8, 14, false},
		{"a small node after much work", 1, 8, 60, true},
		{"many idle workers, little garbage", 20, 60, 67, false},
		{"many idle workers, much garbage", 20, 60, 68, true},
		{"busy", 61, 60, 240, false},
		{"as much as an idle node allocates at most", 60, 60, 240, true},
	} {
		before := heapUse{allocated: 1000 * mib}
		now := heapUse{allocated: before.allocated + c.allocated*mib, live: c.live * mib, held: c.held * mib}
		require.Equal(t, c.want, now.idle(before) && now.surplus(), c.name)
	}
}

var garbage []byte

func TestTheHeapIsRead(t *testing.T) {
	before := heapNow()
	garbage = make([]byte, 32<<20)
	now := heapNow()
	garbage = nil
	require.GreaterOrEqual(t, now.allocated-before.allocated, uint64(32<<20))
	require.GreaterOrEqual(t, now.held, uint64(32<<20), "what is not collected yet is held")
	debug.FreeOSMemory()
	require.Less(t, heapNow().held, now.held)
}

// The limit of the heap follows the cgroup's, unless the program has its own.
func TestTheHeapIsLimitedUntilTheLastNodeEnds(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	found := HeapLimit
	defer func() { HeapLimit = found }()
	HeapLimit = func() int64 { return 64 << 20 }
	now := func() int64 { return debug.SetMemoryLimit(-1) }

	first, second := Tune(), Tune()
	require.EqualValues(t, 64<<20, now())
	first()
	require.EqualValues(t, 64<<20, now())
	second()
	require.EqualValues(t, math.MaxInt64, now())

	debug.SetMemoryLimit(1 << 30)
	Tune()()
	require.EqualValues(t, 1<<30, now(), "the program's own")

	debug.SetMemoryLimit(math.MaxInt64)
	t.Setenv("GOMEMLIMIT", "off")
	end := Tune()
	require.EqualValues(t, math.MaxInt64, now())
	end()

	t.Setenv("GOMEMLIMIT", "")
	HeapLimit = func() int64 { return 0 }
	end = Tune()
	require.EqualValues(t, math.MaxInt64, now(), "nothing bounds the memory")
	end()
}
