package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The inputs explain the grade: the worst of those that count is the grade, and each of its causes is one of them.
func TestTheInputsExplainTheGrade(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Sample{
			HeartbeatAge: time.Duration(rapid.IntRange(-5, 60).Draw(t, "age")) * time.Second, HeartbeatSeen: rapid.Bool().Draw(t, "seen"),
			Failures: rapid.IntRange(0, 12).Draw(t, "failures"), QueueDepth: rapid.IntRange(0, 120).Draw(t, "depth"),
			FailureRate: rapid.Float64Range(0, 1).Draw(t, "rate"), StateDegraded: rapid.Bool().Draw(t, "degraded"),
			Reported: rapid.SampledFrom([]Grade{Unknown, Healthy, Degraded, Unhealthy}).Draw(t, "reported"),
		}
		borders := Thresholds{Off: rapid.Bool().Draw(t, "off")}
		want := Evaluate(borders, s)
		grade, causes := Healthy, Causes(0)
		for _, i := range Inputs(borders, s) {
			if i.Ignored {
				continue
			}
			if grade = grade.Worse(i.Grade); i.Grade > Healthy {
				causes |= i.Cause
			}
			if !i.None && i.Cause != HeartbeatStale && i.Grade == Healthy {
				require.Less(t, i.Value, i.Degraded)
			}
			if i.Grade == Degraded && !i.None {
				require.True(t, i.Value >= i.Degraded && i.Value < i.Unhealthy)
			}
		}
		require.Equal(t, want.Grade, grade)
		// What a node reported counts as a cause only where it is worse than what was seen.
		require.Equal(t, want.Causes&^(HeartbeatFuture|Reported), causes&^Reported)
		require.Zero(t, want.Causes&Reported&^causes)
	})
}

func TestTheBordersAreTold(t *testing.T) {
	t.Parallel()
	list := Inputs(Thresholds{}, Sample{HeartbeatAge: 4 * time.Second, HeartbeatSeen: true, HeartbeatLimit: 15 * time.Second, Failures: 4})
	require.Equal(t, []Input{
		{Cause: HeartbeatStale, Value: 4, Unhealthy: 15, Grade: Healthy},
		{Cause: FailuresInRow, Value: 4, Degraded: 3, Unhealthy: 10, Grade: Degraded},
		{Cause: QueueDepth, Degraded: 50, Unhealthy: 100, Grade: Healthy},
		{Cause: FailureRate, Degraded: 0.3, Unhealthy: 0.7, Grade: Healthy},
	}, list)
	require.True(t, Inputs(Thresholds{Off: true}, Sample{})[1].Ignored)
	require.True(t, Inputs(Thresholds{}, Sample{})[0].None)
}
