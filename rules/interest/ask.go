package interest

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// FanoutMax is how many nodes are asked for the outcome of an execution that may end on any of them. In a larger cluster none is: each wait
// would cost every node an entry, for what the store's hint tells as well.
const FanoutMax = 16

// Ask returns which of the live other nodes are asked for the outcome of an execution: the one that runs it, or all while it may run
// anywhere. It returns none where this node runs it or it has ended. Runs is the incarnation of its worker.
func Ask(own messages.Incarnation, status messages.Status, runs messages.Incarnation, live []messages.Incarnation) []messages.Incarnation {
	switch {
	case status.Terminal():
		return nil
	case status.Started() && slices.Contains(live, runs):
		return []messages.Incarnation{runs}
	case status.Started(), len(live) > FanoutMax:
		return nil
	}
	return live
}

// askSlack is for how much longer than until the next look at the store an outcome is wanted: the look takes time, and so does the way.
const askSlack = 5 * time.Second

// Lasts is for how long an outcome is wanted by a caller who looks at the store again after a pause, in whole seconds.
func Lasts(pause time.Duration) time.Duration {
	return min(max(pause, 0)+askSlack, LastsMax).Truncate(time.Second)
}
