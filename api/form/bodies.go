package form

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// BatchRequest is the body of a batch. All of it is stored, or none.
type BatchRequest struct {
	Executions []submit.Request `json:"executions"`
}

// BatchItem is one stored execution of a batch, in the order given.
type BatchItem struct {
	ID       messages.ExecutionID `json:"id"`
	Status   messages.Status      `json:"status"`
	Existing bool                 `json:"existing,omitempty"`
}

// BatchView answers a batch.
type BatchView struct {
	Executions []BatchItem `json:"executions"`
}

// SubmitBody is the body of a submission: the request, and how long the answer may wait for the end.
type SubmitBody struct {
	submit.Request
	WaitSeconds *float64 `json:"wait_seconds,omitempty" doc:"0 to 60: answer when the execution has ended, or after so many seconds as it stands then"`
}

// RetryView says whether a retry follows an execution: as which, when and for what; or why none does.
type RetryView struct {
	As      messages.ExecutionID `json:"as,omitzero"`
	At      time.Time            `json:"at,omitzero"`       // when it is due
	Reason  string               `json:"reason,omitempty"`  // what it is made for: a class of failures, or manual_retry
	WhyNot  string               `json:"why_not,omitempty"` // why none follows
	Left    int                  `json:"left,omitempty"`    // retries that a failure would still have
	Message string               `json:"message"`           // the same for people
}

// RetryBody is the body of a retry, which may be left out.
type RetryBody struct {
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}
