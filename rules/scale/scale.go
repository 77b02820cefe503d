// Package scale decides how many workers a pool with bounds has: more while work waits and nobody is free, fewer after
// a while without. It is pure: the time is handed in, and the pool supervisor carries the answer out, downwards only by
// drain.
package scale

import "time"

// The pace: growth waits until the pressure has lasted GrowAfter and at most doubles the pool; shrinking waits for
// ShrinkAfter without pressure and then takes one worker every ShrinkEvery, since a start costs more than a wait.
const (
	GrowAfter   = time.Second
	ShrinkAfter = time.Minute
	ShrinkEvery = 10 * time.Second
)

// Sample is a pool as it stands.
type Sample struct {
	Workers int // that are to be there, starting ones included
	Idle    int // that could take work now
	Waiting int // executions that any worker could take, and placements on queues
}

// State is what has been seen so far. The zero value has seen nothing.
type State struct {
	pressed time.Time // since when work has waited with nobody idle
	calm    time.Time // since when somebody has been idle with nothing waiting
}

// Next takes a sample and returns the state that follows and how many workers there should be, within the bounds.
func (s State) Next(now time.Time, low, high int, at Sample) (State, int) {
	switch {
	case at.Waiting > 0 && at.Idle == 0:
		s.calm = time.Time{}
		if s.pressed.IsZero() {
			s.pressed = now
		}
		if now.Sub(s.pressed) < GrowAfter {
			return s, clamp(at.Workers, low, high)
		}
		s.pressed = now
		return s, clamp(at.Workers+max(1, min(at.Waiting, at.Workers)), low, high)
	case at.Waiting == 0 && at.Idle > 0:
		s.pressed = time.Time{}
		if s.calm.IsZero() {
			s.calm = now
		}
		if now.Sub(s.calm) < ShrinkAfter {
			return s, clamp(at.Workers, low, high)
		}
		s.calm = s.calm.Add(ShrinkEvery)
		return s, clamp(at.Workers-1, low, high)
	default:
		return State{}, clamp(at.Workers, low, high)
	}
}

func clamp(n, low, high int) int { return max(low, min(n, high)) }
