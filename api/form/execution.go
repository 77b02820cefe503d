package form

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// ExecutionView is an execution as the API shows it. Lists omit Parameters and Result. Parameters never contain the
// action's secrets. Times are UTC, and omitted until they are known.
type ExecutionView struct {
	ID             messages.ExecutionID `json:"id"`
	ActionRef      string               `json:"action_ref"`
	Version        string               `json:"version,omitempty"`
	Pool           string               `json:"pool,omitempty"`
	Status         messages.Status      `json:"status"`
	Attempt        messages.Attempt     `json:"attempt"`
	Session        string               `json:"session,omitempty"`
	Affinity       messages.Affinity    `json:"affinity,omitempty"`
	Priority       messages.Priority    `json:"priority"`
	Labels         map[string]string    `json:"labels,omitempty"`
	CreatedBy      string               `json:"created_by,omitempty"`
	Trace          string               `json:"trace,omitempty" doc:"W3C traceparent of its trace"`
	TraceState     string               `json:"trace_state,omitempty" doc:"W3C tracestate of its trace"`
	TraceID        string               `json:"trace_id,omitempty" doc:"id of its trace, as in trace and in the node's log"`
	IdempotencyKey string               `json:"idempotency_key,omitempty"`

	TimeoutSeconds float64              `json:"timeout_seconds,omitempty"`
	QueueDeadline  time.Time            `json:"queue_deadline,omitzero"`
	Idempotent     bool                 `json:"idempotent,omitempty"`
	MaxRetries     int                  `json:"max_retries"`
	RetryCount     int                  `json:"retry_count"`
	RetryReason    string               `json:"retry_reason,omitempty"`
	Original       messages.ExecutionID `json:"original_execution,omitzero"`
	RetriedAs      messages.ExecutionID `json:"retried_as,omitzero"`
	CrashCount     int                  `json:"crash_count,omitempty"`
	TakeBacks      int                  `json:"take_backs,omitempty"`

	Worker     messages.WorkerID   `json:"worker,omitempty"`
	Generation messages.Generation `json:"generation,omitempty"`

	RequestedAt time.Time `json:"requested_at"`
	RunAt       time.Time `json:"run_at,omitzero"`
	ScheduledAt time.Time `json:"scheduled_at,omitzero"`
	ClaimBy     time.Time `json:"claim_by,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	RunDeadline time.Time `json:"run_deadline,omitzero"`
	FinishedAt  time.Time `json:"finished_at,omitzero"`
	// DurationMS is the duration of the run in milliseconds.
	DurationMS float64 `json:"duration_ms,omitempty"`

	SessionEpoch int64 `json:"session_epoch,omitempty"`
	SessionLost  bool  `json:"session_lost,omitempty"`
	SessionHit   bool  `json:"session_hit,omitempty"`

	Parameters json.RawMessage `json:"parameters,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *messages.Error `json:"error,omitempty"`

	// Retry says whether there is a retry. Lists omit it.
	Retry *view.Retry `json:"retry,omitempty"`

	// Webhook says who is told of the outcome by HTTP, and how far that is. Lists omit it.
	Webhook *WebhookView `json:"webhook,omitempty"`

	// Existing says, in the answer to a submission or retry, that this execution existed before.
	Existing bool `json:"existing,omitempty"`
}

// ViewExecution shows an execution without its parameters.
func ViewExecution(e *messages.Execution) ExecutionView {
	v := ExecutionView{
		ID: e.ID, ActionRef: e.Action, Version: e.Version, Pool: e.Pool, Status: e.Status, Attempt: e.Attempt,
		Session: e.Session, Affinity: e.Affinity, Priority: e.Priority, Labels: e.Labels, CreatedBy: e.CreatedBy,
		Trace: messages.TraceParent(e.Trace), TraceState: messages.TraceState(e.Trace), TraceID: messages.TraceID(e.Trace), IdempotencyKey: e.IdempotencyKey,
		TimeoutSeconds: e.Timeout.Seconds(), QueueDeadline: e.QueueDeadline, Idempotent: e.Idempotent,
		MaxRetries: e.MaxRetries, RetryCount: e.RetryCount, RetryReason: e.RetryReason, Original: e.Original,
		RetriedAs: e.RetriedAs, CrashCount: e.CrashCount, TakeBacks: e.TakeBacks,
		Worker: e.WorkerID, Generation: e.Generation,
		RequestedAt: e.RequestedAt, RunAt: e.RunAt, ScheduledAt: e.ScheduledAt, ClaimBy: e.ClaimBy,
		StartedAt: e.StartedAt, RunDeadline: e.RunDeadline, FinishedAt: e.FinishedAt,
		SessionEpoch: e.SessionEpoch, SessionLost: e.SessionLost, SessionHit: e.SessionHit,
		Result: e.Result, Error: e.Error,
	}
	if !e.StartedAt.IsZero() && e.FinishedAt.After(e.StartedAt) {
		v.DurationMS = float64(e.FinishedAt.Sub(e.StartedAt).Microseconds()) / 1000
	}
	return v
}

// Execution is the inverse of ViewExecution. It has the parameters if the view has them. Fields that the API does not
// show stay zero.
func (v *ExecutionView) Execution() messages.Execution {
	return messages.Execution{
		ID: v.ID, Action: v.ActionRef, Version: v.Version, Pool: v.Pool, Status: v.Status, Attempt: v.Attempt,
		Session: v.Session, Affinity: v.Affinity, Priority: v.Priority, Labels: v.Labels, CreatedBy: v.CreatedBy,
		Trace: strings.TrimSuffix(v.Trace+" "+v.TraceState, " "), IdempotencyKey: v.IdempotencyKey,
		Timeout: time.Duration(math.Round(v.TimeoutSeconds * float64(time.Second))), QueueDeadline: v.QueueDeadline, Idempotent: v.Idempotent,
		MaxRetries: v.MaxRetries, RetryCount: v.RetryCount, RetryReason: v.RetryReason, Original: v.Original,
		RetriedAs: v.RetriedAs, CrashCount: v.CrashCount, TakeBacks: v.TakeBacks,
		WorkerID: v.Worker, Generation: v.Generation,
		RequestedAt: v.RequestedAt, RunAt: v.RunAt, ScheduledAt: v.ScheduledAt, ClaimBy: v.ClaimBy,
		StartedAt: v.StartedAt, RunDeadline: v.RunDeadline, FinishedAt: v.FinishedAt,
		SessionEpoch: v.SessionEpoch, SessionLost: v.SessionLost, SessionHit: v.SessionHit,
		Parameters: v.Parameters, Result: v.Result, Error: v.Error,
	}
}
