package actors

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
)

// RetryOf judges an outcome: it returns it with the class of its error, and with the retry that follows or why none does.
func (c *WorkerConfig) RetryOf(e *messages.Execution, o messages.Outcome) (messages.Outcome, *messages.Execution) {
	action, _ := c.Action(e.Action, e.Version)
	return c.retryOf(e, action, o)
}

// retryOf is RetryOf for an action that is known. It is apart from retryAfter, whose large frame would grow the stack of every
// run that completes.
func (c *WorkerConfig) retryOf(e *messages.Execution, a *messages.Action, o messages.Outcome) (messages.Outcome, *messages.Execution) {
	if o.Status == messages.Completed || o.Status == messages.Cancelled {
		return o, nil
	}
	return c.retryAfter(e, a, o)
}

func (c *WorkerConfig) retryAfter(e *messages.Execution, a *messages.Action, o messages.Outcome) (messages.Outcome, *messages.Execution) {
	if a == nil { // not served here any more: the node's own rules hold
		a = &messages.Action{}
	}
	now := c.Clock.Now()
	d := retry.Decide(retry.Input{
		Now: now, Execution: e, Outcome: o, Policy: retry.Resolve(a.Retry, c.Retry), Rules: retry.ResolveRules(a.RetryRules, c.RetryRules),
		Random: random, Disabled: c.RetryDisabled, Leaked: o.Error != nil && o.Error.Exit == exitLeaked,
	})
	if o.Error != nil { // a copy, for a handler may return the same error each time
		judged := *o.Error
		judged.Class, judged.NoRetry = string(d.Class), string(d.Denied)
		o.Error = &judged
	}
	if !d.Retry {
		return o, nil
	}
	next := retry.Next(now, e, d, messages.NewExecutionID())
	return o, &next
}
