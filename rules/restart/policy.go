package restart

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// LeakedMax is how many go handlers that would not end make a pool broken.
const LeakedMax = 100

// Policy is a pool's restart intensity and back-off. Zero fields mean the defaults.
type Policy struct {
	// Intensity restarts within Period happen at once; 5 in 10 s.
	Intensity int           `yaml:"restart_intensity" range:"1..10000" help:"Restarts of a pool within restart_period before a slot backs off."`
	Period    time.Duration `yaml:"restart_period" range:"0.1..3600" unit:"s" help:"See restart_intensity."`
	// BackoffMin is a slot's first delay beyond the intensity, doubling to BackoffMax; 250 ms and 30 s.
	BackoffMin time.Duration `yaml:"backoff_base" range:"0.001..3600" unit:"s" help:"First back-off of a slot; it doubles."`
	BackoffMax time.Duration `yaml:"backoff_max" range:"0.001..3600" unit:"s" help:"Longest back-off of a slot."`
	// Jitter is the share of random spread around a delay, 0 to 1; 0.2. Negative: none.
	Jitter float64
	// HealthyAfter is how long a slot must have been up for its back-off to start over; 60 s.
	HealthyAfter time.Duration `yaml:"backoff_reset" range:"0.1..86400" unit:"s" help:"How long a slot must be healthy to end its back-off."`
	// BrokenAfter is how many failed starts in a row of every slot make the pool broken; 3.
	BrokenAfter int
}

// Defaults returns the default policy.
func Defaults() Policy {
	return Policy{
		Intensity: 5, Period: 10 * time.Second,
		BackoffMin: 250 * time.Millisecond, BackoffMax: 30 * time.Second,
		Jitter: 0.2, HealthyAfter: 60 * time.Second, BrokenAfter: 3,
	}
}

// WithDefaults fills the zero fields.
func (p Policy) WithDefaults() Policy {
	d := Defaults()
	p.Intensity = cmp.Or(p.Intensity, d.Intensity)
	p.Period = cmp.Or(p.Period, d.Period)
	p.BackoffMin = cmp.Or(p.BackoffMin, d.BackoffMin)
	p.BackoffMax = cmp.Or(p.BackoffMax, d.BackoffMax)
	p.Jitter = cmp.Or(p.Jitter, d.Jitter)
	p.HealthyAfter = cmp.Or(p.HealthyAfter, d.HealthyAfter)
	p.BrokenAfter = cmp.Or(p.BrokenAfter, d.BrokenAfter)
	return p
}

// Validate names everything in the policy, defaults filled in, that makes no sense.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	var problems []error
	positive := func(name string, ok bool, got any) {
		if !ok {
			problems = append(problems, fmt.Errorf("restart %s must be positive, got %v", name, got))
		}
	}
	positive("intensity", p.Intensity > 0, p.Intensity)
	positive("period", p.Period > 0, p.Period)
	positive("back-off minimum", p.BackoffMin > 0, p.BackoffMin)
	positive("healthy time", p.HealthyAfter > 0, p.HealthyAfter)
	positive("broken limit", p.BrokenAfter > 0, p.BrokenAfter)
	if p.BackoffMax < p.BackoffMin {
		problems = append(problems, fmt.Errorf(
			"restart back-off maximum %s is below its minimum %s", p.BackoffMax, p.BackoffMin))
	}
	if p.Jitter > 1 {
		problems = append(problems, fmt.Errorf("restart jitter must be at most 1, got %v", p.Jitter))
	}
	return errors.Join(problems...)
}

// backoff returns the delay of a slot's step-th restart beyond the intensity, step from 1.
func (p Policy) backoff(step int, rnd func() float64) time.Duration {
	delay := p.BackoffMin
	for i := 1; i < step && delay < p.BackoffMax; i++ {
		delay *= 2
	}
	delay = min(delay, p.BackoffMax)
	if p.Jitter > 0 && rnd != nil {
		delay = time.Duration(float64(delay) * (1 - p.Jitter + 2*p.Jitter*rnd()))
	}
	return min(delay, p.BackoffMax)
}
