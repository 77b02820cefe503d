package node

import (
	"os"
	"runtime"
	"runtime/debug"
	collector "runtime/metrics"
	"sync"

	"github.com/troupe-run/troupe/process"
)

// The garbage collector's target in percent (GOGC). A busy node lives on few megabytes and makes garbage of every execution: with
// Go's default the collector takes a tenth of its time.
const (
	collectAt = 300
	goDefault = 100
)

// tuned counts the nodes of this process for which the target is set.
var tuned struct {
	sync.Mutex
	nodes int
}

// Tune sets this process's garbage collector for a node, and returns the call that ends that. It changes nothing where the program has
// a target of its own: by GOGC in the environment, or any but Go's default by debug.SetGCPercent. Nodes of one process share the target,
// and the last one to end gives Go's default back, unless the program has set another meanwhile.
func Tune() (end func()) {
	tuned.Lock()
	defer tuned.Unlock()
	if tuned.nodes == 0 {
		if os.Getenv("GOGC") != "" || collectorTarget() != goDefault {
			return func() {}
		}
		debug.SetGCPercent(collectAt)
	}
	tuned.nodes++
	return sync.OnceFunc(func() {
		tuned.Lock()
		defer tuned.Unlock()
		if tuned.nodes--; tuned.nodes == 0 && collectorTarget() == collectAt {
			debug.SetGCPercent(goDefault)
		}
	})
}

// collectorTarget is the target that holds now, in percent; where the collector is off, the largest number.
func collectorTarget() uint64 {
	sample := []collector.Sample{{Name: "/gc/gogc:percent"}}
	collector.Read(sample)
	return sample[0].Value.Uint64()
}

// Trim gives back to the system what a start has left over: thousands of workers come up at once and then wait.
// The collector runs twice, since the buffers of a sync.Pool, such as those that read the store's migrations, outlive the first time.
func Trim() {
	runtime.GC()
	debug.FreeOSMemory()
	process.TrimProgram()
}
