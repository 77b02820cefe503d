package retry

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Next builds the retry of an execution: a new one, linked to the first of its chain, due when the decision says. The
// parameters and labels are shared with the old one and must not be changed. The idempotency key stays behind, for it
// names the first run. What waited against
// a deadline gets as long again. The crash count is the store's to hand on, for it alone knows it: crashes count over the whole
// chain. So is the webhook, which stands in a row of its own.
func Next(now time.Time, e *messages.Execution, d Decision, id messages.ExecutionID) messages.Execution {
	return messages.Execution{
		ID: id, Action: e.Action, Version: e.Version, Pool: e.Pool, Status: messages.Requested,
		Parameters: e.Parameters, Session: e.Session, Affinity: e.Affinity, Priority: e.Priority,
		Labels: e.Labels, CreatedBy: e.CreatedBy, Trace: e.Trace,
		Timeout: e.Timeout, StallTimeout: e.StallTimeout,
		QueueDeadline: again(e.QueueDeadline, e, d.RunAt),
		WaitForWorker: e.WaitForWorker, Notify: e.Notify, Hooked: e.Hooked,
		Idempotent: e.Idempotent, MayRepeat: e.MayRepeat,
		MaxRetries: e.MaxRetries, RetryCount: e.RetryCount + 1, RetryReason: d.Reason,
		Original:    original(e),
		RequestedAt: now, RunAt: d.RunAt,
	}
}

func original(e *messages.Execution) messages.ExecutionID {
	if e.Original.IsZero() {
		return e.ID
	}
	return e.Original
}

// again moves a deadline that counted from the old execution's due time to the new one's.
func again(deadline time.Time, e *messages.Execution, due time.Time) time.Time {
	if deadline.IsZero() {
		return time.Time{}
	}
	return due.Add(max(deadline.Sub(e.Due()), 0))
}
