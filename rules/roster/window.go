package roster

import (
	"math/bits"
	"time"
)

// How much is remembered of the run times.
const (
	windowSamples = 16 // fewer runs say nothing yet
	windowMemory  = 512
)

// runTimes estimates the p90 of recent run times: counts in buckets four to the octave, halved each time that
// windowMemory runs have been seen, so that old runs fade.
type runTimes struct {
	counts [256]uint16
	total  int
	seen   int // since the last evaluation
}

// add counts one run and reports whether enough has been seen to evaluate again: after the first windowSamples, then
// with each windowMemory/4.
func (t *runTimes) add(took time.Duration) bool {
	t.counts[bucketOf(took)]++
	t.total++
	t.seen++
	if t.total >= windowMemory {
		t.fade()
	}
	if t.seen >= windowMemory/4 || t.total == windowSamples {
		t.seen = 0
		return true
	}
	return false
}

func (t *runTimes) fade() {
	t.total = 0
	for i := range t.counts {
		t.counts[i] /= 2
		t.total += int(t.counts[i])
	}
}

// p90 returns an upper bound of the 90th percentile, at most a fifth too high; ok is false while too few have run.
func (t *runTimes) p90() (took time.Duration, ok bool) {
	if t.total < windowSamples {
		return 0, false
	}
	above := t.total / 10
	for i := len(t.counts) - 1; i >= 0; i-- {
		above -= int(t.counts[i])
		if above < 0 {
			return bucketTop(i), true
		}
	}
	return 0, true
}

// bucketOf numbers the bucket of a run time: two bits below its leading one.
func bucketOf(took time.Duration) int {
	n := uint64(max(took, 4))
	log := bits.Len64(n) - 1
	return log<<2 | int(n>>(log-2)&3)
}

// bucketTop is the longest run time in a bucket.
func bucketTop(i int) time.Duration {
	log, part := i>>2, uint64(i&3)
	if log < 2 {
		return 0
	}
	return time.Duration((4+part+1)<<(log-2) - 1)
}
