package webhook

import (
	"strings"
	"time"
)

// Bounds of the calls that one node has under way.
const (
	CallsMax       = 64              // at all
	DestinationMax = 8               // at one destination that has answered well
	hostMax        = 16              // at one host and port, for all who submitted
	ownerMax       = 100             // bytes of who submitted, in a destination's name
	knownMax       = 10_000          // destinations that are remembered
	pauseMin       = time.Second     // of a destination whose calls fail
	pauseMax       = time.Minute     // the pause doubles up to this
	slowCall       = 2 * time.Second // a call that takes longer makes its destination a slow one
)

// Of is the destination of what somebody submitted: a host and port, for one who submits. So what hangs or fails for one holds up no
// other's calls to the same host.
func Of(host, owner string) string {
	if owner == "" {
		return host
	}
	if len(owner) > ownerMax {
		owner = strings.ToValidUTF8(owner[:ownerMax], "")
	}
	return host + " " + owner
}

// unprovenMax bounds the calls at destinations that have not answered well and fast of late, all together. So there is always room for
// those that have, however many of the others there are.
const unprovenMax = CallsMax * 3 / 4

// Destinations decides how many calls each destination may have under way. A destination that failed, was slow, or was never called
// has one call at a time; after failures it pauses. One who submits has at most half of what all others leave, of all calls, of those at
// destinations that are not proven, and of those at one host: so there is always room for the next one's. Not safe for concurrent use.
type Destinations struct {
	known  map[string]*destination
	all    share            // under way
	owners map[string]share // by who submitted; only those with some
	hosts  map[string]int   // by host and port; only those with some
}

// share is a number of calls under way.
type share struct {
	calls    int
	unproven int // of those, how many are at destinations that are not proven
}

// destination is what is known of one.
type destination struct {
	host, owner    string
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
	own := d.owners[at.owner]
	n := min(want, room(CallsMax, d.all.calls, own.calls), room(hostMax, d.hosts[at.host], at.calls))
	switch {
	case at.proven:
		n = min(n, DestinationMax-at.calls)
	case now.Before(at.rests):
		n = 0
	default:
		n = min(n, 1-at.calls, room(unprovenMax, d.all.unproven, own.unproven))
	}
	n = max(n, 0)
	unproven := 0
	if !at.proven {
		unproven = n
	}
	d.count(at, n, unproven)
	return n
}

// room is how many more calls one may have who has own of those under way: half of what the others leave, and one at least where there is
// any.
func room(most, all, own int) int {
	others := all - own
	return min((most-others+1)/2-own, most-all)
}

// count counts calls as begun or, where n is negative, as ended.
func (d *Destinations) count(at *destination, n, unproven int) {
	at.calls, at.counted = at.calls+n, at.counted+unproven
	d.all = share{d.all.calls + n, d.all.unproven + unproven}
	own := share{d.owners[at.owner].calls + n, d.owners[at.owner].unproven + unproven}
	if d.owners[at.owner] = own; own == (share{}) {
		delete(d.owners, at.owner)
	}
	if d.hosts[at.host] += n; d.hosts[at.host] == 0 {
		delete(d.hosts, at.host)
	}
}

// remember makes room for one more destination, if it can: those that rest or have calls under way stay.
func (d *Destinations) remember(name string) *destination {
	if d.known == nil {
		d.known, d.owners, d.hosts = map[string]*destination{}, map[string]share{}, map[string]int{}
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
	at.host, at.owner, _ = strings.Cut(name, " ")
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
	d.count(at, -n, -min(n, at.counted))
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
func (d *Destinations) Calls() int { return d.all.calls }
