package postgres

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// While another program keeps an old snapshot open, the server keeps the index entries of all executions placed since
// then, and each look from the start of an index reads them again. So after a slow look, the next ones start in each
// index and rank at a floor: no execution that the slow look could see waits below it. An execution that comes to wait
// below a floor later is found by the next whole look. This process clears the floors when it puts an execution there
// itself. A whole look also follows after ten times the duration of the last one.

// floorRanks is the number of ranks of due executions, best first. A rank is 9 less the priority, plus 16 for an
// execution that waits for its session's turn.
const floorRanks = int(messages.PriorityMax) + 1

// The times of the floors.
const (
	floorSlow  = 50 * time.Millisecond // faster looks are always whole ones
	floorShare = 10                    // a whole look follows after this many times its duration,
	floorMost  = 5 * time.Second       // but no later than this
	// floorAge is the least age of a floor. After it, a transaction with a lower seq has committed or never will, except
	// another program's own transaction.
	floorAge = 2 * statementTimeout
)

// floors are the floors of each pool.
type floors struct {
	mu    sync.Mutex
	pools map[string]*floor
	slow  time.Duration // floorSlow, except in tests
	age   time.Duration // floorAge, except in tests
	now   func() time.Time
}

// bases are the positions after which looks at one pool start.
type bases struct {
	plain [floorRanks]int64 // seq of executions outside sessions' lines, by rank
	heads [floorRanks]int64 // seq of the heads of sessions, by rank
	fails int64             // seq of the waiting strict_fail executions
	timer time.Time         // run_at of executions that wait for it
}

// floor is the state of one pool.
type floor struct {
	bases
	until time.Time // looks before this time start at the floors
	whole time.Time // looks before this time are whole ones
	marks [2]mark   // the older one is the one to use
}

// mark is the last seq that was assigned at a time of the server's clock.
type mark struct {
	at    time.Time
	seq   int64
	clock time.Time
}

// lookResult is the result of a whole look. Values that only a later look needs are read after a slow look.
type lookResult struct {
	plain []messages.Candidate // executions outside sessions' lines, best first
	more  bool                 // there were more
	turns [floorRanks]int64    // first waiting execution in a session's line, by rank, head or not; 0: none
	fails int64                // first strict_fail; 0: none
	timer time.Time            // first execution with run_at ahead; zero: none
	last  mark                 // seq 0: not read
}

// poolsMax bounds the pools that are kept.
const poolsMax = 1000

func newFloors() *floors {
	return &floors{pools: map[string]*floor{}, slow: floorSlow, age: floorAge, now: time.Now}
}

// of returns the floors to start at; false: the look must be a whole one.
func (f *floors) of(pool string, now time.Time) (bases, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pools[pool]
	if p == nil || !now.Before(p.until) || now.Before(p.whole) {
		return bases{}, false
	}
	return p.bases, true
}

// isSlow reports whether the last look at the pool was slow.
func (f *floors) isSlow(pool string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pools[pool] != nil
}

// floorClear is how long looks stay whole after an execution came to wait below a floor: its transaction may still be
// open.
const floorClear = time.Second

// clear makes the next looks whole ones.
func (f *floors) clear(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pools {
		p.whole = now.Add(floorClear)
	}
}

// looked records the result and the duration of a whole look.
func (f *floors) looked(pool string, began, now time.Time, saw *lookResult) {
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
		return // the marks and the firsts were not read
	}
	if now.Sub(p.marks[1].at) >= f.age {
		saw.last.at = began
		p.marks[0], p.marks[1] = p.marks[1], saw.last
	}
	if p.marks[0].seq == 0 {
		return // no mark is old enough
	}
	p.bases = basesOf(saw, p.marks[0])
	p.until = now.Add(min(floorShare*took, floorMost))
}

// basesOf returns the positions below which no execution waits that the look could see. No position exceeds the mark.
// After the last rank of a cut answer nothing is known. The next execution of a session becomes its head when the one
// before it ends, on any node. So the floor of the heads is below all executions that wait for their turn.
func basesOf(saw *lookResult, m mark) (b bases) {
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

// below returns the mark, or less if the first waiting execution is not above it; 0: none waits.
func below(first, mark int64) int64 {
	if first == 0 {
		return mark
	}
	return max(min(first-1, mark), 0)
}
