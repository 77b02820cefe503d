package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
)

// Bounds on what a submission may carry beside its parameters.
const (
	labelsMax  = 32
	labelMax   = 256
	retriesMax = 1000
	timeoutMax = 30 * 24 * time.Hour
)

// complete checks one request and makes it an execution with everything resolved that its row must carry.
func (n *Node) complete(ctx context.Context, r *api.SubmitRequest) (messages.Execution, error) {
	var e messages.Execution
	a, ok := n.action(r.ActionRef, "")
	if !ok {
		return e, messages.Problemf(messages.CodeActionNotFound, "there is no action %q; `troupe actions` lists them", r.ActionRef)
	}
	if err := CheckParameters(ctx, n.catalog.Load().set, a.Ref, r.Parameters); err != nil {
		return e, err
	}
	if err := checkWords(r); err != nil {
		return e, err
	}
	e = messages.Execution{
		ID: messages.NewExecutionID(), Action: a.Ref, Version: a.Version, Pool: a.Pool, Status: messages.Requested,
		Parameters: r.Parameters, Session: r.Session, Labels: r.Labels, CreatedBy: r.CreatedBy, Trace: r.Trace,
		IdempotencyKey: r.IdempotencyKey, RunAt: r.RunAt, Priority: messages.PriorityNormal,
		StallTimeout: a.StallTimeout, WaitForWorker: a.WaitForWorker, Idempotent: a.Idempotent,
		MaxRetries: a.MaxRetries, MayRepeat: a.RetriesConsented, Notify: n.tells() && !a.Silent,
	}
	if len(e.Parameters) == 0 {
		e.Parameters = json.RawMessage("{}")
	}
	if err := n.completeNumbers(&e, a, r); err != nil {
		return e, err
	}
	if e.IdempotencyKey != "" {
		e.RequestHash = requestHash(r)
	}
	return e, nil
}

// checkWords judges the texts of a request: they are stored as they are, so only what cannot be a name is refused.
func checkWords(r *api.SubmitRequest) error {
	for _, w := range []struct {
		name, text string
		max        int
	}{
		{"session", r.Session, messages.SessionMax}, {"idempotency_key", r.IdempotencyKey, messages.KeyMax},
	} {
		if err := checkWord(w.name, w.text, w.max); err != nil {
			return err
		}
	}
	if len(r.Labels) > labelsMax {
		return invalid("labels: at most %d, got %d", labelsMax, len(r.Labels))
	}
	for key, value := range r.Labels {
		if key == "" {
			return invalid("labels: an empty name is none")
		}
		if err := errors.Join(checkWord("labels", key, labelMax), checkWord("labels."+key, value, labelMax)); err != nil {
			return invalid("%s", err.Error())
		}
	}
	return nil
}

func checkWord(name, text string, limit int) error {
	switch {
	case len(text) > limit:
		return invalid("%s: at most %d bytes, got %d", name, limit, len(text))
	case strings.ContainsRune(text, 0):
		return invalid("%s: holds a NUL, which no name can", name)
	case !utf8.ValidString(text):
		return invalid("%s: is not UTF-8", name)
	}
	return nil
}

func invalid(format string, args ...any) *messages.Problem {
	p := messages.Problemf(messages.CodeInvalidRequest, format, args...)
	p.Cause = messages.CauseAction
	return p
}

// completeNumbers resolves times, counts and the session's mode.
func (n *Node) completeNumbers(e *messages.Execution, a *messages.Action, r *api.SubmitRequest) error {
	e.Timeout = orValue(a.Timeout, n.cfg.DefaultTimeout)
	if r.TimeoutSeconds != nil {
		e.Timeout = seconds(*r.TimeoutSeconds)
		if e.Timeout <= 0 || e.Timeout > timeoutMax {
			return invalid("timeout_seconds: must be positive and at most %g, got %g", timeoutMax.Seconds(), *r.TimeoutSeconds)
		}
	}
	if r.MaxRetries != nil {
		if *r.MaxRetries < 0 || *r.MaxRetries > retriesMax {
			return invalid("max_retries: must be 0 to %d, got %d", retriesMax, *r.MaxRetries)
		}
		e.MaxRetries, e.MayRepeat = *r.MaxRetries, *r.MaxRetries > 0
	}
	if r.Priority != nil {
		if *r.Priority < int(messages.PriorityMin) || *r.Priority > int(messages.PriorityMax) {
			return invalid("priority: must be %d to %d, got %d", messages.PriorityMin, messages.PriorityMax, *r.Priority)
		}
		e.Priority = messages.Priority(*r.Priority)
	}
	return n.completeDeadlines(e, a, r)
}

func (n *Node) completeDeadlines(e *messages.Execution, a *messages.Action, r *api.SubmitRequest) error {
	due := n.clock.Now()
	if r.RunAt.After(due) {
		due = r.RunAt
	}
	queue := a.QueueDeadline
	if r.QueueDeadline != nil {
		if queue = seconds(*r.QueueDeadline); queue <= 0 {
			return invalid("queue_deadline_seconds: must be positive, got %g", *r.QueueDeadline)
		}
	}
	if queue > 0 {
		e.QueueDeadline = due.Add(queue)
	}
	if e.WaitForWorker {
		e.WorkerDeadline = due.Add(n.cfg.NoWorkerDeadline)
	}
	mode, err := messages.ParseAffinity(r.Affinity)
	if err != nil {
		return invalid("%v", err)
	}
	if r.Affinity != "" && r.Session == "" {
		return invalid("affinity: %s needs a session", r.Affinity)
	}
	if e.Session != "" {
		orElse(&mode, a.Affinity)
		orElse(&mode, messages.AffinityStrict)
		e.Affinity = mode
	}
	return nil
}

func seconds(s float64) time.Duration {
	if s > timeoutMax.Seconds()*2 || s != s {
		return timeoutMax * 2
	}
	return time.Duration(s * float64(time.Second))
}

// requestHash tells whether two requests under one idempotency key are the same.
func requestHash(r *api.SubmitRequest) []byte {
	same := *r
	same.CreatedBy, same.Trace = "", ""
	same.Parameters = canonicalJSON(same.Parameters)
	raw, err := json.Marshal(same)
	if err != nil { // a request that came as JSON goes back to it
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// canonicalJSON writes JSON with its keys sorted and its blanks gone, so that the same parameters hash alike. Integers stay as
// they are, to the last digit; a number with a fraction or an exponent is the float64 that it is read as, so that 1.0 is 1.
// What is not JSON is left alone.
func canonicalJSON(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return raw
	}
	if canonical, err := json.Marshal(canonicalNumbers(value)); err == nil {
		return canonical
	}
	return raw
}

func canonicalNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			v[key] = canonicalNumbers(of)
		}
	case []any:
		for i, of := range v {
			v[i] = canonicalNumbers(of)
		}
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return value
}
