package actors

import (
	"sync/atomic"
	"time"
)

// ClaimShare is the share of a lease, in percent, after which a node that has not renewed it claims nothing more.
const ClaimShare = 60

// A node says to its peers that it renews its lease once it has for SureShare of it without a gap, in percent, and while the
// last renewal is younger than FreshShare of it.
//
// FreshShare lies in the middle between a node that renews with every beat, a third of the lease at most, and one whose
// store went away together with its peer's: that peer asks at 80 % of its own lease, renewed up to a beat earlier. SureShare
// leaves a peer that may get the store back a little later the time to, and is over well before the whole lease after
// which this node may declare that peer dead.
const (
	FreshShare = 40
	SureShare  = 50
)

// Lease is how long this node may begin work, by its own monotonic clock: a claim is sent while MayClaim, and a claimed
// run starts while Holds. Membership grants it; workers look at it, so looking costs one atomic read. A nil Lease, and one
// of a store that evaluates none, always holds.
type Lease struct {
	base      time.Time // the moments below are counted from it, so that a wall clock that jumps means nothing
	claims    atomic.Int64
	runs      atomic.Int64
	fresh     atomic.Int64
	sure      atomic.Int64
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
	l.fresh.Store(int64(from + length*FreshShare/100))
}

// Cut ends the lease now.
func (l *Lease) Cut() {
	l.claims.Store(0)
	l.runs.Store(0)
	l.fresh.Store(0)
}

// MayClaim reports whether a claim may be sent.
func (l *Lease) MayClaim() bool {
	return l == nil || l.unlimited || int64(time.Since(l.base)) < l.claims.Load()
}

// Holds reports whether a run may start.
func (l *Lease) Holds() bool {
	return l == nil || l.unlimited || int64(time.Since(l.base)) < l.runs.Load()
}

// Steady says since when the lease of the given length has been renewed without a gap.
func (l *Lease) Steady(since time.Time, length time.Duration) {
	l.sure.Store(int64(since.Sub(l.base) + length*SureShare/100))
}

// Renewing reports whether the node renews its lease, as a peer that cannot wants to know. A nil Lease has not been granted.
func (l *Lease) Renewing() bool {
	return l.Fresh() && int64(time.Since(l.base)) >= l.sure.Load()
}

// Fresh reports whether the last renewal is young, for however short a time the node has renewed. A nil Lease has not been
// granted.
func (l *Lease) Fresh() bool { return l != nil && int64(time.Since(l.base)) < l.fresh.Load() }

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
