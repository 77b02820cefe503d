package throttle

import "time"

// Alarm is about the two messages of a condition that comes and goes: that it began, and that it ended. The end is written
// where the beginning was, so that the log of a condition that flaps has no end without its beginning. Its zero value is
// ready for use.
type Alarm struct {
	begins Gate
	told   bool // of the condition that holds
}

// Begin is called when the condition begins. It reports as Gate.Pass does.
func (a *Alarm) Begin(now time.Time) (pass bool, withheld int) {
	a.told, withheld = a.begins.Pass(now)
	return a.told, withheld
}

// Told says that the condition was written otherwise, since it lasts.
func (a *Alarm) Told() { a.told = true }

// End reports whether the end of the condition is to be written.
func (a *Alarm) End() bool {
	told := a.told
	a.told = false
	return told
}
