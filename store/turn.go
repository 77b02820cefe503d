package store

// Turn is one requested execution of a session with affinity strict or strict_fail, in the order of insertion.
type Turn struct {
	// Ahead: its run_at is in the future.
	Ahead bool
	// GivenBack: it was placed and came back (TakeBack, Rescue). Until it is placed again, its run_at is a back-off.
	GivenBack bool
}

// Head returns which of a session's executions a router may place next: the first in the order of insertion that keeps
// a place in the session's line. It returns -1 if one of the session is on a worker, no execution keeps a place, or the
// first is backed off.
//
// A scheduled start or a retry keeps no place before its time, so it does not hold its session. An execution that was
// given back keeps its place during its back-off: those after it wait, because they must not start before it.
func Head(line []Turn, busy bool) int {
	if busy {
		return -1
	}
	for i, t := range line {
		switch {
		case !t.Ahead:
			return i
		case t.GivenBack:
			return -1
		}
	}
	return -1
}
