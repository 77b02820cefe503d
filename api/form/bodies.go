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

// StreamAnswer is one line of the answer to a stream of submissions: about one line of the request, or the end of the stream.
type StreamAnswer struct {
	// Line is the number of the request's line, from 1. Empty lines count.
	Line     int                  `json:"line,omitempty" doc:"number of the request's line, from 1; empty lines count"`
	ID       messages.ExecutionID `json:"id,omitzero"`
	Status   messages.Status      `json:"status,omitzero"`
	Existing bool                 `json:"existing,omitempty"`
	// Error says why the line was refused. With End it says why the node read no further.
	Error *ErrorView `json:"error,omitempty" doc:"why the line was refused; with end: why the node read no further"`
	// End is the last line of every answer. An answer without it broke off.
	End *StreamEnd `json:"end,omitempty" doc:"the last line of every answer; an answer without it broke off"`
}

// StreamEnd counts the lines of a stream that hold a submission.
type StreamEnd struct {
	Stored  int `json:"stored"`
	Refused int `json:"refused"`
}

// SubmitBody is the body of a submission: the request, and how long the answer waits for the end.
type SubmitBody struct {
	submit.Request
	WaitSeconds *float64 `json:"wait_seconds,omitempty" doc:"0 to 60: answer when the execution has ended, or after so many seconds as it stands then"`
}

// RetryBody is the body of a retry. It is optional.
type RetryBody struct {
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Reason         string `json:"reason,omitempty" doc:"why, for the journal; up to 512 bytes"`
}
