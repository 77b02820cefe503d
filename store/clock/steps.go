package clock

import "time"

// StepMin is the least step of the store's clock that is remembered and told of. Smaller ones are no more than a slow answer.
const StepMin = time.Second

// stepsMax bounds the steps that are remembered; older ones are forgotten.
const stepsMax = 16

// Step is a change of the store's clock that no time passed for.
type Step struct {
	From time.Time     // what the store's clock would have shown when the step was seen
	By   time.Duration // how far it was set; negative: back
}

// steps are those that this process saw, oldest first. It is a value: add returns another.
type steps []Step

func (s steps) add(step Step) steps {
	if len(s) >= stepsMax {
		s = s[1:]
	}
	return append(append(make(steps, 0, len(s)+1), s...), step)
}

// between is the time that passed from one reading of the store's clock to a later one: what the clock was set meanwhile is
// no time. A reading that may be from before a step back or from after it is taken for the later one.
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
