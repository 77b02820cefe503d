package store

// Turn is one execution of a session with affinity strict or strict_fail that is requested, in the order of insertion.
type Turn struct {
	// Ahead: its run_at lies ahead.
	Ahead bool
	// GivenBack: it was placed and came back (TakeBack, Rescue). Until it is placed again, its run_at is a back-off.
	GivenBack bool
}

// Head returns which of a session's executions a router may place next: the first, in order of insertion, that stands in
// line. -1: none, because one of the session is on a worker, nothing stands in line, or the first is backed off.
//
// A scheduled start or a retry does not stand in line before its time, so it does not hold its session. One that was given
// back keeps its place while it is backed off: those behind it wait, for they must not start before it.
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
