// Package troupe is what a Go program needs to work with Troupe, supervised and durable work: the vocabulary, handlers, and a Client
// that submits executions to a node over HTTP. It links the standard library only.
//
//	c, err := troupe.NewClient(troupe.ClientConfig{Server: "http://127.0.0.1:7070"})
//	…
//	e, err := c.Call(ctx, troupe.Submission{Action: "mail.send", Parameters: letter})
//
// Package embedded runs a node inside the program, with the program's handlers. Package pgtx submits within a transaction of the
// program's own, on the Postgres of the nodes.
package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
)

// Names of the vocabulary, so that callers need no other package.
type (
	// Execution is one request to run an action, with everything that is known of it.
	Execution = messages.Execution
	// ExecutionID names one execution for ever.
	ExecutionID = messages.ExecutionID
	// Status is where an execution stands.
	Status = messages.Status
	// Error is why an execution did not complete. A handler that returns one has it stored as it is.
	Error = messages.Error
	// Task is what a handler is given.
	Task = messages.Task
	// Handler runs one execution. It must return soon after its context ends; a panic counts as its worker's death.
	Handler = messages.Handler
	// RetryPolicy is the back-off between retries.
	RetryPolicy = messages.RetryPolicy
	// Session is one session of a pool as it stands.
	Session = view.Session
	// Affinity says what becomes of a session's execution while the session's worker is not free.
	Affinity = messages.Affinity
	// RetryAnswer is whether a retry follows an execution.
	RetryAnswer = view.Retry
	// RetryRules say which failures are retried.
	RetryRules = messages.RetryRules
	// Webhook says who is told of an outcome by HTTP.
	Webhook = submit.Webhook
	// Problem is an error that the caller of a method can do something about.
	Problem = messages.Problem
)

// The statuses.
const (
	Requested  = messages.Requested
	Scheduled  = messages.Scheduled
	Running    = messages.Running
	Cancelling = messages.Cancelling
	Completed  = messages.Completed
	Failed     = messages.Failed
	TimedOut   = messages.TimedOut
	Cancelled  = messages.Cancelled
	Abandoned  = messages.Abandoned
)

// The affinities.
const (
	Hint       = messages.AffinityHint       // it runs on another worker
	Strict     = messages.AffinityStrict     // it waits
	StrictFail = messages.AffinityStrictFail // it fails at once with session_busy, or session_lost where the worker is gone
)

// Retriable says of a handler's error that another run may not meet it: it is retried, where retries are left.
func Retriable(err error) error { return messages.Judged(err, true) }

// Final says of a handler's error that every other run would meet it too: it is never retried.
func Final(err error) error { return messages.Judged(err, false) }

// Action is one action whose code is in this program.
type Action struct {
	Name       string // two or more words joined by dots, as in "mail.send"
	Handler    Handler
	Timeout    time.Duration   // of one run; 0: 300 s
	MaxRetries int             // 0: none. Above 0 it is also consent to repeat after the worker was lost.
	Retry      RetryPolicy     // zero fields: 1 s, doubling to 300 s, spread by a fifth
	RetryRules RetryRules      // zero: every failure is retried unless it is final
	Idempotent bool            // may be run again when a crash leaves unknown whether it ran
	Parameters json.RawMessage // JSON Schema 2020-12 that parameters must match; empty: any object
	Webhook    *Webhook        // who is told of its outcomes by HTTP, where the submission says nothing else; nil: as the node says
}

// Submission is one request to run an action. Only Action is required.
type Submission struct {
	Action         string
	Parameters     any      // encoded as JSON: an object
	Session        string   // executions with the same key run on the same worker, one at a time, in order
	Affinity       Affinity // how strongly the session's worker is wanted; empty: the action's, and Strict where it has none
	Priority       *int     // 0 to 9, 9 first; nil: 5
	RunAt          time.Time
	IdempotencyKey string // the same key and request again: the same execution
	Timeout        time.Duration
	MaxRetries     *int
	Labels         map[string]string
	// Trace is the trace that the execution belongs to: a W3C traceparent, and after a blank a tracestate where there is one.
	Trace   string
	Webhook *Webhook // who is told of the outcome by HTTP; nil: as the action and the node say
}

// Request is the submission as a node takes it. What can be said of it alone is checked: such an error is a *Problem.
func (s *Submission) Request() (submit.Request, error) {
	r, err := s.encode()
	if err != nil {
		return r, err
	}
	if problem := r.Check(); problem != nil {
		return r, problem
	}
	return r, nil
}

func (s *Submission) encode() (submit.Request, error) {
	r := submit.Request{
		ActionRef: s.Action, Session: s.Session, Affinity: string(s.Affinity), Priority: s.Priority, RunAt: s.RunAt, IdempotencyKey: s.IdempotencyKey,
		MaxRetries: s.MaxRetries, Labels: s.Labels, Trace: s.Trace, Webhook: s.Webhook,
	}
	if s.Timeout != 0 {
		seconds := s.Timeout.Seconds()
		r.TimeoutSeconds = &seconds
	}
	if s.Parameters == nil {
		return r, nil
	}
	raw, err := messages.EncodeJSON(s.Parameters)
	var problem *messages.JSONProblem
	if errors.As(err, &problem) {
		return r, submit.InvalidJSON(problem.Under("parameters"), "parameters")
	}
	if err != nil {
		return r, fmt.Errorf("parameters of %s: %w", s.Action, err)
	}
	r.Parameters = raw
	return r, nil
}

// Await waits for an execution that was just submitted, by the wait that it is given, as the Call of every way in does: one that is retried
// leads to the last of its chain, and a call to a session has a deadline of its own, which each retry has anew.
func Await(ctx context.Context, e *Execution, wait func(context.Context, ExecutionID) (Execution, error)) (Execution, error) {
	now, err := awaitMore(ctx, e, 0, wait)
	return lastOf(ctx, now, err, wait)
}

// lastOf follows an execution that has ended, and is retried, to the last of its chain. When ctx ends it returns the one that stands then.
func lastOf(ctx context.Context, now Execution, err error, wait func(context.Context, ExecutionID) (Execution, error)) (Execution, error) {
	for err == nil && now.Status.Terminal() && now.Status != Completed && !now.RetriedAs.IsZero() {
		over, cancel := context.WithCancel(ctx)
		cancel() // the retry as it stands
		var next Execution
		if next, err = wait(over, now.RetriedAs); err != nil {
			return now, err
		}
		if now = next; !now.Status.Terminal() {
			now, err = awaitMore(ctx, &now, 0, wait)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return now, err
}

// awaitMore is Await for a call that has taken so long already.
func awaitMore(ctx context.Context, e *Execution, spent time.Duration, wait func(context.Context, ExecutionID) (Execution, error),
) (Execution, error) {
	limit, bounded := submit.CallTime(e)
	if !bounded {
		return wait(ctx, e.ID)
	}
	limited, cancel := context.WithTimeout(ctx, limit-spent)
	defer cancel()
	now, err := wait(limited, e.ID)
	if err == nil && !now.Status.Terminal() && limited.Err() != nil && ctx.Err() == nil {
		return now, submit.CallTimedOut(&now)
	}
	return now, err
}
