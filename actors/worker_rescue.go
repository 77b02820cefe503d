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

// RescueFromNode is the change that a running execution gets whose node has ended. Before names the nodes that have ended while they ran it.
func (c *WorkerConfig) RescueFromNode(e *messages.Execution, before []string, by string) store.Change {
	policy := c.Retry
	if a, _ := c.Action(e.Action, e.Version); a != nil {
		policy = retry.Resolve(a.Retry, c.Retry)
	}
	rescued := retry.RescueFromNode(e, before, retry.Resolve(policy, retry.Policy{}), random, by)
	if rescued.Action == retry.PlaceAgain {
		return &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: retry.NodeEnded, Delay: rescued.Delay, Unstarted: true}
	}
	finish := &store.Finish{ID: e.ID, Attempt: e.Attempt, WorkerID: e.WorkerID}
	finish.Outcome, finish.Retry = c.RetryOf(e, rescued.Outcome)
	return finish
}
