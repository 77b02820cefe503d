package webhook

import "time"

// Bounds of the calls that one node has under way.
const (
	CallsMax       = 64              // at all
	DestinationMax = 8               // at one destination that has answered well
	knownMax       = 10_000          // destinations that are remembered
	pauseMin       = time.Second     // of a destination whose calls fail
	pauseMax       = time.Minute     // the pause doubles up to this
	slowCall       = 2 * time.Second // a call that takes longer makes its destination a slow one
)

// unprovenMax bounds the calls at destinations that have not answered well and fast of late, all together. So there is always room for
// those that have, however many of the others there are.
const unprovenMax = CallsMax * 3 / 4

// Destinations decides how many calls each destination may have under way. A destination that failed, was slow, or was never called
// has one call at a time; after failures it pauses. Not safe for concurrent use.
type Destinations struct {
	known    map[string]*destination
	calls    int // under way
	unproven int // of those, how many are at destinations that are not proven
}

// destination is what is known of one.
type destination struct {
	calls, counted int // under way; how many of them were counted as unproven
	proven         bool
	failures       int // in a row
	rests          time.Time
}

// Take says how many calls may begin at a destination now, up to the number that is wanted, and counts them as begun.
func (d *Destinations) Take(name string, want int, now time.Time) int {
	at := d.known[name]
	if at == nil {
		if at = d.remember(name); at == nil {
			return 0
		}
	}
	n := min(want, CallsMax-d.calls)
	switch {
	case at.proven:
		n = min(n, DestinationMax-at.calls)
	case now.Before(at.rests):
		n = 0
	default:
		n = min(n, 1-at.calls, unprovenMax-d.unproven)
	}
	n = max(n, 0)
	at.calls, d.calls = at.calls+n, d.calls+n
	if !at.proven {
		at.counted, d.unproven = at.counted+n, d.unproven+n
	}
	return n
}

// remember makes room for one more destination, if it can: those that rest or have calls under way stay.
func (d *Destinations) remember(name string) *destination {
	if d.known == nil {
		d.known = map[string]*destination{}
	}
	if len(d.known) >= knownMax {
		for old, at := range d.known {
			if at.calls == 0 && at.failures == 0 {
				delete(d.known, old)
			}
		}
		for old, at := range d.known { // they fail: what is known of one is only its pause
			if len(d.known) < knownMax {
				break
			}
			if at.calls == 0 {
				delete(d.known, old)
			}
		}
	}
	if len(d.known) >= knownMax {
		return nil
	}
	at := &destination{}
	d.known[name] = at
	return at
}

// Unused takes back calls that were counted as begun and were not made.
func (d *Destinations) Unused(name string, n int) {
	if at := d.known[name]; at != nil {
		d.leave(at, n)
	}
}

// leave counts calls as ended. Those that were counted as unproven end first.
func (d *Destinations) leave(at *destination, n int) {
	n = min(n, at.calls)
	at.calls, d.calls = at.calls-n, d.calls-n
	of := min(n, at.counted)
	at.counted, d.unproven = at.counted-of, d.unproven-of
}

// Ended says how a call ended: whether its destination took it or answered as a living server does, and how long it took.
func (d *Destinations) Ended(name string, well bool, took time.Duration, now time.Time) {
	at := d.known[name]
	if at == nil {
		return
	}
	d.leave(at, 1)
	at.proven = well && took < slowCall
	if well {
		at.failures, at.rests = 0, time.Time{}
		return
	}
	pause := pauseMax
	if at.failures < 6 {
		pause = min(pauseMin<<at.failures, pauseMax)
	}
	at.failures, at.rests = at.failures+1, now.Add(pause)
}

// Calls is the number of calls under way.
func (d *Destinations) Calls() int { return d.calls }
