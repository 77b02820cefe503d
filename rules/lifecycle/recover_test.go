package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRecover(t *testing.T) {
	t.Parallel()
	fail := func(k FailureKind) Failure { return Failure{Kind: k} }
	idle := Snapshot{State: Ready}
	running := Snapshot{State: Busy, Executing: true}
	checkin := Snapshot{State: Busy}
	degraded := Snapshot{State: Degraded}
	initializing := Snapshot{State: Initializing}
	with := func(s Snapshot, probes, faults int) Snapshot {
		s.ProbeFailures, s.Faults = probes, faults
		return s
	}
	end := func(a Action, c Cause, r Reason) Verdict {
		return Verdict{Action: a, Cause: c, To: Terminating, Reason: r}
	}
	probe := func(to State, r Reason) Verdict {
		return Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: CauseHealthDegraded, To: to, Reason: r, Unhealthy: true}
	}
	limit := end(Replace, CauseHealthCheckLimit, HealthCheckFailed)
	limit.Unhealthy = true
	checkout := end(Remove, CauseCheckoutFailed, Error)
	wanted := func(v Verdict) Verdict {
		v.Wanted = true
		return v
	}
	for _, c := range []struct {
		name string
		f    Failure
		s    Snapshot
		want Verdict
	}{
		{"process exited, idle", fail(ProcessExited), idle, end(Remove, "port_failure", Error)},
		{"process exited, running", fail(ProcessExited), running, end(Remove, "port_failure", Error)},
		{"process exited, degraded", fail(ProcessExited), degraded, end(Remove, "port_failure", Error)},
		{"process exited before hello", fail(ProcessExited), initializing, Verdict{Action: Retry, Cause: "init_failed", To: Terminated, Reason: Error}},
		{"process exited as a cancel asked", Failure{Kind: ProcessExited, Asked: true}, checkin, wanted(end(Remove, "port_failure", Error))},
		{"a result asks for a new worker", fail(CloseRequested), checkin, wanted(end(Replace, "closed_by_client", ClosedByClient))},
		{"a result asks, degraded", fail(CloseRequested), degraded, wanted(end(Replace, "closed_by_client", Error))},
		{"a result asks while ending", fail(CloseRequested), Snapshot{State: Terminating}, Verdict{Cause: CauseEnding}},
		{"process exited while ending", fail(ProcessExited), Snapshot{State: Terminating}, Verdict{Cause: CauseEnding}},
		{"checkout failed, idle", fail(CheckoutFailed), idle, checkout},
		{"checkout failed, busy", fail(CheckoutFailed), running, checkout},
		{"checkout failed, degraded", fail(CheckoutFailed), degraded, checkout},
		{"a restore ended it", fail(RestoreDied), checkin, wanted(end(Remove, "session_state", Error))},
		{"first probe failed", fail(ProbeFailed), with(idle, 1, 0), probe(Degraded, HealthCheckFailed)},
		{"second probe failed", fail(ProbeTimedOut), with(degraded, 2, 0), probe(0, NoReason)},
		{"third probe failed", fail(ProbeFailed), with(degraded, 3, 0), limit},
		{"third probe failed, ready", fail(ProbeFailed), with(idle, 3, 0), limit},
		{"third probe failed at check-in", fail(ProbeFailed), with(checkin, 3, 0), limit},
		{"first probe failed at check-in", fail(ProbeFailed), with(checkin, 1, 0), probe(Degraded, HealthCheckFailed)},
		{"liveness failed while running", fail(ProbeFailed), with(running, 9, 0), Verdict{Action: Keep, Delay: 5 * time.Second, Cause: CauseHealthDegraded, Unhealthy: true}},
		{"init timed out", fail(InitTimedOut), initializing, Verdict{Action: Retry, Cause: "init_timeout", To: Terminated, Reason: Timeout}},
		{"init failed", fail(InitFailed), initializing, Verdict{Action: Retry, Cause: "init_failed", To: Terminated, Reason: Error}},
		{"run timed out", fail(CommandTimedOut), running, end(Replace, "timeout_limit", Timeout)},
		{"command timed out, idle", fail(CommandTimedOut), idle, end(Replace, "timeout_limit", Error)},
		{"action error", fail(ActionError), checkin, Verdict{Cause: "action_error", To: Ready, Reason: CheckinError}},
		{"action error, many", fail(ActionError), with(checkin, 0, 99), Verdict{Cause: "action_error", To: Ready, Reason: CheckinError}},
		{"second fault", fail(WorkerFault), with(checkin, 0, 2), Verdict{Cause: "worker_faults", To: Ready, Reason: CheckinError}},
		{"third fault", fail(WorkerFault), with(checkin, 0, 3), Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "worker_faults", To: Degraded, Reason: CheckinError}},
		{"third fault, running", fail(WorkerFault), with(running, 0, 3), Verdict{Cause: "worker_faults"}},
		{"third fault, degraded", fail(WorkerFault), with(degraded, 0, 3), Verdict{Cause: "worker_faults"}},
		{"second dead letter", fail(DeadLettered), with(idle, 0, 2), Verdict{Cause: "worker_faults"}},
		{"third dead letter", fail(DeadLettered), with(idle, 0, 3), Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "worker_faults", To: Degraded, Reason: RecoveryDegrade}},
		{"third dead letter, judged at check-in", fail(DeadLettered), with(checkin, 0, 3), Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "worker_faults", To: Degraded, Reason: RecoveryDegrade}},
		{"second late failure", fail(LateFailure), with(idle, 0, 2), Verdict{Cause: "worker_faults"}},
		{"third late failure", fail(LateFailure), with(idle, 0, 3), Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "worker_faults", To: Degraded, Reason: RecoveryDegrade}},
		{"late failure under a run", fail(LateFailure), with(running, 0, 9), Verdict{Cause: "worker_faults"}},
		{"late failure at a check-in", fail(LateFailure), with(checkin, 0, 1), Verdict{Cause: "worker_faults"}},
		{"fault limit configured", fail(WorkerFault), Snapshot{State: Busy, Faults: 3, FaultLimit: 5}, Verdict{Cause: "worker_faults", To: Ready, Reason: CheckinError}},
		{"unhealthy at check-in", fail(UnhealthyGrade), checkin, end(Replace, "max_retries_exceeded", MaxRetriesExceeded)},
		{"unhealthy, degraded", fail(UnhealthyGrade), degraded, end(Replace, "max_retries_exceeded", MaxRetriesExceeded)},
		{"unhealthy, ready", fail(UnhealthyGrade), idle, end(Replace, "max_retries_exceeded", Error)},
		{"unhealthy, running", fail(UnhealthyGrade), running, Verdict{Cause: "max_retries_exceeded"}},
		{"node short, at the start", fail(NodeShort), initializing, Verdict{Action: Retry, Cause: "node_short", To: Terminated, Reason: Error}},
		{"node short, at check-in", fail(NodeShort), checkin, Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "node_short", To: Degraded, Reason: RecoveryDegrade}},
		{"node short, ready", fail(NodeShort), with(idle, 9, 9), Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "node_short", To: Degraded, Reason: RecoveryDegrade}},
		{"node short for long", fail(NodeShort), with(degraded, 9, 9), Verdict{Action: Degrade, Delay: 5 * time.Second, Cause: "node_short"}},
		{"node short, running", fail(NodeShort), running, Verdict{Action: Keep, Delay: 5 * time.Second, Cause: "node_short"}},
		{"anything else", fail(UnknownFailure), running, end(Remove, "non_recoverable", Error)},
		{"init failure of a ready worker", fail(InitFailed), idle, end(Remove, "non_recoverable", Error)},
	} {
		require.Equal(t, c.want, Recover(c.f, c.s), c.name)
	}
}

