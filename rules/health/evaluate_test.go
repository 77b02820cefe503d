package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// well is a sample in which nothing is wrong.
func well() Sample { return Sample{HeartbeatSeen: true} }

func TestEvaluateBorders(t *testing.T) {
	t.Parallel()
	set := func(change func(*Sample)) Sample {
		s := well()
		change(&s)
		return s
	}
	age := func(d time.Duration) Sample { return set(func(s *Sample) { s.HeartbeatAge = d }) }
	failures := func(n int) Sample { return set(func(s *Sample) { s.Failures = n }) }
	depth := func(n int) Sample { return set(func(s *Sample) { s.QueueDepth = n }) }
	rate := func(r float64) Sample { return set(func(s *Sample) { s.FailureRate = r }) }
	for _, c := range []struct {
		name   string
		sample Sample
		grade  Grade
		causes Causes
	}{
		{"nothing wrong", well(), Healthy, 0},
		{"heartbeat at the limit", age(30 * time.Second), Healthy, 0},
		{"heartbeat past the limit", age(30*time.Second + 1), Unhealthy, HeartbeatStale},
		{"heartbeat from the future", age(-time.Minute), Healthy, HeartbeatFuture},
		{"no heartbeat", Sample{}, Unhealthy, HeartbeatStale},
		{"no heartbeat, age from the future", Sample{HeartbeatAge: -1}, Unhealthy, HeartbeatStale},
		{"own limit", set(func(s *Sample) { s.HeartbeatAge, s.HeartbeatLimit = time.Minute, time.Minute }), Healthy, 0},
		{"past its own limit", set(func(s *Sample) { s.HeartbeatAge, s.HeartbeatLimit = 4*time.Second, 3*time.Second }), Unhealthy, HeartbeatStale},
		{"2 failures", failures(2), Healthy, 0},
		{"3 failures", failures(3), Degraded, FailuresInRow},
		{"9 failures", failures(9), Degraded, FailuresInRow},
		{"10 failures", failures(10), Unhealthy, FailuresInRow},
		{"depth 49", depth(49), Healthy, 0},
		{"depth 50", depth(50), Degraded, QueueDepth},
		{"depth 99", depth(99), Degraded, QueueDepth},
		{"depth 100", depth(100), Unhealthy, QueueDepth},
		{"rate 14 of 50", rate(14.0 / 50), Healthy, 0},
		{"rate 29 %", rate(0.29), Healthy, 0},
		{"rate 15 of 50", rate(15.0 / 50), Degraded, FailureRate},
		{"rate 3 of 10", rate(3.0 / 10), Degraded, FailureRate},
		{"rate 34 of 50", rate(34.0 / 50), Degraded, FailureRate},
		{"rate 35 of 50", rate(35.0 / 50), Unhealthy, FailureRate},
		{"state degraded", set(func(s *Sample) { s.StateDegraded = true }), Degraded, StateDegraded},
		{"reported by its node", set(func(s *Sample) { s.Reported = Degraded }), Degraded, Reported},
		{"reported, and its figures say as much", set(func(s *Sample) { s.Reported, s.Failures = Degraded, 3 }), Degraded, FailuresInRow},
		{"reported healthy, and stale", set(func(s *Sample) { s.Reported, s.HeartbeatAge = Healthy, time.Minute }), Unhealthy, HeartbeatStale},
		{"the worst counts", set(func(s *Sample) { s.Failures, s.QueueDepth = 3, 100 }), Unhealthy, FailuresInRow | QueueDepth},
	} {
		require.Equal(t, Report{c.grade, c.causes}, Evaluate(Defaults(), c.sample), c.name)
		require.Equal(t, Report{c.grade, c.causes}, Evaluate(Thresholds{}, c.sample), c.name)
		if c.causes&^(FailuresInRow|FailureRate) == 0 {
			require.Equal(t, c.grade, FaultGrade(Thresholds{}, c.sample), c.name)
		}
	}
}

