package submit

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

// timeoutMax is the longest run timeout.
const timeoutMax = 30 * 24 * time.Hour

// TimeoutDefault is the run timeout of an action that has none, at a node that is not told otherwise.
const TimeoutDefault = 300 * time.Second

// Terms are what an execution gets from its node, beside what its request and its action say.
type Terms struct {
	ID               messages.ExecutionID
	Now              time.Time     // the store's
	DefaultTimeout   time.Duration // of a run, where neither the request nor the action has one
	NoWorkerDeadline time.Duration // of waiting for any worker
	Notify           bool          // outcomes are told
	// Webhook is told by HTTP where neither the request nor the action says who is; nil: nobody. CheckWebhook, where set, says
	// why the node cannot call one.
	Webhook      *messages.Webhook
	CheckWebhook func(*messages.Webhook) error
}

// Complete makes a request that Check has passed an execution of the action, with everything resolved that its row must carry. Its
// error is a *messages.Problem.
func Complete(r *Request, a *messages.Action, t *Terms) (messages.Execution, error) {
	e := messages.Execution{
		ID: t.ID, Action: a.Ref, Version: a.Version, Pool: a.Pool, Status: messages.Requested,
		Parameters: r.Parameters, Session: r.Session, Labels: r.Labels, CreatedBy: r.CreatedBy, Trace: ParseTrace(r.Trace),
		IdempotencyKey: r.IdempotencyKey, RunAt: r.RunAt, Priority: messages.PriorityNormal,
		StallTimeout: a.StallTimeout, WaitForWorker: a.WaitForWorker, Idempotent: a.Idempotent,
		MaxRetries: a.MaxRetries, MayRepeat: a.RetriesConsented, Notify: t.Notify && !a.Silent,
		Timeout: cmp.Or(a.Timeout, t.DefaultTimeout),
	}
	if len(e.Parameters) == 0 {
		e.Parameters = json.RawMessage("{}")
	}
	if r.TimeoutSeconds != nil {
		e.Timeout = seconds(*r.TimeoutSeconds)
		if e.Timeout <= 0 || e.Timeout > timeoutMax {
			return e, unfit("timeout_seconds: must be positive and at most %g, got %g", timeoutMax.Seconds(), *r.TimeoutSeconds)
		}
	}
	if r.MaxRetries != nil {
		e.MaxRetries, e.MayRepeat = *r.MaxRetries, *r.MaxRetries > 0
	}
	if r.Priority != nil {
		e.Priority = messages.Priority(*r.Priority)
	}
	if e.Session != "" {
		e.Affinity = cmp.Or(messages.Affinity(r.Affinity), a.Affinity, messages.AffinityStrict)
	}
	if err := setDeadlines(&e, r, a, t); err != nil {
		return e, err
	}
	var err error
	if e.Webhook, err = chooseWebhook(r, a, t); err != nil {
		return e, err
	}
	if e.IdempotencyKey != "" {
		e.RequestHash = r.Hash()
	}
	return e, nil
}

// setDeadlines sets until when the execution waits. Both deadlines count from when it is due.
func setDeadlines(e *messages.Execution, r *Request, a *messages.Action, t *Terms) error {
	due := t.Now
	if r.RunAt.After(due) {
		due = r.RunAt
	}
	queue := a.QueueDeadline
	if r.QueueDeadline != nil {
		if queue = seconds(*r.QueueDeadline); queue <= 0 {
			return unfit("queue_deadline_seconds: must be positive, got %g", *r.QueueDeadline)
		}
	}
	if queue > 0 {
		e.QueueDeadline = due.Add(queue)
	}
	if e.WaitForWorker {
		e.WorkerDeadline = due.Add(t.NoWorkerDeadline)
	}
	return nil
}

func seconds(s float64) time.Duration {
	if s > timeoutMax.Seconds()*2 || s != s {
		return timeoutMax * 2
	}
	return time.Duration(s * float64(time.Second))
}

// CheckKey checks the idempotency key of a retry, which comes without a Request.
func CheckKey(key string) error {
	const name = "idempotency_key"
	switch {
	case len(key) > messages.KeyMax:
		return unfit("%s: at most %d bytes, got %d", name, messages.KeyMax, len(key))
	case strings.ContainsRune(key, 0):
		return unfit("%s: holds a NUL, which no name can", name)
	case !utf8.ValidString(key):
		return unfit("%s: is not UTF-8", name)
	}
	return nil
}

// unfit is the problem of a well-formed request that cannot be completed.
func unfit(format string, args ...any) *messages.Problem {
	p := messages.Problemf(messages.CodeInvalidRequest, format, args...)
	p.Cause = messages.CauseAction
	return p
}
