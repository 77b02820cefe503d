package actors

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
)

// RescueOf is the change that a lost worker's execution gets: placed again, ended with or without a retry, or nil
// where no worker holds it.
func (c *WorkerConfig) RescueOf(e *messages.Execution, by, why string) store.Change {
	rescued := retry.Rescue(e, by, why)
	switch {
	case rescued.Action == retry.Leave:
		return nil
	case rescued.Action == retry.PlaceAgain && e.Status == messages.Scheduled:
		return &store.TakeBack{ID: e.ID, Attempt: e.Attempt, Reason: why}
	case rescued.Action == retry.PlaceAgain:
		return &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: why}
	default:
		finish := &store.Finish{ID: e.ID, Attempt: e.Attempt, WorkerID: e.WorkerID}
		finish.Outcome, finish.Retry = c.RetryOf(e, rescued.Outcome)
		return finish
	}
}
