package node

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
)

// retries say whether a retry follows an execution, or why none does.
type retries struct {
	*base
	catalog *catalog
}

// answer is about one execution.
func (r *retries) answer(ctx context.Context, e *messages.Execution) view.Retry {
	if e.RetriedAs.IsZero() {
		return r.noRetry(e)
	}
	v := view.Retry{As: e.RetriedAs}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	next, err := r.store.Get(store.Bare(ctx), e.RetriedAs)
	if err != nil { // deleted since, or the store is away
		v.Message = fmt.Sprintf("it is retried as %s, which cannot be read now: %v", e.RetriedAs, err)
		return v
	}
	v.At, v.Reason = next.RunAt, next.RetryReason
	v.Message = fmt.Sprintf("it is retried as %s for %s: %s", e.RetriedAs, next.RetryReason, standsAt(&next))
	return v
}

// standsAt says where a retry stands, and when it begins where it has not.
func standsAt(e *messages.Execution) string {
	if e.Status == messages.Requested {
		return "due at " + e.RunAt.UTC().Format(time.RFC3339Nano)
	}
	return e.Status.String()
}

// longest is the longest back-off of an execution: that of its retries, or of what is taken back.
func (r *retries) longest(e *messages.Execution) time.Duration {
	policy := r.cfg.Retry
	if a, ok := r.catalog.action(e.Action, e.Version); ok {
		policy = retry.Resolve(a.Retry, policy)
	}
	return max(retry.Resolve(policy, retry.Policy{}).Max, retry.TakeBackDelay(math.MaxInt32))
}

// noRetry says why an execution has no retry, or what a failure of it would meet.
func (r *retries) noRetry(e *messages.Execution) view.Retry {
	if !e.Status.Terminal() {
		return r.ifItFails(e)
	}
	denied := retry.Denial("")
	if e.Error != nil {
		denied = retry.Denial(e.Error.NoRetry)
	}
	if denied == "" {
		denied = r.judgeAgain(e)
	}
	return view.Retry{WhyNot: string(denied), Message: "no retry follows: " + denied.Explain(e)}
}

// judgeAgain judges an outcome that was stored without the word why no retry follows, as that of an older node.
func (r *retries) judgeAgain(e *messages.Execution) retry.Denial {
	a, ok := r.catalog.action(e.Action, e.Version)
	if !ok {
		a = &messages.Action{}
	}
	d := retry.Decide(retry.Input{
		Execution: e, Outcome: messages.Outcome{Status: e.Status, Error: e.Error}, Disabled: r.cfg.RetryDisabled,
		Rules: retry.ResolveRules(a.RetryRules, r.cfg.RetryRules),
	})
	if d.Retry { // by today's rules it would be
		return retry.DeniedUnknown
	}
	return d.Denied
}

// ifItFails is about an execution that has not ended.
func (r *retries) ifItFails(e *messages.Execution) view.Retry {
	left := max(e.MaxRetries-e.RetryCount, 0)
	switch {
	case e.Status == messages.Cancelling:
		return view.Retry{WhyNot: string(retry.DeniedCancelled), Message: "no retry follows: it is being cancelled"}
	case r.cfg.RetryDisabled:
		return view.Retry{WhyNot: string(retry.DeniedDisabled), Message: "a failure is not retried: " + retry.DeniedDisabled.Explain(e)}
	case left == 0:
		return view.Retry{WhyNot: string(retry.DeniedMax), Message: "a failure is not retried: " + retry.DeniedMax.Explain(e)}
	}
	return view.Retry{Left: left, Message: fmt.Sprintf("a failure that is not final is retried; %d of %d retries are left", left, e.MaxRetries)}
}
