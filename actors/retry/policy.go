package retry

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Policy is the back-off between retries, as actions carry it.
type Policy = messages.RetryPolicy

// Defaults returns the default policy: 1 s, doubling to 300 s, spread by a fifth.
func Defaults() Policy {
	return Policy{Base: time.Second, Multiplier: 2, Max: 300 * time.Second, Jitter: 0.2}
}

// Resolve fills the policy's zero fields from under, and what is still zero from the defaults.
func Resolve(p, under Policy) Policy {
	for _, d := range []Policy{under, Defaults()} {
		p.Base = cmp.Or(p.Base, d.Base)
		p.Multiplier = cmp.Or(p.Multiplier, d.Multiplier)
		p.Max = cmp.Or(p.Max, d.Max)
		p.Jitter = cmp.Or(p.Jitter, d.Jitter)
	}
	return p
}

// Validate names everything in the policy, defaults filled in, that makes no sense.
func Validate(p Policy) error {
	p = Resolve(p, Policy{})
	var problems []error
	if p.Base < 0 {
		problems = append(problems, fmt.Errorf("retry base must be positive, got %s", p.Base))
	}
	if !(p.Multiplier >= 1) || math.IsInf(p.Multiplier, 0) {
		problems = append(problems, fmt.Errorf("retry multiplier must be at least 1, got %v", p.Multiplier))
	}
	if p.Max < p.Base {
		problems = append(problems, fmt.Errorf("retry max %s is below its base %s", p.Max, p.Base))
	}
	if !(p.Jitter <= 1) {
		problems = append(problems, fmt.Errorf("retry jitter must be at most 1, got %v", p.Jitter))
	}
	return errors.Join(problems...)
}

// Delay is how long to wait before the retry of an execution that itself was retry number retryCount (0: the first
// run): min(base × multiplier^retryCount, max), spread over 1 ± jitter and never above max. rnd returns numbers in
// [0, 1); nil: no spread. The policy must be resolved.
func Delay(p Policy, retryCount int, rnd func() float64) time.Duration {
	limit := float64(p.Max)
	delay := math.Min(float64(p.Base)*math.Pow(p.Multiplier, float64(max(retryCount, 0))), limit)
	if p.Jitter > 0 && rnd != nil {
		delay *= 1 - p.Jitter + 2*p.Jitter*rnd()
	}
	if delay >= limit {
		return p.Max // not through a float, which rounds long times up
	}
	return time.Duration(delay)
}
