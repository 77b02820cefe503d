package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock holds the latest estimate of the store's time for a whole process. All methods are safe for concurrent use, reading
// takes no lock, and all but Take may be called on a nil Clock.
type Clock struct {
	turn sync.Mutex // of those that take samples
	view atomic.Pointer[view]
}

type view struct {
	estimate Estimate
	steps    steps
	seen     time.Time // when the last sample was answered
}

// Skew is how the machine's clock stands to the store's.
type Skew struct {
	Ahead time.Duration // of the machine's clock; negative: it is behind
	Error time.Duration // how far Ahead may be off
	Known bool          // the clocks have been compared
}

func (c *Clock) read() view {
	if c == nil {
		return view{}
	}
	if v := c.view.Load(); v != nil {
		return *v
	}
	return view{}
}

// Take compares the clocks, and says by how much the store's has been set since they were compared last: 0 where it has not, or by
// less than StepMin.
func (c *Clock) Take(s Sample) (step time.Duration) {
	c.turn.Lock()
	defer c.turn.Unlock()
	v := c.read()
	if s.Asked.Before(v.estimate.at) {
		return 0 // it was asked before what is known already, and answered late
	}
	next, step := v.estimate.Take(s)
	if step.Abs() < StepMin {
		step = 0
	} else {
		v.steps = v.steps.add(Step{From: v.estimate.Stored(next.at), By: step})
	}
	v.estimate, v.seen = next, s.Answered
	c.view.Store(&v)
	return step
}

// Now is the store's time.
func (c *Clock) Now() time.Time { return c.Stored(time.Now()) }

// Stored is the store's time at a moment of the process.
func (c *Clock) Stored(at time.Time) time.Time { return c.read().estimate.Stored(at) }

// Local is the moment of the process at which the store's clock shows a time, with a monotonic reading. The zero time stays
// zero.
func (c *Clock) Local(stored time.Time) time.Time {
	return c.read().estimate.Local(stored, time.Now())
}

// Since is how long ago a time is that the store noted; negative: it is ahead. Steps of the store's clock that this process
// saw since do not count.
func (c *Clock) Since(stored time.Time) time.Duration {
	v := c.read()
	return v.steps.between(stored, v.estimate.Stored(time.Now()))
}

// Noted is the moment of the process at which the store noted a time, with a monotonic reading: Since before now. The zero time
// stays zero.
func (c *Clock) Noted(stored time.Time) time.Time {
	if stored.IsZero() {
		return stored
	}
	return time.Now().Add(-c.Since(stored))
}

// Stepped reports whether this process has seen the store's clock being set.
func (c *Clock) Stepped() bool { return len(c.read().steps) > 0 }

// Skew is how the machine's clock stands to the store's.
func (c *Clock) Skew() Skew {
	v, now := c.read(), time.Now()
	return Skew{Ahead: v.estimate.Ahead(now), Error: v.estimate.Error(now), Known: v.estimate.Known()}
}

// Fresh reports whether the clocks have been compared within the given time.
func (c *Clock) Fresh(within time.Duration) bool {
	v := c.read()
	return v.estimate.Known() && time.Since(v.seen) <= within
}
