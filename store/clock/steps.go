package clock

import "time"

// StepMin is the least step of the store's clock that is remembered and reported. A smaller one may be a slow answer.
const StepMin = time.Second

// stepsMax bounds the remembered steps; older ones are forgotten.
const stepsMax = 16

// Step is a change of the store's clock without passed time.
type Step struct {
	From time.Time     // the store's clock without the step, when it was seen
	By   time.Duration // how far it was set; negative: back
}

// steps are the steps that this process saw, oldest first. The type is a value: add returns a new one.
type steps []Step

func (s steps) add(step Step) steps {
	if len(s) >= stepsMax {
		s = s[1:]
	}
	return append(append(make(steps, 0, len(s)+1), s...), step)
}

// between returns the time that passed from one reading of the store's clock to a later one, without the steps. A
// reading that may be from before or after a step back counts as the later one.
func (s steps) between(from, now time.Time) time.Duration {
	passed := now.Sub(from)
	for _, step := range s {
		switch {
		case step.By > 0 && !from.After(step.From):
			passed -= step.By
		case step.By < 0 && from.After(now):
			passed -= step.By
		}
	}
	return passed
}
