package retry

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// The back-off of an execution that is placed and taken back again and again without a start.
const (
	TakeBackLimit = 5 // in a row, from which on it waits
	takeBackFirst = time.Second
	takeBackMax   = 30 * time.Second
)

// TakeBackDelay is how long an execution waits before it is placed again after so many take-backs in a row: nothing
// below TakeBackLimit, then 1 s doubling to 30 s.
func TakeBackDelay(takeBacks int) time.Duration {
	if takeBacks < TakeBackLimit {
		return 0
	}
	delay := takeBackFirst
	for i := TakeBackLimit; i < takeBacks && delay < takeBackMax; i++ {
		delay *= 2
	}
	return min(delay, takeBackMax)
}

// ShortageDelay is how long an execution waits that the node could not start for want of resources at this attempt, from 1:
// 1 s doubling to 30 s, as with other take-backs, but from the first on, since the want does not end at once.
func ShortageDelay(attempt int) time.Duration {
	return TakeBackDelay(TakeBackLimit - 1 + max(1, min(attempt, takeBackSteps)))
}

// takeBackSteps is how many take-backs there are at most until the longest delay.
const takeBackSteps = 16

// The back-off of an execution that comes to workers whose nodes do not serve its action. The first are short: other nodes of the pool may.
const (
	unservedFirst = 50 * time.Millisecond
	unservedSteps = 10
)

// UnservedDelay is how long an execution waits that a worker has handed back at this attempt, from 1, because its node does not serve the
// action: 50 ms doubling to 30 s.
func UnservedDelay(attempt int) time.Duration {
	return min(unservedFirst<<min(max(attempt-1, 0), unservedSteps), takeBackMax)
}

// Expires reports whether the dead letter of a placement ends the execution: it still stands as that placement left it. Any other
// has been claimed, placed again or ended since.
func Expires(e *messages.Execution, attempt messages.Attempt) bool {
	return e.Status == messages.Scheduled && e.Attempt == attempt
}

// Expired is the outcome of an execution whose placement expired on its worker's queue.
func Expired() messages.Outcome {
	return messages.Outcome{Status: messages.Failed, Error: &messages.Error{
		Code: messages.CodeQueueTimeout, FailedBy: "dead_letter_handler",
		Message: "Worker queue TTL expired: message expired in worker queue (worker unavailable)",
	}}
}
