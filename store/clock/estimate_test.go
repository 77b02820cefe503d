package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sample is a comparison that began at asked and lasted took. The store's clock is ahead of the machine's and was read
// at share percent of the way.
func sample(asked time.Time, took, ahead time.Duration, share int) Sample {
	told := asked.Add(took * time.Duration(share) / 100)
	return Sample{Asked: asked, Answered: asked.Add(took), Stored: told.Add(ahead).Round(0)}
}

// The error of the estimate never exceeds its bound, whatever the store's clock shows and whenever in the round trip it
// was read. Times of the store survive a conversion and back.
func TestAnEstimateIsOffByNoMoreThanItSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Now()
		ahead := time.Duration(rapid.Int64Range(-int64(24*time.Hour), int64(24*time.Hour)).Draw(t, "ahead"))
		var e Estimate
		at := base
		for range rapid.IntRange(1, 8).Draw(t, "samples") {
			at = at.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Millisecond)
			took := time.Duration(rapid.IntRange(0, 2000).Draw(t, "took")) * time.Millisecond
			var step time.Duration
			e, step = e.Take(sample(at, took, ahead, rapid.IntRange(0, 100).Draw(t, "share")))
			require.Zero(t, step, "nobody has set a clock")
			at = at.Add(took)
			later := at.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "later")) * time.Millisecond)
			truth := later.Add(ahead).Round(0)
			require.LessOrEqual(t, e.Stored(later).Sub(truth).Abs(), e.Error(later))
			require.LessOrEqual(t, (e.Ahead(later) + ahead).Abs(), e.Error(later))
			require.Equal(t, e.Stored(later).Add(time.Hour), e.Stored(e.Local(e.Stored(later).Add(time.Hour), at)))
		}
	})
}

func TestTheMoreExactSampleCounts(t *testing.T) {
	t.Parallel()
	base := time.Now()
	exact, _ := Estimate{}.Take(sample(base, 2*time.Millisecond, time.Hour, 50))
	require.Equal(t, time.Millisecond, exact.Error(base.Add(time.Millisecond)))
	slow, step := exact.Take(sample(base.Add(time.Second), time.Second, time.Hour, 0))
	require.Zero(t, step)
	require.Equal(t, exact, slow, "it says less than is known")
	better, _ := slow.Take(sample(base.Add(2*time.Second), time.Millisecond, time.Hour, 50))
	require.NotEqual(t, exact, better)
	aged, _ := exact.Take(sample(base.Add(time.Hour), time.Second, time.Hour, 50))
	require.NotEqual(t, exact, aged, "by then its own drift is more")
}

func TestAStepIsSeen(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Second, -time.Second, 10 * time.Minute, -10 * time.Minute, 5 * time.Millisecond} {
		base := time.Now()
		e, _ := Estimate{}.Take(sample(base, 2*time.Millisecond, 0, 50))
		e, step := e.Take(sample(base.Add(time.Second), 2*time.Millisecond, by, 50))
		require.InDelta(t, float64(by), float64(step), float64(2*time.Millisecond), "%s", by)
		require.WithinDuration(t, base.Add(time.Minute).Add(by).Round(0), e.Stored(base.Add(time.Minute)), 2*time.Millisecond)
	}
}

// The zero estimate uses the machine's clock.
func TestNothingKnown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	require.False(t, Estimate{}.Known())
	require.Equal(t, now.Round(0), Estimate{}.Stored(now))
	require.Equal(t, now.Add(time.Second), Estimate{}.Local(now.Add(time.Second).Round(0), now))
	require.Zero(t, Estimate{}.Ahead(now))
	require.Zero(t, Estimate{}.Local(time.Time{}, now))
}

// A local time uses the monotonic clock: setting the machine's clock does not affect it.
func TestLocalMomentsHaveAMonotonicReading(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e, _ := Estimate{}.Take(sample(now, 0, -10*time.Minute, 0))
	at := e.Local(now.Add(-10*time.Minute+3*time.Second).Round(0), now.Add(time.Second))
	require.Contains(t, at.String(), "m=", "the monotonic reading")
	require.Equal(t, 3*time.Second, at.Sub(now))
}

func TestStepsAreNoTimeThatPassed(t *testing.T) {
	t.Parallel()
	base := time.Now().Round(0)
	forward := steps{}.add(Step{From: base, By: 10 * time.Minute})
	back := steps{}.add(Step{From: base, By: -10 * time.Minute})
	now := base.Add(10*time.Minute + 5*time.Second) // 5 s after the step forward
	for _, c := range []struct {
		name      string
		steps     steps
		from, now time.Time
		want      time.Duration
	}{
		{"no step", nil, base, now, now.Sub(base)},
		{"before a step forward", forward, base.Add(-3 * time.Second), now, 8 * time.Second},
		{"after a step forward", forward, base.Add(10*time.Minute + time.Second), now, 4 * time.Second},
		{"ahead", forward, now.Add(time.Second), now, -time.Second},
		{"before a step back", back, base.Add(-3 * time.Second), base.Add(-10*time.Minute + 5*time.Second), 8 * time.Second},
		{"after a step back", back, base.Add(-10*time.Minute + time.Second), base.Add(-10*time.Minute + 5*time.Second), 4 * time.Second},
		{"two steps", forward.add(Step{From: base.Add(10*time.Minute + 2*time.Second), By: time.Hour}), base.Add(-time.Second),
			base.Add(time.Hour + 10*time.Minute + 4*time.Second), 5 * time.Second},
	} {
		require.Equal(t, c.want, c.steps.between(c.from, c.now), c.name)
	}
	var many steps
	for i := range 100 {
		many = many.add(Step{From: base.Add(time.Duration(i) * time.Hour), By: time.Minute})
	}
	require.Len(t, many, stepsMax)
	require.Equal(t, base.Add(99*time.Hour), many[stepsMax-1].From)
}
