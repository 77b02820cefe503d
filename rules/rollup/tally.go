package rollup

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Tally adds up rows, whatever their keys. The zero value can be used.
type Tally struct {
	Submitted, Ended int64
	Failed           int64 // of Ended: those that failed, timed out or were abandoned
	Wait, Run        Histogram
}

// Add adds a row.
func (t *Tally) Add(r *Row) {
	if r.Status == Submitted {
		t.Submitted += r.N
		return
	}
	t.Ended += r.N
	if Unsuccessful(r.Status) {
		t.Failed += r.N
	}
	t.Wait.Merge(&r.Wait)
	t.Run.Merge(&r.Run)
}

// WaitP95 is how long 95 % of those that ended waited at most, in milliseconds, within 19 %; 0: none started.
func (t *Tally) WaitP95() float64 { return ms(&t.Wait, 0.95) }

// RunP95 is how long 95 % of those that ended ran at most, in milliseconds, within 19 %; 0: none started.
func (t *Tally) RunP95() float64 { return ms(&t.Run, 0.95) }

// Rates are the counts as they are in a second of a time of that length.
func (t *Tally) Rates(span time.Duration) Rates {
	second := span.Seconds()
	return Rates{
		Submitted: float64(t.Submitted) / second, Ended: float64(t.Ended) / second, Failed: float64(t.Failed) / second,
		WaitP95: t.WaitP95(), RunP95: t.RunP95(),
	}
}

// Unsuccessful reports whether an outcome is one that somebody did not want.
func Unsuccessful(s messages.Status) bool {
	return s == messages.Failed || s == messages.TimedOut || s == messages.Abandoned
}
