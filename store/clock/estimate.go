package clock

import "time"

// Sample is one comparison of the clocks: the store's clock showed Stored at some time from Asked to Answered. Asked
// and Answered are times of the process with their monotonic readings, as time.Now returns them.
type Sample struct {
	Asked, Answered time.Time
	Stored          time.Time
}

// errorMin is the least error of an estimate: stores keep microseconds, and reading a clock takes time.
const errorMin = 100 * time.Microsecond

// drift is the greatest difference in rate between two clocks, in parts per million: the error of a crystal and of a
// clock that is being adjusted (adjtimex allows 500).
const drift = 500

// Estimate is the estimated time of the store. The zero Estimate uses the machine's clock.
type Estimate struct {
	at     time.Time     // a time of the process, with its monotonic reading
	stored time.Time     // the store's time at that time
	within time.Duration // greatest error of stored, either way
}

// Known reports whether the clocks have been compared.
func (e Estimate) Known() bool { return !e.stored.IsZero() }

// Stored returns the store's time at a time of the process.
func (e Estimate) Stored(at time.Time) time.Time {
	if !e.Known() {
		return at.Round(0)
	}
	return e.stored.Add(at.Sub(e.at))
}

// Local returns the time of the process at which the store's clock shows stored. It has a monotonic reading, so its
// comparison with time.Now does not depend on the machine's clock. Now is any time of the process. The zero time stays
// zero.
func (e Estimate) Local(stored, now time.Time) time.Time {
	if stored.IsZero() {
		return stored
	}
	return now.Add(stored.Sub(e.Stored(now)))
}

// Error returns the greatest error of Stored at a time, either way.
func (e Estimate) Error(at time.Time) time.Duration {
	return e.within + at.Sub(e.at).Abs()/1e6*drift
}

// Ahead returns how far the machine's clock is ahead of the store's at a time read from it; negative: behind.
func (e Estimate) Ahead(at time.Time) time.Duration { return at.Round(0).Sub(e.Stored(at)) }

// Take returns the estimate with one more sample, and by how much the store's clock was set since the last one: 0 if
// the two agree within their errors. If they agree, the more exact one is kept.
func (e Estimate) Take(s Sample) (next Estimate, step time.Duration) {
	half := max(s.Answered.Sub(s.Asked), 0) / 2
	next = Estimate{at: s.Asked.Add(half), stored: s.Stored.Round(0), within: max(half, errorMin)}
	if !e.Known() {
		return next, 0
	}
	off, slack := next.stored.Sub(e.Stored(next.at)), e.Error(next.at)
	switch {
	case off.Abs() > slack+next.within:
		return next, off
	case next.within <= slack:
		return next, 0
	}
	return e, 0
}