// A verdict's transition is always legal, an execution is never cut short by a probe or a grade, and a worker that is
// taken away always has an end to take.
func TestVerdictsAreLegal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := Failure{Kind: rapid.SampledFrom(append(FailureKinds(), FailureKind(99))).Draw(t, "kind")}
		s := Snapshot{
			State:         rapid.SampledFrom(States()).Draw(t, "state"),
			ProbeFailures: rapid.IntRange(0, 5).Draw(t, "probes"),
			Faults:        rapid.IntRange(0, 5).Draw(t, "faults"),
			FaultLimit:    rapid.IntRange(0, 5).Draw(t, "limit"),
		}
		s.Executing = s.State == Busy && rapid.Bool().Draw(t, "executing")
		v := Recover(f, s)
		require.NotEmpty(t, v.Cause)
		if v.Moves() {
			require.NoError(t, Check(s.State, v.To, v.Reason))
		}
		if v.Replaces() {
			require.Equal(t, Terminating, v.To)
			require.Equal(t, v.Action == Remove, v.Cause.Removes())
		}
		switch f.Kind {
		case ProbeFailed, ProbeTimedOut, UnhealthyGrade, ActionError, WorkerFault, DeadLettered, LateFailure:
			if s.Executing {
				require.False(t, v.Moves())
				require.Equal(t, Keep, v.Action)
			}
		}
	})
}

func TestFailuresHaveNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "health_check_timeout", Failure{Kind: ProbeTimedOut}.Error())
	require.Equal(t, "health_check_failed: no answer to 42", Failure{Kind: ProbeFailed, Text: "no answer to 42"}.Error())
	require.Equal(t, "health_check_failed: ill", Failure{Kind: ProbeFailed, Text: "health_check_failed: ill"}.Error(), "named once")
	require.Equal(t, "timeout_limit", Failure{Kind: CommandTimedOut}.Error())
	require.Equal(t, "worker initialization failed: no python", Failure{Kind: InitFailed, Text: "no python"}.Error())
	require.Equal(t, "process_exited: signal: killed", Failure{Kind: ProcessExited, Text: "signal: killed"}.Error())
	text, err := Replace.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "replace", string(text))
}

func TestEachDeathIsChargedToOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		death Death
		want  Charged
	}{
		"while modules were loaded": {Death{Starting: true}, ChargedPack},
		"the code had its run":      {Death{Running: true}, ChargedExecution},
		"a state was given back":    {Death{Restoring: true}, ChargedState},
		"it was idle, or was ended": {Death{}, ChargedNode},
	} {
		require.Equal(t, c.want, c.death.Charge(), name)
	}
}
