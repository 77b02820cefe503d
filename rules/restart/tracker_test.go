package restart

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// up returns a tracker whose slots all run.
func up(slots int, now time.Time) *Tracker {
	t := New(Policy{})
	for s := range slots {
		t.Started(messages.Slot(s), now)
	}
	return t
}

func TestFiveRestartsAtOnceThenBackOff(t *testing.T) {
	t.Parallel()
	now := start()
	tr := up(1, now)
	for i := range 5 {
		now = now.Add(time.Second)
		v := tr.Failed(0, now, nil)
		require.Equal(t, Verdict{State: Steady}, v, "restart %d", i+1)
		tr.Started(0, now)
	}
	for _, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		v := tr.Failed(0, now, nil)
		require.Equal(t, want*time.Millisecond, v.Delay)
		require.Equal(t, BackingOff, v.State)
		require.True(t, v.Changed)
		require.NotEmpty(t, v.Reason)
		now = now.Add(v.Delay)
		state, changed := tr.Started(0, now)
		require.Equal(t, Steady, state)
		require.True(t, changed)
	}
	now = now.Add(59 * time.Second)
	require.Equal(t, 30*time.Second, tr.Failed(0, now, nil).Delay, "59 s of health are not enough")
	tr.Started(0, now)
	now = now.Add(60 * time.Second)
	require.Zero(t, tr.Failed(0, now, nil).Delay, "60 s of health start over")
}

func TestIntensityIsThePoolsAndItsPeriodSlides(t *testing.T) {
	t.Parallel()
	now := start()
	tr := up(7, now)
	for s := range 5 {
		require.Zero(t, tr.Failed(messages.Slot(s), now, nil).Delay)
		tr.Started(messages.Slot(s), now)
	}
	require.Equal(t, 250*time.Millisecond, tr.Failed(5, now.Add(10*time.Second), nil).Delay, "10 s are within the period")
	require.Zero(t, tr.Failed(6, now.Add(10*time.Second+1), nil).Delay)
}

func TestFailedStartsBackOffAndBreakThePool(t *testing.T) {
	t.Parallel()
	now := start()
	tr := New(Policy{})
	tr.Add(0)
	tr.Add(1)
	for range 3 {
		v := tr.Failed(0, now, nil)
		require.NotZero(t, v.Delay, "a failed start always waits")
		require.Equal(t, BackingOff, v.State)
	}
	require.Equal(t, BackingOff, tr.Failed(1, now, nil).State)
	require.Equal(t, BackingOff, tr.Failed(1, now, nil).State)
	v := tr.Failed(1, now, nil)
	require.Equal(t, Broken, v.State)
	require.True(t, v.Changed)
	require.NotZero(t, v.Delay, "a broken pool stays supervised")
	require.False(t, tr.Failed(1, now, nil).Changed)

	state, changed := tr.Started(1, now)
	require.Equal(t, BackingOff, state, "one start recovers the pool; the other slot still waits")
	require.True(t, changed)
	state, _ = tr.Started(0, now)
	require.Equal(t, Steady, state)
}

// A node that is short of what a start takes backs off and never breaks its pool.
func TestPostponedStartsBackOffAndBreakNothing(t *testing.T) {
	t.Parallel()
	tracker := New(Policy{Jitter: -1})
	now := time.Now()
	var last time.Duration
	for range 20 {
		v := tracker.Postponed(0, now, nil)
		require.Equal(t, BackingOff, v.State)
		require.GreaterOrEqual(t, v.Delay, last)
		require.Positive(t, v.Delay)
		require.Contains(t, v.Reason, "short")
		last = v.Delay
		now = now.Add(v.Delay)
	}
	require.Equal(t, 30*time.Second, last)
	state, _ := tracker.Started(0, now)
	require.Equal(t, Steady, state)
}

// What was mended starts at once, and its next failures count from the beginning.
func TestMendingForgetsTheFailures(t *testing.T) {
	t.Parallel()
	now := start()
	tr := New(Policy{})
	for range 5 {
		tr.Failed(0, now, nil)
		tr.Failed(1, now, nil)
	}
	require.Equal(t, Broken, tr.State())
	state, changed := tr.Mended()
	require.Equal(t, Steady, state)
	require.True(t, changed)
	require.Equal(t, 250*time.Millisecond, tr.Failed(0, now, nil).Delay, "the first back-off again")
	_, changed = tr.Mended()
	require.True(t, changed)
	tr.Leaked(LeakedMax)
	state, _ = tr.Mended()
	require.Equal(t, Broken, state, "handlers that do not return are not mended by a pack")
}

