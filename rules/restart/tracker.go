package restart

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// State is how a pool's restarts stand.
type State uint8

// The states of a pool.
const (
	Steady     State = iota // restarts happen at once
	BackingOff              // at least one slot waits before its next start
	Broken                  // every slot keeps failing to start, or too many go handlers leaked
)

var stateNames = [...]string{"steady", "backing_off", "broken"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Verdict says what to do about a failed slot: start it again after the delay. A pool that is broken stays supervised,
// so there is always a next start.
type Verdict struct {
	State   State         // of the pool, this failure counted
	Changed bool          // the pool's state differs from before: log it, show it
	Delay   time.Duration // until the slot's next start; 0: now
	Reason  string        // why it waits, in words; empty: it does not
}

// slot is what the tracker knows of one slot.
type slot struct {
	up      time.Time // when its worker became ready; zero while it is not
	waiting bool      // its next start is delayed
	step    int       // back-off steps taken; 0: none
	starts  int       // failed starts in a row
}

// Tracker follows the restarts of one pool on one node. It is not safe for concurrent use.
type Tracker struct {
	policy Policy
	slots  map[messages.Slot]*slot
	// recent is a ring of the last restarts, as many as the intensity; oldest at next.
	recent []time.Time
	next   int
	// Counts over all slots, so that State looks at no slot.
	waiting int
	failing int // slots with at least BrokenAfter failed starts in a row
	leaked  int
	last    State
}

// New returns a tracker without slots. Zero fields of the policy mean the defaults.
func New(p Policy) *Tracker {
	return &Tracker{policy: p.WithDefaults(), slots: map[messages.Slot]*slot{}}
}

// Add makes a slot known before its first start. A slot that was never added is added by its first event.
func (t *Tracker) Add(s messages.Slot) { t.slot(s) }

// Remove forgets a slot that is not to be started again. It reports whether the pool's state changed.
func (t *Tracker) Remove(s messages.Slot) (State, bool) {
	if sl, ok := t.slots[s]; ok {
		t.setWaiting(sl, false)
		t.setStarts(sl, 0)
		delete(t.slots, s)
	}
	return t.settle()
}

// Started records that a slot's worker became ready: its start succeeded. The pool is no longer broken. It returns the
// pool's state and whether it changed.
func (t *Tracker) Started(s messages.Slot, now time.Time) (State, bool) {
	sl := t.slot(s)
	sl.up = now
	t.setWaiting(sl, false)
	t.setStarts(sl, 0)
	return t.settle()
}

// Failed records that a slot's worker is gone and must be started again, and says after how long. A worker that never
// became ready counts as a failed start, which always backs off. rnd returns numbers in [0, 1); nil: no jitter.
func (t *Tracker) Failed(s messages.Slot, now time.Time, rnd func() float64) Verdict {
	return t.failed(s, now, rnd, true)
}

// Postponed records a start that the node had no room for. It backs off as a failed one does, and does not break the pool:
// neither its code nor its workers are to blame.
func (t *Tracker) Postponed(s messages.Slot, now time.Time, rnd func() float64) Verdict {
	return t.failed(s, now, rnd, false)
}

func (t *Tracker) failed(s messages.Slot, now time.Time, rnd func() float64, counts bool) Verdict {
	sl := t.slot(s)
	wasUp := !sl.up.IsZero()
	if wasUp && now.Sub(sl.up) >= t.policy.HealthyAfter {
		sl.step = 0
	}
	sl.up = time.Time{}
	if !wasUp && counts {
		t.setStarts(sl, sl.starts+1)
	}
	var v Verdict
	if within := t.restart(now); wasUp && sl.step == 0 && within {
		t.setWaiting(sl, false)
	} else {
		sl.step++
		t.setWaiting(sl, true)
		v.Delay = t.policy.backoff(sl.step, rnd)
		v.Reason = t.why(sl, wasUp)
		if !counts {
			v.Reason = "the node is short of what a start takes"
		}
	}
	v.State, v.Changed = t.settle()
	return v
}

// Mended forgets the failures of all slots: what they were started with has changed. Leaked handlers still count. It returns the
// pool's state and whether it changed.
func (t *Tracker) Mended() (State, bool) {
	for _, sl := range t.slots {
		t.setWaiting(sl, false)
		t.setStarts(sl, 0)
		sl.step = 0
	}
	t.recent, t.next = t.recent[:0], 0
	return t.settle()
}

// Leaked records how many go handlers of the pool would not end; LeakedMax of them break it.
func (t *Tracker) Leaked(count int) (State, bool) {
	t.leaked = count
	return t.settle()
}

// State returns how the pool's restarts stand.
func (t *Tracker) State() State {
	switch {
	case t.leaked >= LeakedMax, len(t.slots) > 0 && t.failing == len(t.slots):
		return Broken
	case t.waiting > 0:
		return BackingOff
	}
	return Steady
}

func (t *Tracker) why(sl *slot, wasUp bool) string {
	switch {
	case !wasUp:
		return fmt.Sprintf("start failed %d times in a row", sl.starts)
	case sl.step == 1:
		return fmt.Sprintf("restart intensity of %d in %s reached", t.policy.Intensity, t.policy.Period)
	}
	return fmt.Sprintf("not healthy for %s since its last back-off", t.policy.HealthyAfter)
}

// restart notes a restart and reports whether it is within the intensity.
func (t *Tracker) restart(now time.Time) bool {
	if len(t.recent) < t.policy.Intensity {
		t.recent = append(t.recent, now)
		return true
	}
	within := now.Sub(t.recent[t.next]) > t.policy.Period
	t.recent[t.next] = now
	t.next = (t.next + 1) % len(t.recent)
	return within
}

func (t *Tracker) slot(s messages.Slot) *slot {
	sl, ok := t.slots[s]
	if !ok {
		sl = &slot{}
		t.slots[s] = sl
	}
	return sl
}

func (t *Tracker) setWaiting(sl *slot, waiting bool) {
	if sl.waiting != waiting {
		t.waiting += delta(waiting)
		sl.waiting = waiting
	}
}

func (t *Tracker) setStarts(sl *slot, starts int) {
	limit := t.policy.BrokenAfter
	if was, is := sl.starts >= limit, starts >= limit; was != is {
		t.failing += delta(is)
	}
	sl.starts = starts
}

func delta(up bool) int {
	if up {
		return 1
	}
	return -1
}

// settle returns the pool's state and whether it differs from the last one returned.
func (t *Tracker) settle() (State, bool) {
	is := t.State()
	changed := is != t.last
	t.last = is
	return is, changed
}
