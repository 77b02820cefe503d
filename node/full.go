package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/store"
)

// fullFor is how long a store counts as full after its last refusal for want of space: nobody may have tried since.
const fullFor = 15 * time.Second

// spaceAfter is how long after the last refusal a write shows that there is space.
const spaceAfter = 2 * time.Second

// fullness knows whether the store refuses writes for want of space on its disk.
type fullness struct {
	logger hclog.Logger
	full   atomic.Bool

	mu     sync.Mutex
	since  time.Time
	last   time.Time // of the refusals
	told   time.Time
	reason string
}

// note takes the end of a write.
func (f *fullness) note(err error) {
	switch {
	case errors.Is(err, store.ErrFull):
		f.refused(err, time.Now())
	case err == nil && f.full.Load():
		f.over(time.Now())
	}
}

func (f *fullness) refused(err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.reason = now, err.Error()
	began := !f.full.Swap(true)
	if began {
		f.since = now
	}
	if began && now.Sub(f.told) >= fullFor || now.Sub(f.told) >= repeatEvery {
		f.told = now
		f.logger.Error("store is out of space; nothing new is taken until there is some on its disk", "since", f.since, "error", err)
	}
}

func (f *fullness) over(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.last) < spaceAfter { // what is small finds room between refusals of what is not
		return
	}
	if f.full.Swap(false) && !f.told.Before(f.since) {
		f.logger.Info("store has space again", "after", now.Sub(f.since).Round(time.Millisecond))
	}
}

// waits is what /readyz says; empty: the store has space, as far as is known.
func (f *fullness) waits(now time.Time) string {
	if !f.full.Load() {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.last) >= fullFor {
		f.full.Store(false)
		return ""
	}
	return "store: out of space on its disk since " + f.since.UTC().Format(time.RFC3339) + ": " + f.reason
}
