package bulk

import "time"

// Bounds of the rate of an operation, in executions or dead letters a second.
const (
	RateDefault = 200
	RateMax     = 1000
)

// StepMax bounds the executions or dead letters of one step, whose progress is saved at once.
const StepMax = 500

// Pace spreads an operation's changes over time. Its zero value begins with what a second may have.
type Pace struct {
	at    time.Time
	saved float64 // how many may be changed now
}

// Take returns how many may be changed now, at most StepMax, and counts them as changed.
func (p *Pace) Take(now time.Time, rate int) int {
	switch passed := now.Sub(p.at).Seconds(); {
	case p.at.IsZero():
		p.saved, p.at = float64(rate), now
	case passed > 0:
		p.saved, p.at = min(p.saved+passed*float64(rate), float64(rate)), now
	}
	n := min(int(p.saved), StepMax)
	p.saved -= float64(n)
	return n
}

// Return gives back what was taken and not used.
func (p *Pace) Return(n int) { p.saved += float64(n) }
