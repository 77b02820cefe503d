package node

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	collector "runtime/metrics"
	"sync"
	"time"

	"github.com/troupe-run/troupe/process"
)

// The garbage collector's target in percent (GOGC). A busy node lives on few megabytes and makes garbage of every execution: with
// Go's default the collector takes a tenth of its time.
const (
	collectAt = 300
	goDefault = 100
)

// tuned counts the nodes of this process for which the target is set, and those for which the limit is.
var tuned struct {
	sync.Mutex
	nodes, limited int
}

// Tune sets this process's garbage collector for a node, and returns the call that ends that. It changes nothing where the program has
// a target of its own: by GOGC in the environment, or any but Go's default by debug.SetGCPercent. Nodes of one process share the target,
// and the last one to end gives Go's default back, unless the program has set another meanwhile.
//
// Where a cgroup bounds the memory, it also sets a soft limit of the heap, see process.HeapLimit, unless the program has one: by GOMEMLIMIT or
// by debug.SetMemoryLimit. Without it the collector lets the heap grow until the kernel kills the node.
func Tune() (end func()) {
	tuned.Lock()
	defer tuned.Unlock()
	percent, limit := tuned.nodes > 0 || os.Getenv("GOGC") == "" && collectorTarget() == goDefault, HeapLimit()
	limited := limit > 0 && (tuned.limited > 0 || os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64)
	if percent {
		debug.SetGCPercent(collectAt)
		tuned.nodes++
	}
	if limited {
		debug.SetMemoryLimit(limit)
		tuned.limited++
	}
	return sync.OnceFunc(func() { untune(percent, limited, limit) })
}

// untune takes back what one node has set.
func untune(percent, limited bool, limit int64) {
	tuned.Lock()
	defer tuned.Unlock()
	if percent {
		if tuned.nodes--; tuned.nodes == 0 && collectorTarget() == collectAt {
			debug.SetGCPercent(goDefault)
		}
	}
	if limited {
		if tuned.limited--; tuned.limited == 0 && debug.SetMemoryLimit(-1) == limit {
			debug.SetMemoryLimit(math.MaxInt64)
		}
	}
}

// HeapLimit is the soft limit of the heap that Tune sets where the program has none, in bytes; 0: no cgroup bounds the memory.
var HeapLimit = sync.OnceValue(func() int64 { return process.HeapLimit(process.FindBounds().Memory) })

// collectorTarget is the target that holds now, in percent; where the collector is off, the largest number.
func collectorTarget() uint64 {
	sample := []collector.Sample{{Name: "/gc/gogc:percent"}}
	collector.Read(sample)
	return sample[0].Value.Uint64()
}

// A node that runs nothing still allocates a little: heartbeats and readings of all its workers. The collector's target lets that grow to
// four times what the node needs before it collects, so a node of thousands of idle workers would hold some hundred MiB of garbage.
const (
	// trimEvery is the time between two looks, and idleMax how much an idle process allocates meanwhile, in bytes: 2 MiB a second. A
	// busy node allocates some hundred.
	trimEvery = 30 * time.Second
	idleMax   = 60 << 20
	// surplusMin is how much more than it needs a process holds at least, in bytes, where it is worth a collection.
	surplusMin = 6 << 20
)

// heapUse is what the collector says of this process, in bytes.
type heapUse struct {
	allocated uint64 // since its start
	live      uint64 // found by the last collection
	held      uint64 // of the heap, and not given back to the system
}

func heapNow() heapUse {
	sample := []collector.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	collector.Read(sample)
	of := func(i int) uint64 { return sample[i].Value.Uint64() }
	return heapUse{allocated: of(0), live: of(1), held: of(2) + of(3) + of(4)}
}

// idle reports whether the process has done little since the reading before.
func (h heapUse) idle(before heapUse) bool { return h.allocated-before.allocated <= idleMax }

// surplus reports whether the process holds far more than it needs.
func (h heapUse) surplus() bool { return h.held > h.live+max(surplusMin, h.live/8) }

// KeepTrim trims this process once. Then, whenever the process has done little for half a minute, it has the store release what it
// caches, and trims again if the process holds far more memory than it needs. It ends with ctx. It is for a process that is nothing
// but a node.
func (k *Keeper) KeepTrim(ctx context.Context) {
	k.Node().releaseCache(ctx)
	Trim()
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	for before := heapNow(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := heapNow()
		if now.idle(before) {
			k.Node().releaseCache(ctx)
			if now.surplus() {
				debug.FreeOSMemory()
			}
			now = heapNow()
		}
		before = now
	}
}

// cached is a store that keeps in memory what it has read.
type cached interface {
	ReleaseCache(ctx context.Context) error
}

// releaseCache has the store give back what it caches, if it does and is open.
func (n *Node) releaseCache(ctx context.Context) {
	if !n.phase.started.Load() {
		return
	}
	if c, ok := n.adapters.adapter.(cached); ok {
		if err := c.ReleaseCache(ctx); err != nil {
			n.logger.Debug("the store keeps its cache", "error", err)
		}
	}
}

// Trim gives back to the system what a start has left over: thousands of workers come up at once and then wait.
// The collector runs twice, since the buffers of a sync.Pool, such as those that read the store's migrations, outlive the first time.
func Trim() {
	runtime.GC()
	debug.FreeOSMemory()
	process.TrimProgram()
}
