package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFrozenFor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for since, want := range map[time.Duration]time.Duration{
		0: 0, awakeLook: 0, awakeLook + frozenMin - 1: 0, awakeLook + frozenMin: frozenMin, awakeLook + time.Hour: time.Hour, -time.Hour: 0,
	} {
		require.Equal(t, want, frozenFor(now.Add(-since), now), "%s", since)
	}
	require.Zero(t, frozenFor(time.Time{}, now), "the first look")
}

// handWorld is a World whose clock and timers a test moves.
type handWorld struct {
	now    time.Time
	timers []handTimer
}

type handTimer struct {
	due  time.Time
	then func()
}

func (w *handWorld) Now() time.Time { return w.now }

func (w *handWorld) After(d time.Duration, then func()) Timer {
	w.timers = append(w.timers, handTimer{w.now.Add(d), then})
	return over{}
}

func (w *handWorld) Beside(time.Duration, func(context.Context) func()) {}

func (w *handWorld) Random() float64 { return 0 }

// pass lets time pass, with a look of the process at its end, and fires what is due.
func (w *handWorld) pass(a *Awake, d time.Duration) {
	w.now = w.now.Add(d)
	a.Frozen(w.now)
	due := w.timers
	w.timers = nil
	for _, timer := range due {
		if timer.due.After(w.now) {
			w.timers = append(w.timers, timer)
		} else {
			timer.then()
		}
	}
}

// A timer runs out once its time has passed in which the process went on, whenever it was frozen.
func TestATimerDoesNotCountTheTimeOfAFreeze(t *testing.T) {
	t.Parallel()
	for name, froze := range map[string]struct{ before, frozen time.Duration }{
		"never":                  {0, 0},
		"at once":                {0, time.Minute},
		"beyond the timer's end": {2 * time.Second, time.Minute},
		"and before it again":    {time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, a, fired := &handWorld{now: time.Now()}, &Awake{}, false
			awake := func(d time.Duration) {
				for ; d > 0; d -= awakeLook {
					w.pass(a, awakeLook)
				}
			}
			a.Frozen(w.now)
			a.after(w, 5*time.Second, func() { fired = true })
			awake(froze.before)
			if froze.frozen > 0 {
				w.pass(a, froze.frozen+awakeLook)
				froze.before += awakeLook
				require.True(t, a.Thawed(w.now, time.Second))
			}
			awake(5*time.Second - froze.before - awakeLook)
			require.False(t, fired, "5 s awake have not passed")
			awake(3 * awakeLook)
			require.True(t, fired)
			require.False(t, a.Thawed(w.now, time.Second))
		})
	}
}
