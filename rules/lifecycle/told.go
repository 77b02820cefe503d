package lifecycle

// What the journal says of workers.
const (
	ToldDegraded    = "degraded"     // it gets work only where no healthy worker is free
	ToldRecovered   = "recovered"    // it is healthy again
	ToldEnded       = "ended"        // its end began, for something that was wrong with it or because somebody killed it
	ToldStartFailed = "start_failed" // its program did not become ready
	ToldRestarted   = "restarted"    // another generation is ready, after one that was lost or starts that failed
)

// Told is what the journal says of a transition; empty: nothing. What every start, run, recycling and stop brings is not told. Restarted says
// that the worker took the place of one that was lost, or became ready after starts that failed.
func Told(from, to State, r Reason, restarted bool) string {
	switch {
	case to == Degraded:
		return ToldDegraded
	case r == HealthRestored:
		return ToldRecovered
	case r == InitComplete && restarted:
		return ToldRestarted
	case startFailed(from, r):
		return ToldStartFailed
	case r == HealthCheckFailed, r == MaxRetriesExceeded, r == Terminate, r == Error, r == Timeout:
		return ToldEnded
	}
	return ""
}
