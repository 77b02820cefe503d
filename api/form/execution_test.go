package form

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// What the API shows of an execution a program reads back.
func TestAViewIsReadBack(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	e := messages.Execution{
		ID: messages.ExecutionID{1}, Action: "a.b", Version: "1", Pool: "go", Status: messages.Failed, Attempt: 2, Session: "s",
		Affinity: messages.AffinityHint, Priority: 9, Labels: map[string]string{"k": "v"}, CreatedBy: "ann", Trace: "trace",
		IdempotencyKey: "key", Timeout: 1100 * time.Millisecond, QueueDeadline: at, Idempotent: true, MaxRetries: 3, RetryCount: 1,
		RetryReason: "timeout", Original: messages.ExecutionID{2}, RetriedAs: messages.ExecutionID{3}, CrashCount: 4, TakeBacks: 5,
		WorkerID: "n/go/0", Generation: 6, RequestedAt: at, RunAt: at, ScheduledAt: at, ClaimBy: at, StartedAt: at, RunDeadline: at,
		FinishedAt: at, SessionEpoch: 7, SessionLost: true, SessionHit: true, Result: json.RawMessage(`1`),
		Error: &messages.Error{Code: "busy", Message: "try again"},
	}
	view := ViewExecution(&e)
	raw, err := json.Marshal(&view)
	require.NoError(t, err)
	var read ExecutionView
	require.NoError(t, json.Unmarshal(raw, &read))
	require.Equal(t, e, read.Execution())
}
