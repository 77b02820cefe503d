package bench

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// BenchmarkIdleWorkers reports the cost of 10,000 idle go workers, compared with an idle node that has one.
func BenchmarkIdleWorkers(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	few := func(count int) func(*node.Config) {
		return func(c *node.Config) { c.Workers = map[messages.Runtime]int{"go": count} }
	}
	for range b.N {
		start(b, few(1))
		oneHeap, one := heap(), resident(b)
		start(b, few(10_000))
		b.ReportMetric(heap()-oneHeap, "heap-MiB-more")
		b.ReportMetric((resident(b)-one)/(1<<20), "resident-MiB-more")
		b.ReportMetric(one/(1<<20), "resident-MiB-before")
	}
}
