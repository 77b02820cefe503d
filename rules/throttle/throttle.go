// Package throttle decides which repetitions of one log message are written: the first, and then one, or a few, in an interval. It
// decides by values alone; whoever logs brings the time, and the lock where several goroutines share a Gate.
package throttle

import "time"

// Every is the interval of a Gate that names none.
const Every = time.Minute

// Gate is about one message of one source. Its zero value is ready for use.
type Gate struct {
	Every time.Duration // 0: Every
	Burst int           // messages of an interval; 0: one

	last     time.Time // when the interval began; zero: never
	written  int       // in the interval
	withheld int       // likewise
}

// LeftOut is what the message says of those that were withheld, as a pair for the log.
func LeftOut(withheld int) []any {
	if withheld == 0 {
		return nil
	}
	return []any{"left_out", withheld}
}

// Pass reports whether the message is to be written now, and if so how many were withheld since the one before. A clock
// that was set back opens the gate: a message too many is better than none for hours.
func (g *Gate) Pass(now time.Time) (pass bool, withheld int) {
	every := g.Every
	if every <= 0 {
		every = Every
	}
	if since := now.Sub(g.last); !g.last.IsZero() && since >= 0 && since < every {
		if g.written < g.Burst {
			g.written++
			return true, 0
		}
		g.withheld++
		return false, 0
	}
	withheld = g.withheld
	g.last, g.written, g.withheld = now, 1, 0
	return true, withheld
}
