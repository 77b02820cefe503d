package health

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func TestRateNeedsTenExecutions(t *testing.T) {
	t.Parallel()
	var c Counters
	for range 9 {
		c.Finished(time.Second, true, true)
		require.Zero(t, c.FailureRate())
	}
	c.Finished(time.Second, false, false)
	require.InDelta(t, 0.9, c.FailureRate(), 1e-12)
	require.Zero(t, c.Faults(), "a success ends the row")
	require.EqualValues(t, 10, c.Total())
	require.EqualValues(t, 9, c.Failed())
}

func TestActionErrorsAreNotHeldAgainstTheWorker(t *testing.T) {
	t.Parallel()
	var c Counters
	for range 100 {
		c.Finished(time.Second, true, false)
	}
	require.EqualValues(t, 100, c.Failed())
	require.Zero(t, c.Failures())
	require.Zero(t, c.FailureRate())
}

func TestProbesAndExecutionsAreCountedApart(t *testing.T) {
	t.Parallel()
	var c Counters
	require.Equal(t, 1, c.ProbeFailed())
	require.Equal(t, 2, c.ProbeFailed())
	c.Finished(0, true, true)
	require.Equal(t, 2, c.ProbeFailures())
	require.Equal(t, 1, c.Faults())
	require.Equal(t, 3, c.Failures())
	c.Finished(0, false, false)
	require.Equal(t, 2, c.ProbeFailures(), "an execution says nothing about probes")
	c.DeadLettered()
	c.ProbePassed()
	require.Zero(t, c.ProbeFailures())
	require.Equal(t, 1, c.Faults(), "a probe says nothing about executions")
	require.EqualValues(t, 2, c.Total(), "a dead letter is none of the worker's executions")
}

// The counters agree with a list of all that happened.
func TestCountersAgreeWithTheWholeList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Counters
		var faults []bool
		var total, failed int
		var runs time.Duration
		for range rapid.IntRange(0, 150).Draw(t, "executions") {
			fault := rapid.Bool().Draw(t, "fault")
			faults = append(faults, fault)
			if rapid.IntRange(0, 5).Draw(t, "dead letter") == 0 {
				faults[len(faults)-1] = true
				c.DeadLettered()
				continue
			}
			run := time.Duration(rapid.IntRange(0, 1000).Draw(t, "run"))
			c.Finished(run, fault, fault)
			total, runs = total+1, runs+run
			if fault {
				failed++
			}
		}
		row := 0
		for i := len(faults) - 1; i >= 0 && faults[i]; i-- {
			row++
		}
		window := faults[max(0, len(faults)-RateWindow):]
		count := 0
		for _, f := range window {
			if f {
				count++
			}
		}
		want := 0.0
		if len(window) >= RateMin {
			want = float64(count) / float64(len(window))
		}
		require.Equal(t, row, c.Faults())
		require.InDelta(t, want, c.FailureRate(), 1e-12)
		require.EqualValues(t, total, c.Total())
		require.EqualValues(t, failed, c.Failed())
		if total > 0 {
			require.Equal(t, runs/time.Duration(total), c.MeanRunTime())
		} else {
			require.Zero(t, c.MeanRunTime())
		}
	})
}

// After the last straw nothing but faults makes a worker unhealthy: executions that succeed do not, however few have ended.
func TestTheLastStrawIsSeenBeforeItFalls(t *testing.T) {
	t.Parallel()
	for successes := range 60 {
		var c Counters
		for range successes {
			c.Finished(0, false, false)
		}
		for !c.LastStraw(Thresholds{}) {
			require.Less(t, c.Faults(), Defaults().FailuresUnhealthy)
			c.Faulted()
		}
		for range 60 {
			require.NotEqual(t, Unhealthy, FaultGrade(Thresholds{}, c.Sample(0)), "%d successes", successes)
			c.Finished(0, false, false)
		}
	}
	var c Counters
	require.False(t, c.LastStraw(Thresholds{Off: true, FailuresUnhealthy: 1}))
	require.True(t, c.LastStraw(Thresholds{FailuresUnhealthy: 1, FailuresDegraded: 1}))
}

func TestCountingAllocatesNothing(t *testing.T) {
	var c Counters
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		c.Finished(time.Millisecond, true, true)
		c.ProbeFailed()
		s := c.Sample(3)
		if Evaluate(Defaults(), s).Grade != Unhealthy {
			t.Error("no heartbeat is unhealthy")
		}
	}))
}

func TestIsFault(t *testing.T) {
	t.Parallel()
	failed := func(e messages.Error) messages.Outcome { return messages.Outcome{Status: messages.Failed, Error: &e} }
	for _, c := range []struct {
		name         string
		o            messages.Outcome
		fault, every bool
	}{
		{"completed", messages.Outcome{Status: messages.Completed}, false, false},
		{"cancelled", messages.Outcome{Status: messages.Cancelled, Error: &messages.Error{WorkerFault: true}}, false, false},
		{"timed out", messages.Outcome{Status: messages.TimedOut}, true, true},
		{"process exited", messages.Outcome{Status: messages.Abandoned}, true, true},
		{"poisoned", failed(messages.Error{Code: messages.CodePoisoned}), true, true},
		{"protocol error", failed(messages.Error{Code: messages.CodeProtocol}), true, true},
		{"limit broken", failed(messages.Error{Code: messages.CodeLimit}), true, true},
		{"dead letter", failed(messages.Error{Code: messages.CodeQueueTimeout}), true, true},
		{"the worker says so", failed(messages.Error{Code: "gpu_lost", WorkerFault: true}), true, true},
		{"action error", failed(messages.Error{Code: messages.CodeActionError}), false, true},
		{"bad parameters", failed(messages.Error{Code: messages.CodeInvalidParameters}), false, true},
		{"no error given", messages.Outcome{Status: messages.Failed}, false, true},
	} {
		require.Equal(t, c.fault, IsFault(c.o, false), c.name)
		require.Equal(t, c.every, IsFault(c.o, true), c.name)
	}
}

func TestCapabilitiesAsJSON(t *testing.T) {
	t.Parallel()
	var c Counters
	got, err := json.Marshal(Describe(&c, Healthy, 0, time.Time{}))
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"healthy","last_check":null,"consecutive_failures":0,"queue_depth":0,"failure_rate":0,
		"total_executions":0,"failed_executions":0,"average_execution_time_ms":0}`, string(got))
	for range 10 {
		c.Finished(1500*time.Microsecond, true, true)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	got, err = json.Marshal(Describe(&c, Unhealthy, 4, at))
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"unhealthy","last_check":"2026-01-02T02:04:05Z","consecutive_failures":10,
		"queue_depth":4,"failure_rate":1,"total_executions":10,"failed_executions":10,
		"average_execution_time_ms":1.5}`, string(got))
	var back Capabilities
	require.NoError(t, json.Unmarshal(got, &back))
	require.Equal(t, Unhealthy, back.Status)
}
