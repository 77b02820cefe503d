package submit

import (
	"encoding/json"
	"time"
)

// Request is one submission as a caller gives it. The names of its fields in JSON are part of the API, and of every
// stored Hash.
type Request struct {
	ActionRef      string            `json:"action_ref"`
	Parameters     json.RawMessage   `json:"parameters,omitempty"`
	Session        string            `json:"session,omitempty"`
	Affinity       string            `json:"affinity,omitempty"`
	Priority       *int              `json:"priority,omitempty"`
	RunAt          time.Time         `json:"run_at,omitzero"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	TimeoutSeconds *float64          `json:"timeout_seconds,omitempty"`
	MaxRetries     *int              `json:"max_retries,omitempty"`
	QueueDeadline  *float64          `json:"queue_deadline_seconds,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Webhook        *Webhook          `json:"webhook,omitempty"`
	CreatedBy      string            `json:"-"`
	// Trace is a W3C traceparent, and after a blank a tracestate. It is no part of a Hash.
	Trace string `json:"trace,omitempty"`
}
