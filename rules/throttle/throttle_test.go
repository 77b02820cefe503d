package throttle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type step struct {
		at       time.Duration
		pass     bool
		withheld int
	}
	for name, c := range map[string]struct {
		every time.Duration
		burst int
		steps []step
	}{
		"first, then once a minute": {steps: []step{
			{0, true, 0}, {time.Millisecond, false, 0}, {59 * time.Second, false, 0}, {time.Minute, true, 2},
			{time.Minute + time.Second, false, 0}, {2 * time.Minute, true, 1}, {time.Hour, true, 0},
		}},
		"its own interval": {every: time.Second, steps: []step{{0, true, 0}, {999 * time.Millisecond, false, 0}, {time.Second, true, 1}}},
		"a few at once": {burst: 3, steps: []step{
			{0, true, 0}, {0, true, 0}, {30 * time.Second, true, 0}, {31 * time.Second, false, 0}, {time.Minute - 1, false, 0},
			{time.Minute, true, 2}, {time.Minute, true, 0}, {time.Minute, true, 0}, {time.Minute, false, 0}, {3 * time.Minute, true, 1},
		}},
		"clock set back": {steps: []step{{time.Hour, true, 0}, {time.Minute, true, 0}, {2 * time.Minute, true, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := Gate{Every: c.every, Burst: c.burst}
			for i, s := range c.steps {
				pass, withheld := g.Pass(start.Add(s.at))
				require.Equal(t, s.pass, pass, "step %d", i)
				require.Equal(t, s.withheld, withheld, "step %d", i)
			}
		})
	}
}

// A flood writes one line a minute, whatever its rate, and no message is left out of the count.
func TestGateCountsAFlood(t *testing.T) {
	var g Gate
	now, lines, told := time.Now(), 0, 0
	for range 10 * 60 * 100 {
		if pass, withheld := g.Pass(now); pass {
			lines++
			told += 1 + withheld
		}
		now = now.Add(10 * time.Millisecond)
	}
	require.Equal(t, 10, lines)
	require.Equal(t, 9*60*100+1, told, "all but the last minute's")
}