func TestRemovingTheOnlyGoodSlotBreaksThePool(t *testing.T) {
	t.Parallel()
	tr := up(1, start())
	for range 3 {
		tr.Failed(1, start(), nil)
	}
	require.Equal(t, BackingOff, tr.State())
	state, changed := tr.Remove(0)
	require.Equal(t, Broken, state)
	require.True(t, changed)
	state, _ = tr.Remove(1)
	require.Equal(t, Steady, state, "a pool without slots is not broken")
}

func TestLeakedHandlersBreakThePool(t *testing.T) {
	t.Parallel()
	tr := up(2, start())
	state, changed := tr.Leaked(99)
	require.Equal(t, Steady, state)
	require.False(t, changed)
	state, changed = tr.Leaked(100)
	require.Equal(t, Broken, state)
	require.True(t, changed)
	state, _ = tr.Leaked(99)
	require.Equal(t, Steady, state)
}

// However a pool fails: no more than the intensity's restarts happen at once within a period, a delay is never longer
// than its maximum nor shorter than its jitter allows, and the pool is broken exactly while every slot keeps failing.
func TestRestartsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := start()
		p := Policy{
			Intensity: rapid.IntRange(1, 6).Draw(t, "intensity"), Period: 10 * time.Second,
			Jitter: rapid.Float64Range(-1, 1).Draw(t, "jitter"),
		}.WithDefaults()
		require.NoError(t, p.Validate())
		tr := New(p)
		slots := messages.Slot(rapid.Int32Range(1, 4).Draw(t, "slots"))
		starts := map[messages.Slot]int{}
		isUp := map[messages.Slot]bool{}
		for s := range slots {
			tr.Add(s)
		}
		var immediate []time.Time
		last := Steady
		for range rapid.IntRange(0, 100).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			s := messages.Slot(rapid.Int32Range(0, int32(slots)-1).Draw(t, "slot"))
			var state State
			var changed bool
			if rapid.Bool().Draw(t, "started") {
				state, changed = tr.Started(s, now)
				starts[s], isUp[s] = 0, true
			} else {
				v := tr.Failed(s, now, func() float64 { return rapid.Float64Range(0, 1).Draw(t, "random") })
				state, changed = v.State, v.Changed
				if !isUp[s] {
					starts[s]++
				}
				isUp[s] = false
				require.LessOrEqual(t, v.Delay, p.BackoffMax)
				if v.Reason == "" {
					require.Zero(t, v.Delay)
					immediate = append(immediate, now)
				} else {
					require.GreaterOrEqual(t, float64(v.Delay), float64(p.BackoffMin)*(1-max(p.Jitter, 0))-1)
				}
			}
			broken := true
			for s := range slots {
				broken = broken && starts[s] >= p.BrokenAfter
			}
			require.Equal(t, broken, state == Broken)
			require.Equal(t, last != state, changed)
			last = state
			if n := len(immediate); n > p.Intensity {
				require.Greater(t, immediate[n-1].Sub(immediate[n-1-p.Intensity]), p.Period)
			}
		}
	})
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	require.NoError(t, Policy{}.Validate())
	err := Policy{
		Intensity: -1, Period: -1, BackoffMin: -1, BackoffMax: -2, Jitter: 2, HealthyAfter: -1, BrokenAfter: -1,
	}.Validate()
	for _, want := range []string{"intensity", "period", "minimum", "maximum", "jitter", "healthy time", "broken limit"} {
		require.ErrorContains(t, err, want)
	}
	p := Defaults()
	require.Equal(t, 200*time.Millisecond, p.backoff(1, func() float64 { return 0 }))
	require.InDelta(t, 300*time.Millisecond, p.backoff(1, func() float64 { return 1 }), 10)
	require.Equal(t, 30*time.Second, p.backoff(1_000_000, func() float64 { return 1 }), "never above the maximum")
	require.Equal(t, "steady backing_off broken state(9)",
		Steady.String()+" "+BackingOff.String()+" "+Broken.String()+" "+State(9).String())
	text, err := Broken.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "broken", string(text))
}
