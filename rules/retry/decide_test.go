package retry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func id(n byte) messages.ExecutionID { return messages.ExecutionID{15: n} }

func outcome(s messages.Status, code messages.Code) messages.Outcome {
	if code == "" {
		return messages.Outcome{Status: s}
	}
	return messages.Outcome{Status: s, Error: &messages.Error{
		Code: code, Message: "it broke", WorkerFault: code == messages.CodeWorkerLost,
	}}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type exec = messages.Execution
	timedOut := outcome(messages.TimedOut, messages.CodeTimeout)
	lostOutcome := outcome(messages.Abandoned, messages.CodeWorkerLost)
	for _, c := range []struct {
		name string
		in   Input
		want Denial
	}{
		{"retriable with retries left", Input{Execution: &exec{MaxRetries: 1}, Outcome: timedOut}, ""},
		{"no retries allowed", Input{Execution: &exec{}, Outcome: timedOut}, DeniedMax},
		{"the last retry", Input{Execution: &exec{MaxRetries: 3, RetryCount: 3}, Outcome: timedOut}, DeniedMax},
		{"completed", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Completed, "")}, DeniedCompleted},
		{"cancelled", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Cancelled, "timeout")}, DeniedCancelled},
		{"cancelling", Input{Execution: &exec{MaxRetries: 1, Status: messages.Cancelling}, Outcome: timedOut}, DeniedCancelled},
		{"not an end", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Running, "timeout")}, DeniedRunning},
		{"switched off", Input{Execution: &exec{MaxRetries: 1}, Outcome: timedOut, Disabled: true}, DeniedDisabled},
		{"final error", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Failed, "validation")}, DeniedFinal},
		{"an exit status", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Failed, "exit_status")}, ""},
		{"an exception", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Failed, "action_error")}, ""},
		{"an exception, unclassified final", Input{Execution: &exec{MaxRetries: 1}, Outcome: outcome(messages.Failed, "action_error"),
			Rules: Rules{Unclassified: UnclassifiedFinal}}, DeniedUnclassified},
		{"never on", Input{Execution: &exec{MaxRetries: 1}, Outcome: timedOut, Rules: Rules{NeverOn: []string{"timeout"}}}, DeniedNeverOn},
		{"not in on", Input{Execution: &exec{MaxRetries: 1}, Outcome: timedOut, Rules: Rules{On: []string{"7"}}}, DeniedNotOn},
		{"on is no consent", Input{Execution: &exec{MaxRetries: 5}, Outcome: lostOutcome, Rules: Rules{On: []string{"worker_lost"}}}, DeniedConsent},
		{"retried before", Input{Execution: &exec{MaxRetries: 9, RetriedAs: id(2)}, Outcome: timedOut}, DeniedRetried},
		{"lost without consent", Input{Execution: &exec{MaxRetries: 5}, Outcome: lostOutcome}, DeniedConsent},
		{"lost, retries set on it", Input{Execution: &exec{MaxRetries: 5, MayRepeat: true}, Outcome: lostOutcome}, ""},
		{"lost, idempotent", Input{Execution: &exec{MaxRetries: 5, Idempotent: true}, Outcome: lostOutcome}, ""},
		{"lost for the third time", Input{Execution: &exec{MaxRetries: 5, MayRepeat: true, CrashCount: 2}, Outcome: lostOutcome}, DeniedPoisoned},
		{"lost for the second time", Input{Execution: &exec{MaxRetries: 5, MayRepeat: true, CrashCount: 1}, Outcome: lostOutcome}, ""},
		{"node stopped, without consent", Input{Execution: &exec{MaxRetries: 5}, Outcome: outcome(messages.Abandoned, messages.CodeNodeShutdown)}, DeniedConsent},
		{"node stopped, no crash", Input{Execution: &exec{MaxRetries: 5, MayRepeat: true, CrashCount: 2}, Outcome: outcome(messages.Abandoned, messages.CodeNodeShutdown)}, ""},
		{"poisoned", Input{Execution: &exec{MaxRetries: 5, Idempotent: true}, Outcome: outcome(messages.Failed, messages.CodePoisoned)}, DeniedFinal},
		{"handler still runs", Input{Execution: &exec{MaxRetries: 5, MayRepeat: true}, Outcome: timedOut, Leaked: true}, DeniedLeaked},
		{"handler still runs, idempotent", Input{Execution: &exec{MaxRetries: 5, Idempotent: true}, Outcome: timedOut, Leaked: true}, ""},
	} {
		c.in.Now, c.in.Policy = now(), Defaults()
		got := Decide(c.in)
		require.Equal(t, c.want, got.Denied, c.name)
		require.Equal(t, c.want == "", got.Retry, c.name)
		if got.Retry {
			require.Equal(t, now().Add(got.Delay), got.RunAt, c.name)
			require.Equal(t, string(got.Class), got.Reason, c.name)
		} else {
			require.NotEmpty(t, got.Denied.Explain(c.in.Execution))
			require.True(t, got.RunAt.IsZero())
		}
	}
}

