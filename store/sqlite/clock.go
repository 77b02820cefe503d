package sqlite

import (
	"sync"
	"time"
)

// clock is the store's clock: the machine's, except that it never goes back while the process lives. If the machine's
// clock is set back, this clock continues by the monotonic clock until the machine's has caught up. It follows a jump
// forward at once: sweeps then act early, and every change is fenced.
type clock struct {
	mu   sync.Mutex
	last time.Time        // the latest answer, with its monotonic reading
	read func() time.Time // time.Now, or a test's
}

func newClock() *clock { return &clock{read: time.Now} }

// now returns the time in UTC, in whole microseconds as the store keeps it.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.read()
	if !c.last.IsZero() {
		steady := c.last.Add(max(t.Sub(c.last), 0)) // Sub uses the monotonic readings if both have one
		if t.Round(0).Before(steady.Round(0)) {
			t = steady
		}
	}
	c.last = t
	return t.Round(0).UTC().Truncate(time.Microsecond)
}
