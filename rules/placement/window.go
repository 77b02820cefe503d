package placement

import "time"

// The bounds of the dispatch-ahead window.
const (
	WindowMax     = 20                     // placements ahead, however short the runs
	windowRunMax  = time.Second            // longer runs get no window
	windowWorkMax = 100 * time.Millisecond // measured work ahead beyond the first placement
)

// Window is how many executions may be placed on a worker beyond the one it runs: none while the p90 run time of what
// runs there is unknown (0) or above a second; else one, and as many as make up 100 ms of work, at most WindowMax and
// never as many as would make the worker's queue depth degraded (queueDepthDegraded).
func Window(p90 time.Duration, queueDepthDegraded int) int {
	if p90 <= 0 || p90 > windowRunMax {
		return 0
	}
	window := max(1, int(min(windowWorkMax/p90, WindowMax)))
	return max(0, min(window, queueDepthDegraded-1))
}
