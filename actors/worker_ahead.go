package actors

import (
	"slices"
	"time"
)

// The bounds of claims ahead.
const (
	// aheadMax bounds what a worker may hold claimed beside its run.
	aheadMax = 8
	// aheadWait is how long a claim may wait behind a run that takes longer than those before it. What is claimed ahead counts as
	// running.
	aheadWait = 100 * time.Millisecond
	// leadMin and leadMax bound how long before the end of a run the next claim is made. The least is for the pauses of a busy machine.
	leadMin = 20 * time.Millisecond
	leadMax = 50 * time.Millisecond
	// spreadMax is how much the last runs may differ. Where they differ more, the end of a run cannot be told.
	spreadMax = 40 * time.Millisecond
	// tinyRun is how short runs are that are claimed in groups: a claim for each would cost more than the runs.
	tinyRun = 2 * time.Millisecond
)

// pace is what a worker knows of how long its last runs and claims took. By it the next execution is claimed so early that the
// answer is there when the run ends, and not earlier.
type pace struct {
	runs     *[8]time.Duration // the last ones, in turn; nil: there was none
	count    int
	shortest time.Duration // of them; 0: none is known
	steady   bool          // the end of a run can be told from them
	claim    time.Duration // how long a claim takes, at the worst of late
}

// ran notes a run. Of eight runs one may have taken longer.
func (p *pace) ran(took time.Duration) {
	if p.runs == nil {
		p.runs = new([8]time.Duration)
	}
	p.runs[p.count%len(p.runs)] = took
	p.count++
	sorted := *p.runs
	last := sorted[:min(p.count, len(sorted))]
	slices.Sort(last)
	p.shortest = last[0]
	p.steady = last[len(last)-1-len(last)/len(sorted)]-p.shortest <= spreadMax
}

// claimed notes how long a claim took.
func (p *pace) claimed(took time.Duration) { p.claim = max(took, p.claim-p.claim/8) }

// lead is how long before the end of a run the next claim is made.
func (p *pace) lead() time.Duration { return min(max(p.claim+p.claim/2, leadMin), leadMax) }

// tiny reports whether the runs are too short for a claim of each.
func (p *pace) tiny() bool { return p.shortest < tinyRun }

// late reports whether a run takes longer than those before it, so that nothing should wait behind it.
func (p *pace) late(ran time.Duration) bool { return ran >= p.shortest+aheadWait }

// wait is how long it is too early to claim what so many runs are before, of which the first has run for a time; 0: it may be
// claimed. Ok is false where that cannot be told.
func (p *pace) wait(ran time.Duration, before int) (wait time.Duration, ok bool) {
	switch {
	case !p.steady || p.late(ran):
		return 0, false
	case p.tiny():
		return 0, true
	}
	return max(p.shortest*time.Duration(before)-ran-p.lead(), 0), true
}

// claimable is what decides how much of its queue a worker may claim.
type claimable struct {
	delivered []queued
	pace      *pace
	claims    int           // what was claimed before and has not begun
	free      bool          // the worker may begin a run, for all that is being written
	takes     bool          // the lifecycle lets the worker begin a run
	hold      bool          // the pool lets it claim nothing for now
	runs      bool          // something runs
	ran       time.Duration // for how long
	left      int           // how many runs the worker may still begin; negative: any number
}

// count is how many from the head of the queue the worker may claim now: one where it is free, and behind it, or behind a run,
// what may be claimed ahead and is needed soon. Again, where it is not 0, is when to look again before anything happens.
func (c claimable) count() (n int, again time.Duration) {
	most := len(c.delivered)
	if c.left >= 0 {
		most = min(most, c.left)
	}
	switch {
	case most == 0, c.hold, c.free && !c.takes, c.claims > 0 && (c.free || c.pace.tiny()):
		return 0, 0
	case c.free:
		n = 1
	}
	for ; n < most && c.delivered[n].ahead > max(c.claims+n, 1); n++ {
		before := c.claims + n
		if c.runs {
			before++
		}
		if wait, ok := c.pace.wait(c.ran, before); !ok || wait > 0 {
			return n, wait
		}
	}
	return n, 0
}
