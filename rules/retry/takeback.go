package retry

import "time"

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
