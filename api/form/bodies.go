package form

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// BatchRequest is the body of a batch. All of it is stored, or none.
type BatchRequest struct {
	Executions []submit.Request `json:"executions"`
}

// BatchItem is one stored execution of a batch, in the request's order.
type BatchItem struct {
	ID       messages.ExecutionID `json:"id"`
	Status   messages.Status      `json:"status"`
	Existing bool                 `json:"existing,omitempty"`
}

// BatchView answers a batch.
type BatchView struct {
	Executions []BatchItem `json:"executions"`
}

// SubmitBody is the body of a submission: the request, and how long the answer waits for the end.
type SubmitBody struct {
	submit.Request
	WaitSeconds *float64 `json:"wait_seconds,omitempty" doc:"0 to 60: answer when the execution has ended, or after so many seconds as it stands then"`
}

// RetryBody is the body of a retry. It is optional.
type RetryBody struct {
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}
