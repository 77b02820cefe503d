package retry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func constant(v float64) func() float64 { return func() float64 { return v } }

func TestDelayBands(t *testing.T) {
	t.Parallel()
	const most = 1 - 1e-12
	ms := time.Millisecond
	for retries, band := range [][2]time.Duration{
		{800 * ms, 1200 * ms}, {1600 * ms, 2400 * ms}, {3200 * ms, 4800 * ms}, {6400 * ms, 9600 * ms},
	} {
		require.InDelta(t, band[0], Delay(Defaults(), retries, constant(0)), 10)
		require.InDelta(t, band[1], Delay(Defaults(), retries, constant(most)), 10)
	}
	require.Equal(t, 8*time.Second, Delay(Defaults(), 3, nil))
	require.Equal(t, 300*time.Second, Delay(Defaults(), 9, constant(0.5)))
	require.Equal(t, 240*time.Second, Delay(Defaults(), 1_000_000, constant(0)))
	require.Equal(t, 300*time.Second, Delay(Defaults(), 1_000_000, constant(most)), "jitter never passes the maximum")
	require.Equal(t, time.Second, Delay(Defaults(), -1, nil))
}

// A delay is never negative, never above the maximum and never outside its band, for any policy that is valid.
func TestDelayStaysInItsBand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base:       time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Multiplier: rapid.Float64Range(1, 1e6).Draw(t, "multiplier"),
			Jitter:     rapid.Float64Range(-1, 1).Draw(t, "jitter"),
		}
		p.Max = p.Base + time.Duration(rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "above"))
		p = Resolve(p, Policy{})
		require.NoError(t, Validate(p))
		n := rapid.IntRange(0, 10_000).Draw(t, "retries")
		plain := math.Min(float64(p.Base)*math.Pow(p.Multiplier, float64(n)), float64(p.Max))
		got := Delay(p, n, constant(rapid.Float64Range(0, 1).Draw(t, "random")))
		jitter := math.Max(p.Jitter, 0)
		require.LessOrEqual(t, got, p.Max)
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.GreaterOrEqual(t, float64(got), plain*(1-jitter)*(1-1e-9)-1)
		require.LessOrEqual(t, float64(got), plain*(1+jitter)*(1+1e-9)+1)
	})
}

func TestResolveFillsOnlyWhatIsUnset(t *testing.T) {
	t.Parallel()
	require.Equal(t, Defaults(), Resolve(Policy{}, Policy{}))
	got := Resolve(Policy{Base: 2 * time.Second}, Policy{Base: time.Minute, Max: time.Hour, Jitter: -1})
	require.Equal(t, Policy{Shape: messages.ShapeExponential, Base: 2 * time.Second, Multiplier: 2, Max: time.Hour, Jitter: -1}, got)
	require.Equal(t, 2*time.Second, Delay(got, 0, constant(0)), "negative jitter is none")
}

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	require.NoError(t, Validate(Policy{}))
	err := Validate(Policy{Base: -1, Multiplier: 0.5, Max: -2, Jitter: 2})
	for _, want := range []string{"base must be positive", "multiplier must be at least 1", "below its base", "at most 1"} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, Validate(Policy{Shape: "square"}), `retry shape must be fixed, linear, exponential, fibonacci or decorrelated, got "square"`)
	require.Error(t, Validate(Policy{Multiplier: math.NaN()}))
	require.Error(t, Validate(Policy{Multiplier: math.Inf(1)}))
	require.Error(t, Validate(Policy{Jitter: math.NaN()}))
}

func TestDelayShapes(t *testing.T) {
	t.Parallel()
	for shape, want := range map[messages.RetryShape][]float64{ // in seconds, with a base of 1 s and at most 20 s
		messages.ShapeFixed:       {1, 1, 1, 1, 1, 1, 1, 1},
		messages.ShapeLinear:      {1, 2, 3, 4, 5, 6, 7, 8},
		messages.ShapeExponential: {1, 3, 9, 20, 20, 20, 20, 20},
		messages.ShapeFibonacci:   {1, 1, 2, 3, 5, 8, 13, 20},
		"of a newer node":         {1, 3, 9, 20, 20, 20, 20, 20},
		// Each draw is the middle of base and three times the delay before.
		messages.ShapeDecorrelated: {2, 3.5, 5.75, 9.125, 14.1875, 20, 20, 20},
	} {
		p := Policy{Shape: shape, Base: time.Second, Multiplier: 3, Max: 20 * time.Second, Jitter: 0.5}
		for n, seconds := range want {
			require.InDelta(t, seconds, Delay(p, n, nil).Seconds(), 1e-9, "%s, retry %d", shape, n)
		}
		require.LessOrEqual(t, Delay(p, 1_000_000, constant(0.999)), p.Max, shape)
	}
	p := Policy{Shape: messages.ShapeDecorrelated, Base: time.Second, Max: time.Hour}
	require.Equal(t, time.Second, Delay(p, 5, constant(0)), "the lowest draws stay at the base")
	require.InDelta(t, float64(27*time.Second), float64(Delay(p, 2, constant(1))), 1, "the highest ones treble it")
}

// Whatever the shape and the draws, a delay is never negative and never above the maximum; its undisturbed form never shrinks
// from retry to retry; and a decorrelated one lies between the base and three times the highest one before.
func TestDelayOfEveryShapeIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Shape:      rapid.SampledFrom(messages.RetryShapes()).Draw(t, "shape"),
			Base:       time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Multiplier: rapid.Float64Range(1, 1e6).Draw(t, "multiplier"),
			Jitter:     rapid.Float64Range(-1, 1).Draw(t, "jitter"),
		}
		p.Max = p.Base + time.Duration(rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "above"))
		require.NoError(t, Validate(p))
		p = Resolve(p, Policy{})
		n := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 100_000)).Draw(t, "retries")
		draws := rapid.SliceOfN(rapid.Float64Range(0, 0.999), 1, 8).Draw(t, "draws")
		i := 0
		got := Delay(p, n, func() float64 { i++; return draws[i%len(draws)] })
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.LessOrEqual(t, got, p.Max)
		require.LessOrEqual(t, i, decorrelatedMax, "the work is bounded")
		require.LessOrEqual(t, Delay(p, n, nil), Delay(p, n+1, nil), "it grows")
		if p.Shape == messages.ShapeDecorrelated {
			require.GreaterOrEqual(t, got, p.Base-1)
			require.LessOrEqual(t, float64(got), math.Min(float64(p.Base)*math.Pow(3, float64(min(n, 100)+1)), float64(p.Max))*(1+1e-9)+1)
		}
	})
}
