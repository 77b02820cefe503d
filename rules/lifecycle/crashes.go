package lifecycle

import "time"

// CrashSoon is how soon after a worker has become ready its end by itself, before it ran anything, is a crash at once.
const CrashSoon = time.Minute

// ErrorAgain is stored in the place of Error as the reason of a crash at once that the journal does not tell. Only texts are made of stored
// reasons: it is none of the state machine's.
const ErrorAgain = "error_again"

// Crashes bounds what the journal tells of a worker that becomes ready and crashes at once, again and again: the first end and restart at once,
// and then one of each for all of StartsEach. The zero value has none.
type Crashes struct {
	untold int
	told   time.Time
	quiet  bool // the last one was not told
}

// CrashedAtOnce reports whether the change is the end of a worker that had just become ready. First says that it had not changed since then.
func (e *Entry) CrashedAtOnce(first bool) bool {
	return first && e.From == Ready && e.Reason == Error && e.In < CrashSoon
}

// Ended takes an end of the worker. Tell: it is to be told, for n crashes at once since the last that was, this one included; 0: it is none.
func (c *Crashes) Ended(now time.Time, atOnce bool) (n int, tell bool) {
	if c.quiet = false; !atOnce {
		return 0, true
	}
	c.untold++
	if !c.told.IsZero() && now.Sub(c.told) < StartsEach {
		c.quiet = true
		return 0, false
	}
	n, c.untold, c.told = c.untold, 0, now
	return n, true
}

// Quiet reports whether the last end was not told, so that neither is what replaces the worker.
func (c *Crashes) Quiet() bool { return c.quiet }