func TestDecideWaitsLongerEachTime(t *testing.T) {
	t.Parallel()
	for retries, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		e := &messages.Execution{MaxRetries: 9, RetryCount: retries}
		got := Decide(Input{Now: now(), Execution: e, Policy: Defaults(), Outcome: outcome(messages.TimedOut, "")})
		require.Equal(t, want, got.Delay)
		require.Equal(t, "timeout", got.Reason)
	}
}

// A chain of retries ends after max_retries, and nothing is repeated without consent when its effects may have
// happened already.
func TestChainsEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := messages.Execution{
			ID:         id(1),
			MaxRetries: rapid.IntRange(0, 20).Draw(t, "max"),
			Idempotent: rapid.Bool().Draw(t, "idempotent"),
			MayRepeat:  rapid.Bool().Draw(t, "may repeat"),
		}
		first, runs, crashes := e.ID, 1, 0
		for {
			o := outcome(messages.TimedOut, messages.CodeTimeout)
			if rapid.Bool().Draw(t, "crash") {
				o = outcome(messages.Abandoned, messages.CodeWorkerLost)
				crashes++
			}
			d := Decide(Input{Now: now(), Execution: &e, Outcome: o, Policy: Defaults()})
			if o.Status == messages.Abandoned && !e.Idempotent && !e.MayRepeat {
				require.False(t, d.Retry, "repeated without consent")
			}
			if !d.Retry {
				break
			}
			e = Next(now(), &e, d, id(byte(runs+1)))
			require.Zero(t, e.CrashCount, "the store hands it on")
			e.CrashCount = crashes
			runs++
			require.Equal(t, first, e.Original)
			require.Equal(t, runs-1, e.RetryCount)
			require.Less(t, crashes, PoisonLimit)
		}
		require.LessOrEqual(t, runs, e.MaxRetries+1)
	})
}

func TestManual(t *testing.T) {
	t.Parallel()
	for _, s := range messages.Statuses() {
		got := Manual(now(), &messages.Execution{Status: s})
		switch {
		case !s.Terminal():
			require.Equal(t, DeniedRunning, got.Denied, s)
			require.Contains(t, got.Denied.Explain(&messages.Execution{Status: s}), s.String())
		case s == messages.Completed:
			require.Equal(t, DeniedCompleted, got.Denied)
		default:
			require.Equal(t, Decision{Retry: true, RunAt: now(), Reason: "manual_retry"}, got, s)
		}
	}
	require.True(t, Manual(now(), &messages.Execution{Status: messages.Failed, RetriedAs: id(3)}).Retry, "the store answers with the one that is there")
}

func TestNextKeepsTheWorkAndLeavesTheRun(t *testing.T) {
	t.Parallel()
	old := messages.Execution{
		ID: id(2), Seq: 9, Action: "a.b", Version: "1", Pool: "p", Status: messages.Running, Attempt: 4,
		Parameters: json.RawMessage(`{"x":1}`), Session: "s", Affinity: messages.AffinityHint, Priority: 7,
		Labels: map[string]string{"k": "v"}, CreatedBy: "me", Trace: "t",
		IdempotencyKey: "key", RequestHash: []byte{1}, Timeout: time.Minute, StallTimeout: time.Second,
		RequestedAt: now(), RunAt: now().Add(time.Second), QueueDeadline: now().Add(11 * time.Second),
		WaitForWorker: true, WorkerDeadline: now(), Idempotent: true, MayRepeat: true, MaxRetries: 3,
		RetryCount: 1, Original: id(1), CrashCount: 1, TakeBacks: 2, StartedAt: now(), SessionEpoch: 3,
		SessionLost: true, WorkerID: "n/p/0",
	}
	d := Decision{Retry: true, RunAt: now().Add(time.Hour), Reason: "timeout"}
	got := Next(now().Add(time.Minute), &old, d, id(3))
	require.Equal(t, messages.Execution{
		ID: id(3), Action: "a.b", Version: "1", Pool: "p", Status: messages.Requested,
		Parameters: old.Parameters, Session: "s", Affinity: messages.AffinityHint, Priority: 7,
		Labels: old.Labels, CreatedBy: "me", Trace: "t", Timeout: time.Minute, StallTimeout: time.Second,
		QueueDeadline: now().Add(time.Hour + 10*time.Second), WaitForWorker: true,
		Idempotent: true, MayRepeat: true, MaxRetries: 3, RetryCount: 2, RetryReason: "timeout",
		Original: id(1), RequestedAt: now().Add(time.Minute), RunAt: now().Add(time.Hour),
	}, got)
}

