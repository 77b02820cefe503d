package retry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
	require.Equal(t, Policy{Base: 2 * time.Second, Multiplier: 2, Max: time.Hour, Jitter: -1}, got)
	require.Equal(t, 2*time.Second, Delay(got, 0, constant(0)), "negative jitter is none")
}

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	require.NoError(t, Validate(Policy{}))
	err := Validate(Policy{Base: -1, Multiplier: 0.5, Max: -2, Jitter: 2})
	for _, want := range []string{"base must be positive", "multiplier must be at least 1", "below its base", "at most 1"} {
		require.ErrorContains(t, err, want)
	}
	require.Error(t, Validate(Policy{Multiplier: math.NaN()}))
	require.Error(t, Validate(Policy{Multiplier: math.Inf(1)}))
	require.Error(t, Validate(Policy{Jitter: math.NaN()}))
}
