package retry

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Policy is the back-off between retries, as actions carry it.
type Policy = messages.RetryPolicy

// Defaults returns the default policy: 1 s, doubling to 300 s, spread by a fifth.
func Defaults() Policy {
	return Policy{Shape: messages.ShapeExponential, Base: time.Second, Multiplier: 2, Max: 300 * time.Second, Jitter: 0.2}
}

// Resolve fills the policy's zero fields from under, and what is still zero from the defaults.
func Resolve(p, under Policy) Policy {
	for _, d := range []Policy{under, Defaults()} {
		p.Shape = cmp.Or(p.Shape, d.Shape)
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
	if !slices.Contains(messages.RetryShapes(), p.Shape) {
		problems = append(problems, fmt.Errorf("retry shape must be %s, got %q", messages.Alternatives(messages.RetryShapes()), p.Shape))
	}
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
// run): the shape's delay, spread over 1 ± jitter and never above max. rnd returns numbers in [0, 1); nil: no spread. The
// policy must be resolved. A shape that is not known is of a newer node, and counts as exponential.
func Delay(p Policy, retryCount int, rnd func() float64) time.Duration {
	limit, n := float64(p.Max), max(retryCount, 0)
	if p.Shape == messages.ShapeDecorrelated {
		return clamp(decorrelated(float64(p.Base), limit, n, rnd), p.Max)
	}
	delay := math.Min(float64(p.Base)*growth(p, n), limit)
	if p.Jitter > 0 && rnd != nil {
		delay *= 1 - p.Jitter + 2*p.Jitter*rnd()
	}
	return clamp(delay, p.Max)
}

func clamp(delay float64, limit time.Duration) time.Duration {
	if delay >= float64(limit) {
		return limit // not through a float, which rounds long times up
	}
	return time.Duration(delay)
}

// growth is how many times its base the n-th delay is; it never shrinks with n.
func growth(p Policy, n int) float64 {
	switch p.Shape {
	case messages.ShapeFixed:
		return 1
	case messages.ShapeLinear:
		return float64(n) + 1
	case messages.ShapeFibonacci:
		return fibonacci(n)
	}
	return math.Pow(p.Multiplier, float64(n))
}

// fibonacciMax is past what any duration can be divided into: the 92nd number is the last of 63 bits.
const fibonacciMax = 92

func fibonacci(n int) float64 {
	a, b := 1.0, 1.0
	for range min(n, fibonacciMax) {
		a, b = b, a+b
	}
	return a
}

// decorrelatedMax bounds the walk: after so many steps it has long forgotten where it began.
const decorrelatedMax = 100

// decorrelated is the delay after n others, each drawn between base and three times the one before it, up to limit. The
// walk is made anew for each retry, so that nobody has to remember the delays before it; a single delay is distributed the
// same. Without a random source each draw is its middle.
func decorrelated(base, limit float64, n int, rnd func() float64) float64 {
	delay := base
	for range min(n, decorrelatedMax-1) + 1 {
		share := 0.5
		if rnd != nil {
			share = rnd()
		}
		delay = math.Min(base+share*(3*delay-base), limit)
	}
	return delay
}