func TestRescue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		e       messages.Execution
		action  RescueAction
		crashes int
		status  messages.Status
		code    messages.Code
	}{
		{"waiting", messages.Execution{Status: messages.Requested}, Leave, 0, 0, ""},
		{"being placed", messages.Execution{Status: messages.Scheduling, CrashCount: 1}, PlaceAgain, 1, 0, ""},
		{"not started", messages.Execution{Status: messages.Scheduled, CrashCount: 2}, PlaceAgain, 2, 0, ""},
		{"running", messages.Execution{Status: messages.Running}, Finish, 1, messages.Abandoned, messages.CodeWorkerLost},
		{"running with consent", messages.Execution{Status: messages.Running, MayRepeat: true}, Finish, 1, messages.Abandoned, messages.CodeWorkerLost},
		{"running, the third of its chain", messages.Execution{Status: messages.Running, MayRepeat: true, CrashCount: 2}, Finish, 3, messages.Failed, messages.CodePoisoned},
		{"idempotent", messages.Execution{Status: messages.Running, Idempotent: true}, PlaceAgain, 1, 0, ""},
		{"idempotent again", messages.Execution{Status: messages.Running, Idempotent: true, CrashCount: 1}, PlaceAgain, 2, 0, ""},
		{"poisoned", messages.Execution{Status: messages.Running, Idempotent: true, CrashCount: 2}, Finish, 3, messages.Failed, messages.CodePoisoned},
		{"cancelling", messages.Execution{Status: messages.Cancelling, Idempotent: true}, Finish, 0, messages.Cancelled, messages.CodeCancelled},
		{"over", messages.Execution{Status: messages.Completed}, Leave, 0, 0, ""},
	} {
		c.e.WorkerID = "n/p/0"
		got := Rescue(&c.e, "worker", "signal: killed")
		require.Equal(t, c.action, got.Action, c.name)
		require.Equal(t, c.crashes, got.CrashCount, c.name)
		require.Equal(t, c.status, got.Outcome.Status, c.name)
		require.Equal(t, c.action == Finish, got.Outcome.Error != nil, c.name)
		if got.Outcome.Error != nil {
			require.Equal(t, c.code, got.Outcome.Error.Code, c.name)
			require.Equal(t, "worker", got.Outcome.Error.FailedBy, c.name)
			require.Contains(t, got.Outcome.Error.Message, "signal: killed", c.name)
		}
	}
	require.NotContains(t, Rescue(&messages.Execution{Status: messages.Running}, "", "").Outcome.Error.Message, ": ")
	require.Equal(t, "place_again finish leave", PlaceAgain.String()+" "+Finish.String()+" "+Leave.String())
}

// Nothing that is not idempotent is ever started again under its own id, and nothing kills more than PoisonLimit
// workers.
func TestRescueNeverStartsAnIDTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := messages.Execution{
			Status:     rapid.SampledFrom(messages.Statuses()).Draw(t, "status"),
			Idempotent: rapid.Bool().Draw(t, "idempotent"),
			MayRepeat:  rapid.Bool().Draw(t, "may repeat"),
			CrashCount: rapid.IntRange(0, 5).Draw(t, "crashes"),
		}
		got := Rescue(&e, "worker", "")
		if got.Action != PlaceAgain {
			return
		}
		if e.Status.Started() {
			require.True(t, e.Idempotent)
			require.Less(t, got.CrashCount, PoisonLimit)
		}
	})
}

// The death of a node is no crash of the execution's making: five of them are kept apart from the three of its workers.
func TestRescueFromNode(t *testing.T) {
	t.Parallel()
	policy := Resolve(Policy{Jitter: -1}, Policy{})
	for _, c := range []struct {
		name   string
		e      messages.Execution
		before []string
		action RescueAction
		delay  time.Duration
		status messages.Status
		code   messages.Code
	}{
		{"idempotent", messages.Execution{Idempotent: true, CrashCount: 2}, nil, PlaceAgain, time.Second, 0, ""},
		{"idempotent, the fourth", messages.Execution{Idempotent: true}, []string{"a", "b", "a"}, PlaceAgain, 8 * time.Second, 0, ""},
		{"idempotent, the fifth", messages.Execution{Idempotent: true}, []string{"a", "b", "a", "c"}, Finish, 0, messages.Failed, messages.CodePoisoned},
		{"not idempotent", messages.Execution{CrashCount: 2}, nil, Finish, 0, messages.Abandoned, messages.CodeWorkerLost},
		{"not idempotent, the fifth", messages.Execution{MayRepeat: true}, []string{"a", "b", "a", "c"}, Finish, 0, messages.Failed, messages.CodePoisoned},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.e.Status, c.e.WorkerID = messages.Running, "n/1/p/0"
			got := RescueFromNode(&c.e, c.before, policy, nil, "sweep")
			require.Equal(t, []any{c.action, c.delay, c.e.CrashCount, c.status}, []any{got.Action, got.Delay, got.CrashCount, got.Outcome.Status})
			if c.code == "" {
				return
			}
			require.Equal(t, c.code, got.Outcome.Error.Code)
			require.False(t, got.Outcome.Crash(), "the store counts no crash")
			if c.code == messages.CodePoisoned {
				require.Contains(t, got.Outcome.Error.Message, "5 nodes ended while they ran the execution or those it retries: a, b, a, c, n/1;")
			}
		})
	}
}
