package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// HintKind is the subject of a Hint.
type HintKind uint8

// The kinds of hint.
const (
	HintLook      HintKind = iota + 1 // hints may have been missed: look at everything
	HintRequested                     // Pool has a new execution to place
	HintCancel                        // a running Execution is to be cancelled
	HintInbox                         // a submission waits in the inbox
	HintFinished                      // Execution has its outcome
	HintRouter                        // pools may have lost their router
)

// Hint is one coalesced message from a store that other programs use too.
type Hint struct {
	Kind      HintKind
	Pool      string
	Execution messages.ExecutionID
}

// Submission is an execution that another program requests by a row in the store. The execution gets the row's id.
type Submission struct {
	ID             messages.ExecutionID
	Action         string
	Parameters     json.RawMessage
	Session        string
	Affinity       messages.Affinity
	Priority       *messages.Priority // nil: the default
	RunAt          time.Time
	IdempotencyKey string
	Timeout        time.Duration // 0: the action's
	MaxRetries     *int          // nil: the action's
	Labels         map[string]string
	CreatedBy      string
	Trace          string    // W3C traceparent, and after a blank a tracestate
	At             time.Time // when the row was inserted
	// Invalid says why the row cannot be a submission, for example an infinite time. The node refuses it with this text;
	// empty: it can.
	Invalid string
}

// createdBy is the submitter of a row of the inbox. A colon and the name in the row may follow it.
const createdBy = "sql"

// Request returns the request of the submission.
func (s *Submission) Request() submit.Request {
	r := submit.Request{
		ActionRef: s.Action, Parameters: s.Parameters, Session: s.Session, Affinity: string(s.Affinity), RunAt: s.RunAt,
		IdempotencyKey: s.IdempotencyKey, MaxRetries: s.MaxRetries, Labels: s.Labels, CreatedBy: insertedBy(s.CreatedBy),
		Trace: submit.ParseTrace(s.Trace),
	}
	if s.Priority != nil {
		priority := int(*s.Priority)
		r.Priority = &priority
	}
	if s.Timeout != 0 {
		seconds := s.Timeout.Seconds()
		r.TimeoutSeconds = &seconds
	}
	return r
}

// insertedBy returns the submitter of a row. No token's name begins like this (api.CheckName), so a row cannot pass for
// the submission of a token, which that token may follow and cancel.
func insertedBy(given string) string {
	const head = createdBy + ":"
	switch {
	case given == "" || given == createdBy:
		return createdBy
	case strings.HasPrefix(given, head):
		return given
	}
	return head + given
}

// Settlement is the result of a submission.
type Settlement struct {
	ID messages.ExecutionID
	// Refused says why no execution was stored; empty: one was.
	Refused string
}

// Inbox holds the submissions that other programs write to the store. The inbox of a store with one node is always
// empty.
type Inbox interface {
	// TakeSubmissions returns up to limit submissions that are not settled, oldest first, and hides them from other
	// callers for hold. The caller submits executions with their ids, which may be repeated, and then settles them.
	TakeSubmissions(ctx context.Context, hold time.Duration, limit int) ([]Submission, error)
	// SettleSubmissions records the results of submissions. A settled submission does not change.
	SettleSubmissions(ctx context.Context, settlements []Settlement) error
}
