package actors

import (
	"sync/atomic"
	"time"
)

// ClaimShare is the share of a lease, in percent, after which a node that has not renewed it claims nothing more.
const ClaimShare = 60

// Lease is how long this node may begin work, by its own monotonic clock: a claim is sent while MayClaim, and a claimed
// run starts while Holds. Membership grants it; workers look at it, so looking costs one atomic read. A nil Lease, and one
// of a store that evaluates none, always holds.
type Lease struct {
	base      time.Time // the moments below are counted from it, so that a wall clock that jumps means nothing
	claims    atomic.Int64
	runs      atomic.Int64
	refused   chan struct{}
	unlimited bool
}

// NewLease returns a lease that has not been granted yet; unlimited: it always holds.
func NewLease(unlimited bool) *Lease {
	return &Lease{base: time.Now(), refused: make(chan struct{}, 1), unlimited: unlimited}
}

// Grant renews the lease: it holds for its length from the moment that the renewal was asked for, which is before the
// store gave it.
func (l *Lease) Grant(asked time.Time, length time.Duration) {
	from := asked.Sub(l.base)
	l.claims.Store(int64(from + length*ClaimShare/100))
	l.runs.Store(int64(from + length))
}

// Cut ends the lease now.
func (l *Lease) Cut() {
	l.claims.Store(0)
	l.runs.Store(0)
}

// MayClaim reports whether a claim may be sent.
func (l *Lease) MayClaim() bool {
	return l == nil || l.unlimited || int64(time.Since(l.base)) < l.claims.Load()
}

// Holds reports whether a run may start.
func (l *Lease) Holds() bool {
	return l == nil || l.unlimited || int64(time.Since(l.base)) < l.runs.Load()
}

// Refuse notes that the store refused a claim for want of a live lease: nothing more is claimed until the next renewal,
// for which membership is woken.
func (l *Lease) Refuse() {
	if l == nil || l.unlimited {
		return
	}
	l.claims.Store(0)
	select {
	case l.refused <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// Refused signals that claims have been refused.
func (l *Lease) Refused() <-chan struct{} { return l.refused }
