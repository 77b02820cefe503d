package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

var (
	ladderStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	someRun     = Target{Generation: 2, Execution: messages.ExecutionID{1}, Attempt: 3}
)

func TestLadders(t *testing.T) {
	t.Parallel()
	ms, s := time.Millisecond, time.Second
	type due struct {
		at   time.Duration
		step Step
	}
	for name, c := range map[string]struct {
		ladder Ladder
		want   []due
	}{
		"run":                {StopRun(someRun, ladderStart, true, Graces{}), []due{{0, StepCancel}, {5 * s, StepTerminate}, {10 * s, StepKill}}},
		"run without frames": {StopRun(someRun, ladderStart, false, Graces{}), []due{{0, StepTerminate}, {5 * s, StepKill}}},
		"worker":             {StopWorker(someRun, ladderStart, true, Graces{}), []due{{0, StepShutdown}, {s, StepTerminate}, {6 * s, StepKill}}},
		"worker configured":  {StopWorker(someRun, ladderStart, true, Graces{Shutdown: 9 * s, Terminate: s}), []due{{0, StepShutdown}, {9 * s, StepTerminate}, {10 * s, StepKill}}},
		"fence a run":        {Fence(someRun, ladderStart, true), []due{{0, StepCancel}, {200 * ms, StepTerminate}, {700 * ms, StepKill}}},
		"fence idle":         {Fence(Target{Generation: 2}, ladderStart, true), []due{{0, StepShutdown}, {200 * ms, StepTerminate}, {700 * ms, StepKill}}},
		"fence a command":    {Fence(someRun, ladderStart, false), []due{{0, StepTerminate}, {500 * ms, StepKill}}},
		"nothing":            {Ladder{}, nil},
	} {
		l := c.ladder
		for _, want := range c.want {
			at, ok := l.Due()
			require.True(t, ok, name)
			require.Equal(t, want.at, at.Sub(ladderStart), name)
			early, same := l.Next(at.Add(-1))
			require.Equal(t, StepNone, early, name)
			require.Equal(t, l, same, name)
			var step Step
			step, l = l.Next(at)
			require.Equal(t, want.step.String(), step.String(), name)
		}
		require.True(t, l.Done(), name)
		step, _ := l.Next(ladderStart.Add(time.Hour))
		require.Equal(t, StepNone, step, name)
	}
}

func TestLadderIsBoundToItsRun(t *testing.T) {
	t.Parallel()
	l := StopRun(someRun, ladderStart, true, Graces{})
	require.True(t, l.Stops(someRun))
	for _, other := range []Target{
		{Generation: 1, Execution: someRun.Execution, Attempt: someRun.Attempt},
		{Generation: someRun.Generation, Execution: messages.ExecutionID{2}, Attempt: someRun.Attempt},
		{Generation: someRun.Generation, Execution: someRun.Execution, Attempt: 4},
	} {
		require.False(t, l.Stops(other))
	}
}

// A ladder goes through its steps once and in order, however late or often it is asked. It never shortens a grace
// unless it is hastened.
func TestLadderNeverSkips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := ladderStart
		l := StopRun(someRun, now, true, Graces{})
		steps := []Step{}
		var taken time.Time
		hastened := true // the first step is due at once
		for range rapid.IntRange(0, 30).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(8*time.Second)).Draw(t, "later")))
			if rapid.IntRange(0, 9).Draw(t, "hasten") == 0 {
				l, hastened = l.Hasten(now), true
			}
			var step Step
			if step, l = l.Next(now); step != StepNone {
				require.True(t, hastened || now.Sub(taken) >= 5*time.Second, "grace cut to %s", now.Sub(taken))
				steps, taken, hastened = append(steps, step), now, false
			}
		}
		require.Equal(t, []Step{StepCancel, StepTerminate, StepKill}[:len(steps)], steps)
	})
}
