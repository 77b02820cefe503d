package postgres

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// While another program keeps an old snapshot open, the server keeps the index entries of all that was placed since, and a
// look from the top walks them again each time. So after a look that took long the next ones begin, in each index and rank,
// at a floor: nothing that the look could have seen waits below it. What comes to wait below a floor later is seen by the
// next whole look: this process clears the floors where it puts something there itself, and a whole look comes again after
// ten times what it takes.

// floorRanks are the ranks of what is due, best first: 9 less the priority, and 16 more for what waits for its session's turn.
const floorRanks = int(messages.PriorityMax) + 1

// The times of the floors.
const (
	floorSlow  = 50 * time.Millisecond // a look that takes less is made whole each time
	floorShare = 10                    // a whole look comes again after so many times what it took,
	floorMost  = 5 * time.Second       // but no later
	// floorAge is how old a floor at least is: what was stored with a lower seq has been committed since, or never will be,
	// but by another program's own transaction.
	floorAge = 2 * statementTimeout
)

// floors are the floors of each pool.
type floors struct {
	mu    sync.Mutex
	pools map[string]*floor
	slow  time.Duration // floorSlow, but in tests
	age   time.Duration // floorAge, but in tests
	now   func() time.Time
}

// bases are what the looks at one pool may begin behind.
type bases struct {
	plain [floorRanks]int64 // the seq of what is in no session's line, by rank
	heads [floorRanks]int64 // the seq of the heads of sessions, by rank
	fails int64             // the seq of the strict_fails that wait
	timer time.Time         // the time of what waits for its time
}

// floor is what is known of one pool.
type floor struct {
	bases
	until time.Time // looks before begin at the floors
	whole time.Time // looks before are whole ones, whatever they take
	marks [2]mark   // the older one is the one to use
}

// mark is the last seq that was given out at a moment, and the moment by the server's clock.
type mark struct {
	at    time.Time
	seq   int64
	clock time.Time
}

// sight is what a whole look saw. What only a later look needs is asked for once a look has taken long.
type sight struct {
	plain []messages.Candidate // what is in no session's line, best first
	more  bool                 // whether there was more of it
	turns [floorRanks]int64    // the first that waits in a session's line, by rank, whether it is the head or will be; 0: none
	fails int64                // the first of the strict_fails; 0: none
	timer time.Time            // the first that waits for its time; zero: none
	last  mark                 // seq 0: that was not asked
}

// poolsMax bounds the pools that are kept.
const poolsMax = 1000

func newFloors() *floors {
	return &floors{pools: map[string]*floor{}, slow: floorSlow, age: floorAge, now: time.Now}
}

// of returns the floors to begin at; false: the look is to be a whole one.
func (f *floors) of(pool string, now time.Time) (bases, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pools[pool]
	if p == nil || !now.Before(p.until) || now.Before(p.whole) {
		return bases{}, false
	}
	return p.bases, true
}

// slows reports whether the last look at the pool took long.
func (f *floors) slows(pool string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pools[pool] != nil
}

// floorClear is how long the looks are whole ones after something has come to wait below: its transaction may still be open.
const floorClear = time.Second

// clear has the next looks be whole ones.
func (f *floors) clear(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pools {
		p.whole = now.Add(floorClear)
	}
}

// looked takes what a whole look saw and how long it took.
func (f *floors) looked(pool string, began, now time.Time, saw *sight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took := now.Sub(began)
	p := f.pools[pool]
	switch {
	case took < f.slow:
		delete(f.pools, pool)
		return
	case p == nil && len(f.pools) >= poolsMax:
		return
	case p == nil:
		p = &floor{}
		f.pools[pool] = p
	}
	if saw.last.seq == 0 {
		return // the marks and the first ones were not asked for
	}
	if now.Sub(p.marks[1].at) >= f.age {
		saw.last.at = began
		p.marks[0], p.marks[1] = p.marks[1], saw.last
	}
	if p.marks[0].seq == 0 {
		return // nothing is old enough to be passed over
	}
	p.bases = basesOf(saw, p.marks[0])
	p.until = now.Add(min(floorShare*took, floorMost))
}

// basesOf says below what nothing waits that the look could have seen, and no more than the mark. Behind the last rank of an
// answer that was cut, nothing is known. A session's next comes to be its head when the one before it ends, on any node; so the
// floor of the heads is below all that wait for their turn.
func basesOf(saw *sight, m mark) (b bases) {
	first, known := [floorRanks]int64{}, floorRanks
	for i := range saw.plain {
		rank := int(messages.PriorityMax - saw.plain[i].Priority)
		if first[rank] == 0 || saw.plain[i].Seq < first[rank] {
			first[rank] = saw.plain[i].Seq
		}
		if saw.more {
			known = rank + 1
		}
	}
	for i := range known {
		b.plain[i] = below(first[i], m.seq)
	}
	for i, first := range saw.turns {
		b.heads[i] = below(first, m.seq)
	}
	b.fails, b.timer = below(saw.fails, m.seq), m.clock
	if first := saw.timer.Add(-time.Microsecond); !saw.timer.IsZero() && first.Before(b.timer) {
		b.timer = first
	}
	return b
}

// below is the mark, or less where the first that waits is not above it; 0: none waits.
func below(first, mark int64) int64 {
	if first == 0 {
		return mark
	}
	return max(min(first-1, mark), 0)
}
