package scale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestPace(t *testing.T) {
	t.Parallel()
	pressed := Sample{Workers: 2, Waiting: 5}
	calm := Sample{Workers: 4, Idle: 4}
	mixed := Sample{Workers: 3, Idle: 1, Waiting: 1}
	for _, c := range []struct {
		name  string
		seen  []Sample
		every time.Duration
		want  []int
	}{
		{"grows once the pressure lasts, by doubling", []Sample{pressed, pressed, pressed}, time.Second, []int{2, 4, 4}},
		{"grows by what waits where that is less", []Sample{{Workers: 4, Waiting: 1}, {Workers: 4, Waiting: 1}}, time.Second, []int{4, 5}},
		{"stays within the upper bound", []Sample{{Workers: 8, Waiting: 9}, {Workers: 8, Waiting: 9}}, time.Second, []int{8, 8}},
		{"shrinks one by one after a calm minute", []Sample{calm, calm, calm}, time.Minute, []int{4, 3, 3}},
		{"stays within the lower bound", []Sample{{Workers: 1, Idle: 1}, {Workers: 1, Idle: 1}}, time.Hour, []int{1, 1}},
		{"a free worker beside waiting work is no pressure", []Sample{pressed, mixed, pressed}, time.Second, []int{2, 3, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s State
			for i, sample := range c.seen {
				var got int
				s, got = s.Next(began.Add(time.Duration(i)*c.every), 1, 8, sample)
				require.Equal(t, c.want[i], got, "sample %d", i)
			}
		})
	}
}

// Whatever is seen, the answer is within the bounds, and a pool never shrinks while work waits.
func TestAlwaysWithinBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(0, 10).Draw(t, "low")
		high := low + rapid.IntRange(0, 50).Draw(t, "more")
		var s State
		now, workers := began, low
		for range rapid.IntRange(1, 100).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			at := Sample{
				Workers: workers, Idle: rapid.IntRange(0, 5).Draw(t, "idle"), Waiting: rapid.IntRange(0, 5).Draw(t, "waiting"),
			}
			var next int
			s, next = s.Next(now, low, high, at)
			require.GreaterOrEqual(t, next, low)
			require.LessOrEqual(t, next, high)
			if at.Waiting > 0 {
				require.GreaterOrEqual(t, next, workers)
			}
			workers = next
		}
	})
}
