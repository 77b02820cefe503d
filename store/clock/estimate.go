package clock

import "time"

// Sample is one comparison of the clocks: the store said Stored at some moment from Asked to Answered. Asked and Answered
// are times of the process with their monotonic readings, as time.Now gives them.
type Sample struct {
	Asked, Answered time.Time
	Stored          time.Time
}

// errorMin is the least error of an estimate: stores keep microseconds, and reading a clock takes time.
const errorMin = 100 * time.Microsecond

// drift is how fast two clocks may part, as parts in a million: what a crystal and a clock that is being adjusted
// (adjtimex allows 500) may differ by.
const drift = 500

// Estimate is what is known of the store's time. The zero Estimate knows nothing: the machine's clock is taken for the
// store's.
type Estimate struct {
	at     time.Time     // a moment of the process, with its monotonic reading
	stored time.Time     // the store's time at that moment
	within time.Duration // how far stored may be off, either way
}

// Known reports whether the clocks have been compared.
func (e Estimate) Known() bool { return !e.stored.IsZero() }

// Stored is the store's time at a moment of the process.
func (e Estimate) Stored(at time.Time) time.Time {
	if !e.Known() {
		return at.Round(0)
	}
	return e.stored.Add(at.Sub(e.at))
}

// Local is the moment of the process at which the store's clock shows a time, with a monotonic reading, so that it compares
// with time.Now whatever the machine's clock does. Now is any moment of the process. The zero time stays zero.
func (e Estimate) Local(stored, now time.Time) time.Time {
	if stored.IsZero() {
		return stored
	}
	return now.Add(stored.Sub(e.Stored(now)))
}

// Error is how far Stored may be off at a moment, either way.
func (e Estimate) Error(at time.Time) time.Duration {
	return e.within + at.Sub(e.at).Abs()/1e6*drift
}

// Ahead is how far the machine's clock is ahead of the store's at a moment that was read from it; negative: behind.
func (e Estimate) Ahead(at time.Time) time.Duration { return at.Round(0).Sub(e.Stored(at)) }

// Take returns the estimate after one more sample, and by how much the store's clock has been set since the one before:
// 0 where the two agree within their errors. Where they agree the more exact one counts.
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
