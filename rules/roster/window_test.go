package roster

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The estimate is never below the true p90 of what it remembers, and at most a quarter above it.
func TestP90(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(windowSamples, windowMemory-1).Draw(t, "runs")
		var times runTimes
		var all []time.Duration
		for range n {
			took := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "took"))
			all = append(all, took)
			times.add(took)
		}
		slices.Sort(all)
		exact := all[n-1-n/10]
		got, ok := times.p90()
		require.True(t, ok)
		require.GreaterOrEqual(t, got, exact)
		require.LessOrEqual(t, got, max(exact+exact/4+1, 8))
	})
}

func TestP90NeedsSamplesAndForgets(t *testing.T) {
	t.Parallel()
	var times runTimes
	for range windowSamples - 1 {
		times.add(time.Hour)
	}
	_, ok := times.p90()
	require.False(t, ok, "too few runs say nothing")
	for range 3 * windowMemory {
		times.add(time.Millisecond)
	}
	got, ok := times.p90()
	require.True(t, ok)
	require.Less(t, got, 2*time.Millisecond, "old runs fade")
	require.Less(t, times.total, windowMemory, "counters stay bounded")
}

// The window follows the run times: none for long runs, one below a second, at most the configured one.
func TestWindow(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		took     time.Duration
		config   Config
		expected int
	}{
		{"long runs", 2 * time.Second, Config{}, 0},
		{"below a second", 700 * time.Millisecond, Config{}, 1},
		{"twelve in 100 ms", 8 * time.Millisecond, Config{}, 11},
		{"no-ops", time.Microsecond, Config{}, 20},
		{"own limit", time.Microsecond, Config{WindowMax: 3}, 3},
		{"below the degraded depth", time.Microsecond, Config{QueueDepthDegraded: 10}, 9},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := New(c.config)
			r.Step(epoch0, parseSeen("w0", args{}))
			for range windowSamples {
				r.Step(epoch0, Ended{Placement: placementOf("zz#1"), Took: c.took})
			}
			require.Equal(t, c.expected, r.Snapshot().Window)
			require.Equal(t, 1+c.expected, r.Snapshot().Free)
		})
	}
}

// The window narrows at once, and widens a step at a time: between two Ticks at most once in widenEvery.
func TestWindowWidensByAndBy(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	r.Step(epoch0, parseSeen("w0", args{}))
	run := func(at time.Duration, took time.Duration) int {
		for range 4 * windowMemory { // all that is remembered
			r.Step(epoch0.Add(at), Ended{Placement: placementOf("zz#1"), Took: took})
		}
		return r.Snapshot().Window
	}
	require.Equal(t, 1, run(0, 80*time.Millisecond))
	require.Equal(t, 11, run(0, 8*time.Millisecond))
	require.Equal(t, 11, run(widenEvery-1, time.Millisecond), "it has just become wider")
	require.Equal(t, 20, run(widenEvery, time.Millisecond))
	require.Equal(t, 1, run(widenEvery, 80*time.Millisecond))
	require.Equal(t, 1, run(widenEvery, time.Millisecond))
	r.Step(epoch0.Add(widenEvery), Tick{})
	require.Equal(t, 20, r.Snapshot().Window, "a Tick widens it whenever it comes")
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	want := []time.Duration{0, 0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 30 * time.Second, 30 * time.Second}
	for i, d := range want {
		require.Equal(t, d, backOff(i+1), "take back %d in a row", i+1)
	}
	require.Equal(t, 30*time.Second, backOff(1_000_000))
}
