package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock holds the latest estimate of the store's time for a whole process. All methods are safe for concurrent use.
// Reading takes no lock. All methods except Take may be called on a nil Clock.
type Clock struct {
	turn sync.Mutex // held while a sample is added
	view atomic.Pointer[view]
}

type view struct {
	estimate Estimate
	steps    steps
	seen     time.Time // when the last sample's answer arrived
}

// Skew is the difference between the machine's clock and the store's.
type Skew struct {
	Ahead time.Duration // of the machine's clock; negative: behind
	Error time.Duration // greatest error of Ahead
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

// Take adds a comparison of the clocks. It returns by how much the store's clock was set since the last one: 0 if it
// was not, or by less than StepMin.
func (c *Clock) Take(s Sample) (step time.Duration) {
	c.turn.Lock()
	defer c.turn.Unlock()
	v := c.read()
	if s.Asked.Before(v.estimate.at) {
		return 0 // a sample that was taken later has already been added
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

// Now returns the store's time.
func (c *Clock) Now() time.Time { return c.Stored(time.Now()) }

// Stored returns the store's time at a time of the process.
func (c *Clock) Stored(at time.Time) time.Time { return c.read().estimate.Stored(at) }

// Local returns the time of the process at which the store's clock shows stored, with a monotonic reading. The zero
// time stays zero.
func (c *Clock) Local(stored time.Time) time.Time {
	return c.read().estimate.Local(stored, time.Now())
}

// Since returns how long ago the store recorded a time; negative: in the future. Steps of the store's clock that this
// process saw since then do not count.
func (c *Clock) Since(stored time.Time) time.Duration {
	v := c.read()
	return v.steps.between(stored, v.estimate.Stored(time.Now()))
}

// Noted returns the time of the process at which the store recorded a time, with a monotonic reading: Since before now.
// The zero time stays zero.
func (c *Clock) Noted(stored time.Time) time.Time {
	if stored.IsZero() {
		return stored
	}
	return time.Now().Add(-c.Since(stored))
}

// Stepped reports whether this process saw a step of the store's clock.
func (c *Clock) Stepped() bool { return len(c.read().steps) > 0 }

// Skew returns the difference between the machine's clock and the store's.
func (c *Clock) Skew() Skew {
	v, now := c.read(), time.Now()
	return Skew{Ahead: v.estimate.Ahead(now), Error: v.estimate.Error(now), Known: v.estimate.Known()}
}

// Fresh reports whether the clocks were compared within the given time.
func (c *Clock) Fresh(within time.Duration) bool {
	v := c.read()
	return v.estimate.Known() && time.Since(v.seen) <= within
}
