package actors

import (
	"context"
	"sync"
	"time"
)

const (
	// awakeLook is the time between two looks at the clock, and frozenMin how much more must pass between two of them to mean that the process
	// was frozen. A busy machine delays a look by less.
	awakeLook = 250 * time.Millisecond
	frozenMin = time.Second
)

// Awake is the time in which this process was not frozen: by SIGSTOP, by a paused container, or by a machine that stood still. What waits in
// its pipes came in time, though its timers have run out meanwhile. A nil Awake measures nothing.
type Awake struct {
	mu     sync.Mutex
	last   time.Time     // of the looks; zero: none
	frozen time.Duration // over all freezes
	thawed time.Time     // when the last one ended; zero: there was none
}

// Run looks at the clock until the context ends.
func (a *Awake) Run(ctx context.Context) {
	tick := time.NewTicker(awakeLook)
	defer tick.Stop()
	for a.Frozen(time.Now()); ; a.Frozen(time.Now()) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Frozen is how long the process has been frozen until now. A timer may come before the next look, so it asks too.
func (a *Awake) Frozen(now time.Time) time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	gap := frozenFor(a.last, now)
	if gap > 0 {
		a.frozen, a.thawed = a.frozen+gap, now
	}
	if now.After(a.last) {
		a.last = now
	}
	return a.frozen
}

// frozenFor is how long a process was frozen that should have looked every awakeLook.
func frozenFor(last, now time.Time) time.Duration {
	if gap := now.Sub(last) - awakeLook; !last.IsZero() && gap >= frozenMin {
		return gap
	}
	return 0
}

// Thawed reports whether the process was frozen and has gone on for less than a while.
func (a *Awake) Thawed(now time.Time, within time.Duration) bool {
	if a.Frozen(now); a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.thawed.IsZero() && now.Sub(a.thawed) < within
}

// after resumes the actor as World.After does, once d has passed in which this process was not frozen.
func (a *Awake) after(w World, d time.Duration, then func()) Timer {
	if a == nil {
		return w.After(d, then)
	}
	t, start := &awakeTimer{}, w.Now()
	before := a.Frozen(start)
	t.now = w.After(d, func() {
		now := w.Now()
		if frozen := a.Frozen(now) - before; frozen > 0 && now.Sub(start)-frozen < d {
			left := d - (now.Sub(start) - frozen)
			t.now = a.after(w, left, then)
			return
		}
		then()
	})
	return t
}

// awakeTimer is a timer that is started again for as long as its process was frozen.
type awakeTimer struct{ now Timer }

func (t *awakeTimer) Stop() bool { return t.now.Stop() }
