package messages

import (
	"encoding/json"
	"time"
)

// Bounds of a notice, in bytes.
const (
	NoticeResultMax  = 64 << 10 // a longer result is left out
	NoticeDetailsMax = 16 << 10 // longer error details, or a longer tail of stderr, are left out
)

// NoticeType is the type of an ExecutionCompleted, in its type field and as the header "type".
const NoticeType = "ExecutionCompleted"

// ExecutionCompleted is the notice of one outcome, as JSON on the executions exchange. It is told at least once: who
// must act once remembers ExecutionID, which has exactly one outcome. It never holds parameters.
type ExecutionCompleted struct {
	Type        string      `json:"type"` // NoticeType
	ExecutionID ExecutionID `json:"execution_id"`
	Action      string      `json:"action"`
	Version     string      `json:"version,omitempty"` // of the action's pack
	Status      Status      `json:"status"`
	Attempt     Attempt     `json:"attempt"`

	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	// Truncated says that the result or a part of the error was too long and was left out: read the execution.
	Truncated bool `json:"truncated,omitempty"`

	Session  string            `json:"session,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Trace    string            `json:"trace,omitempty"`       // W3C traceparent of the submission
	State    string            `json:"trace_state,omitempty"` // W3C tracestate of the submission
	Retries  int               `json:"retry_count,omitempty"`
	Original ExecutionID       `json:"original_execution,omitzero"`
	// RetriedAs is the execution that repeats this one; where it is there, the chain has not ended.
	RetriedAs ExecutionID `json:"retried_as,omitzero"`

	RequestedAt time.Time `json:"requested_at"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	FinishedAt  time.Time `json:"finished_at"`
}

// NoticeOf makes the notice of an ended execution.
func NoticeOf(e *Execution) ExecutionCompleted {
	n := ExecutionCompleted{
		Type: NoticeType, ExecutionID: e.ID, Action: e.Action, Version: e.Version, Status: e.Status, Attempt: e.Attempt,
		Session: e.Session, Labels: e.Labels, Trace: TraceParent(e.Trace), State: TraceState(e.Trace), Retries: e.RetryCount, Original: e.Original,
		RetriedAs: e.RetriedAs, RequestedAt: e.RequestedAt, StartedAt: e.StartedAt, FinishedAt: e.FinishedAt,
	}
	switch {
	case len(e.Result) > NoticeResultMax:
		n.Truncated = true
	case len(e.Result) > 0 && !json.Valid(e.Result): // what a program emitted is stored as it is
		n.Result, _ = json.Marshal(string(e.Result))
	default:
		n.Result = e.Result
	}
	if e.Error != nil {
		short, cut := shortError(*e.Error)
		n.Error, n.Truncated = &short, n.Truncated || cut
	}
	return n
}

// shortError leaves out what makes an error long, and what would not be JSON.
func shortError(e Error) (short Error, cut bool) {
	if len(e.Details) > NoticeDetailsMax || (len(e.Details) > 0 && !json.Valid(e.Details)) {
		e.Details, cut = nil, true
	}
	if len(e.Stderr) > NoticeDetailsMax {
		e.Stderr, cut = "", true
	}
	if len(e.Message) > NoticeDetailsMax {
		e.Message, cut = ClipText(e.Message, NoticeDetailsMax), true
	}
	return e, cut
}

// Encode is the notice's body.
func (n ExecutionCompleted) Encode() ([]byte, error) { return json.Marshal(n) }

// SubmitReply answers a submission that came by the broker and named a queue for the answer. It is best effort: who
// hears nothing submits again under the same idempotency key.
type SubmitReply struct {
	ID     ExecutionID `json:"id,omitzero"` // of the stored execution
	Status Status      `json:"status,omitzero"`
	// Existing says that the idempotency key had stored this execution before.
	Existing bool         `json:"existing,omitempty"`
	Error    *SubmitError `json:"error,omitempty"` // why nothing was stored
}

// SubmitError is why a submission was not taken, in the words of the HTTP API's errors.
type SubmitError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Encode is the reply's body.
func (r SubmitReply) Encode() ([]byte, error) { return json.Marshal(r) }
