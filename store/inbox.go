package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// HintKind is what a Hint is about.
type HintKind uint8

// The kinds of hint.
const (
	HintLook      HintKind = iota + 1 // hints may have been missed: look at everything
	HintRequested                     // Pool has something new to place
	HintCancel                        // Execution is to be cancelled where it runs
	HintInbox                         // a submission waits in the inbox
	HintFinished                      // Execution has its outcome
	HintRouter                        // pools may have lost their leader
)

// Hint is one coalesced word from a store that others use too.
type Hint struct {
	Kind      HintKind
	Pool      string
	Execution messages.ExecutionID
}

// Submission is what another program has put into the store to be executed: no more than it must know. The execution
// gets its id.
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
	Trace          string
	At             time.Time // when it was put there
	// Invalid says what of the row cannot be a submission, such as an infinite time. The node refuses it with this text;
	// empty: nothing.
	Invalid string
}

// createdBy is who submitted a row of the inbox, with a colon and the name that the row gives itself behind it.
const createdBy = "sql"

// Request is what the submission asks for.
func (s *Submission) Request() submit.Request {
	r := submit.Request{
		ActionRef: s.Action, Parameters: s.Parameters, Session: s.Session, Affinity: string(s.Affinity), RunAt: s.RunAt,
		IdempotencyKey: s.IdempotencyKey, MaxRetries: s.MaxRetries, Labels: s.Labels, CreatedBy: insertedBy(s.CreatedBy),
		Trace: submit.Traceparent(s.Trace),
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

// insertedBy is the name of who submitted a row. No token's name begins as it does (api.CheckName), so a row cannot pass for a
// token's submission, which that token may follow and cancel.
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

// Settlement is what became of a submission.
type Settlement struct {
	ID messages.ExecutionID
	// Refused says why no execution was made; empty: one was.
	Refused string
}

// Inbox holds what other programs submit by writing to the store. A store that one node alone uses has none: its inbox
// is always empty.
type Inbox interface {
	// TakeSubmissions returns up to limit submissions that nobody has settled, oldest first, and keeps them from other
	// callers for hold. Whoever took them submits executions with their ids, which may be repeated, then settles them.
	TakeSubmissions(ctx context.Context, hold time.Duration, limit int) ([]Submission, error)
	// SettleSubmissions records what became of submissions. One that is settled already stays as it is.
	SettleSubmissions(ctx context.Context, settlements []Settlement) error
}
