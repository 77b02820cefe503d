package lifecycle

import (
	"fmt"
	"time"
)

// StartsEach is how far apart the records are of a worker's starts that fail one after the other.
const StartsEach = 5 * time.Minute

// Starts bounds what is recorded of a worker's starts that fail in a row: the first one at once, and then one record for all of StartsEach. The
// zero value has none.
type Starts struct {
	failed, untold int
	told           time.Time
}

// Failed takes a start that failed. Tell: it is to be recorded, for n starts that failed since the last record, this one included.
func (s *Starts) Failed(now time.Time) (n int, tell bool) {
	s.failed++
	s.untold++
	if s.failed > 1 && now.Sub(s.told) < StartsEach {
		return 0, false
	}
	n, s.untold, s.told = s.untold, 0, now
	return n, true
}

// After says in words after what the worker became ready, the last failure given.
func (s *Starts) After(lastFailure string) string {
	switch {
	case s.failed == 0 && lastFailure == "":
		return "after a worker that was lost"
	case s.failed <= 1:
		return "after " + lastFailure
	}
	return fmt.Sprintf("after %d starts that failed, the last with: %s", s.failed, lastFailure)
}

// Any reports whether a start has failed since the worker was ready.
func (s *Starts) Any() bool { return s.failed > 0 }

// StartFailed reports whether the change is the end of a start that failed by itself.
func (e *Entry) StartFailed() bool { return startFailed(e.From, e.Reason) }

func startFailed(from State, r Reason) bool {
	return from == Initializing && (r == Error || r == Timeout)
}