// Where grading is off, the heartbeat still tells whether a worker lives.
func TestOffLeavesTheHeartbeatAlone(t *testing.T) {
	t.Parallel()
	bad := Sample{HeartbeatSeen: true, Failures: 1000, QueueDepth: 1000, FailureRate: 1, StateDegraded: true, Reported: Unhealthy}
	require.Equal(t, Report{Healthy, 0}, Evaluate(Thresholds{Off: true}, bad))
	require.Equal(t, Healthy, FaultGrade(Thresholds{Off: true}, bad))
	bad.HeartbeatAge = time.Minute
	require.Equal(t, Report{Unhealthy, HeartbeatStale}, Evaluate(Thresholds{Off: true}, bad))
}

func TestFaultGradeLooksAtFaultsAlone(t *testing.T) {
	t.Parallel()
	require.Equal(t, Healthy, FaultGrade(Thresholds{}, Sample{QueueDepth: 1000, StateDegraded: true}))
}

// More of anything bad never makes a worker look better.
func TestEvaluateIsMonotonic(t *testing.T) {
	t.Parallel()
	draw := func(t *rapid.T, label string) Sample {
		return Sample{
			HeartbeatSeen: true,
			HeartbeatAge:  time.Duration(rapid.Int64Range(-60, 60).Draw(t, label+" age")) * time.Second,
			Failures:      rapid.IntRange(0, 20).Draw(t, label+" failures"),
			QueueDepth:    rapid.IntRange(0, 200).Draw(t, label+" depth"),
			FailureRate:   rapid.Float64Range(0, 1).Draw(t, label+" rate"),
			StateDegraded: rapid.Bool().Draw(t, label+" degraded"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		worse := Sample{
			HeartbeatSeen: true,
			HeartbeatAge:  max(a.HeartbeatAge, b.HeartbeatAge),
			Failures:      max(a.Failures, b.Failures),
			QueueDepth:    max(a.QueueDepth, b.QueueDepth),
			FailureRate:   max(a.FailureRate, b.FailureRate),
			StateDegraded: a.StateDegraded || b.StateDegraded,
		}
		ga, gb := Evaluate(Defaults(), a).Grade, Evaluate(Defaults(), b).Grade
		require.Equal(t, ga.Worse(gb), Evaluate(Defaults(), worse).Grade)
		if r := Evaluate(Defaults(), a); r.Grade == Healthy {
			require.Zero(t, r.Causes&^HeartbeatFuture)
		} else {
			require.NotZero(t, r.Causes&^HeartbeatFuture, "a grade without a cause")
		}
	})
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	require.Equal(t, Defaults(), Thresholds{}.WithDefaults())
	require.Equal(t, 7, Thresholds{FailuresDegraded: 7}.WithDefaults().FailuresDegraded)
	require.NoError(t, Thresholds{}.Validate())
	err := Thresholds{
		Heartbeat: -1, FailuresDegraded: 10, QueueDepthUnhealthy: 50, FailureRateDegraded: -1, FailureRateUnhealthy: 1.5,
	}.Validate()
	for _, want := range []string{"heartbeat limit", "health.threshold", "health.queue_depth", "health.failure_rate:", "at most 1"} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, 30*time.Second, Limit(10*time.Second, 3))
}

func TestGradesAndCausesHaveNames(t *testing.T) {
	t.Parallel()
	for _, g := range append(Grades(), Unknown) {
		text, err := g.MarshalText()
		require.NoError(t, err)
		var back Grade
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, g, back)
		require.Equal(t, g == Healthy || g == Degraded, g.Takes())
	}
	require.Error(t, new(Grade).UnmarshalText([]byte("fine")))
	require.Equal(t, "grade(9)", Grade(9).String())
	require.Equal(t, "", Causes(0).String())
	all := HeartbeatStale | HeartbeatFuture | FailuresInRow | QueueDepth | FailureRate | StateDegraded
	require.Equal(t, "heartbeat_stale,heartbeat_future,consecutive_failures,queue_depth,failure_rate,state_degraded", all.String())
}
