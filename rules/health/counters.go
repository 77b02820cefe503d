package health

import (
	"math/bits"
	"time"
)

// The failure rate's window, in executions.
const (
	RateWindow = 50 // the rate looks at the last so many
	RateMin    = 10 // fewer than so many have no rate yet
)

// Counters is what one worker generation has shown. It is a plain value: recording allocates nothing, and a new
// generation starts with the zero value. It is not safe for concurrent use.
type Counters struct {
	window        uint64 // the last executions, newest in bit 0, 1: a worker fault
	total         uint64
	failed        uint64
	runTime       time.Duration // of all executions
	size          uint8         // executions in the window
	faults        uint32        // worker faults in a row, probes apart
	probeFailures uint32        // failed probes in a row
}

// Finished records an execution that ended on the worker. Failed says that it did not complete, fault that the worker
// is to blame (IsFault). An execution without a fault ends a row of faults.
func (c *Counters) Finished(run time.Duration, failed, fault bool) {
	c.total++
	c.runTime += max(run, 0)
	if failed {
		c.failed++
	}
	c.push(fault)
}

// DeadLettered records an execution that the worker never took, which counts against its grade like any other fault
// and is none of its executions.
func (c *Counters) DeadLettered() { c.push(true) }

// Faulted records a fault that is no execution's end, such as a protocol error between two runs.
func (c *Counters) Faulted() { c.push(true) }

func (c *Counters) push(fault bool) {
	const mask = 1<<RateWindow - 1
	c.window = c.window << 1 & mask
	c.size = min(c.size+1, RateWindow)
	if !fault {
		c.faults = 0
		return
	}
	c.window |= 1
	c.faults++
}

// ProbePassed records a successful probe.
func (c *Counters) ProbePassed() { c.probeFailures = 0 }

// ProbeFailed records a failed probe and returns how many have failed in a row.
func (c *Counters) ProbeFailed() int {
	c.probeFailures++
	return int(c.probeFailures)
}

// ProbeFailures returns how many probes have failed in a row.
func (c *Counters) ProbeFailures() int { return int(c.probeFailures) }

// Faults returns how many worker faults came in a row, probes apart.
func (c *Counters) Faults() int { return int(c.faults) }

// Failures returns what the grade looks at: worker faults in a row, failed probes among them. The two are counted
// apart because each is ended by its own kind of success.
func (c *Counters) Failures() int { return int(c.faults) + int(c.probeFailures) }

// FailureRate returns the share of worker faults among the last RateWindow executions, 0 while fewer than RateMin
// have ended.
func (c *Counters) FailureRate() float64 {
	if c.size < RateMin {
		return 0
	}
	return float64(bits.OnesCount64(c.window)) / float64(c.size)
}

// LastStraw reports whether one more fault makes the worker unhealthy, at once or as soon as enough executions have ended for a rate.
func (c *Counters) LastStraw(t Thresholds) bool {
	t = t.WithDefaults()
	next := *c
	next.Faulted()
	rate := float64(bits.OnesCount64(next.window)) / float64(max(next.size, RateMin))
	return !t.Off && (next.Failures() >= t.FailuresUnhealthy || rate >= t.FailureRateUnhealthy)
}

// Total returns how many executions have ended on the worker.
func (c *Counters) Total() uint64 { return c.total }

// Failed returns how many of them did not complete, whoever was to blame.
func (c *Counters) Failed() uint64 { return c.failed }

// MeanRunTime returns the mean run time of all executions, 0 before the first.
func (c *Counters) MeanRunTime() time.Duration {
	if c.total == 0 {
		return 0
	}
	return c.runTime / time.Duration(c.total)
}

// Sample returns the counters' share of a sample; the heartbeat and the lifecycle are the caller's to add.
func (c *Counters) Sample(queueDepth int) Sample {
	return Sample{Failures: c.Failures(), QueueDepth: queueDepth, FailureRate: c.FailureRate()}
}
