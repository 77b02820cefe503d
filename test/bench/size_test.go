package bench

import (
	"testing"
	"time"
)

// sizeAfter is how long a node has been ready before its memory is read, and sizeFor how long it is read then: two of the times
// after which an idle node gives back what it does not need.
const (
	sizeAfter = 30 * time.Second
	sizeFor   = 60 * time.Second
)

// BenchmarkIdle reports the resident memory of an idle node as `troupe node` starts it, and of one with 10,000 more Go workers: what
// /proc/PID/status shows, each second of a minute, in the mean.
func BenchmarkIdle(b *testing.B) {
	for range b.N {
		program := binary(b)
		few := members(b, program, 1)[0]
		many := members(b, program, 1, "TROUPE_POOL_GO=10128")[0]
		time.Sleep(sizeAfter)
		var fewSum, manySum, most float64
		seconds := int(sizeFor / time.Second)
		for range seconds {
			time.Sleep(time.Second) // the measurement itself
			now := resident(b, many.command.Process.Pid)
			fewSum, manySum, most = fewSum+resident(b, few.command.Process.Pid), manySum+now, max(most, now)
		}
		fewMean, manyMean := fewSum/float64(seconds), manySum/float64(seconds)
		b.ReportMetric(fewMean/(1<<20), "resident-MiB")
		b.ReportMetric((manyMean-fewMean)/(1<<20), "resident-MiB-more")
		b.ReportMetric((most-fewMean)/(1<<20), "resident-MiB-more-at-most")
	}
}
