package node

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/store"
)

// Prepare checks requests and completes them to executions, as Submit does, and stores nothing: for callers that store
// them in a transaction of their own. Its errors are *messages.Problem.
func (n *Node) Prepare(ctx context.Context, requests []api.SubmitRequest) ([]messages.Execution, error) {
	if shut := n.gate(); shut != nil {
		return nil, shut
	}
	if n.draining.Load() {
		return nil, &messages.Problem{Code: messages.CodeDraining, Message: "this node is shutting down and takes no more work"}
	}
	executions := make([]messages.Execution, len(requests))
	for i := range requests {
		e, err := n.complete(ctx, &requests[i])
		if err != nil {
			return nil, inBatch(err, i, len(requests))
		}
		executions[i] = e
	}
	return executions, nil
}

// Adapter is the store as its adapter opened it, for what only that adapter can do; nil while the node waits for it.
func (n *Node) Adapter() store.Store {
	if !n.open.Load() {
		return nil
	}
	return n.adapter
}

// CheckParameters judges parameters for an action of the set, until ctx ends. Its error is a *messages.Problem.
func CheckParameters(ctx context.Context, set *pack.Set, ref string, raw json.RawMessage) error {
	err := set.Validate(ctx, ref, raw)
	var bad *pack.ParameterError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return &messages.Problem{
			Code: bad.Code, Message: "action " + ref + ": " + bad.Error(),
			Details: map[string]any{"problems": bad.Problems},
		}
	case ctx.Err() != nil:
		return messages.Problemf(messages.CodeUnavailable,
			"action %s: the request ended before its parameters were checked; this node checks too many now: try again", ref)
	default:
		return messages.Problemf(messages.CodeInvalidParameters, "action %s: %v", ref, err)
	}
}

// RequestOf is what a submission in the store's inbox asks for, in the API's words.
func RequestOf(s *store.Submission) api.SubmitRequest {
	r := api.SubmitRequest{
		ActionRef: s.Action, Parameters: s.Parameters, Session: s.Session, Affinity: string(s.Affinity), RunAt: s.RunAt,
		IdempotencyKey: s.IdempotencyKey, MaxRetries: s.MaxRetries, Labels: s.Labels, CreatedBy: insertedBy(s.CreatedBy),
		Trace: api.Traceparent(s.Trace),
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

// insertedBy is who submitted a row of the inbox: createdByStore, and behind a colon the name that the row gives itself. No token's
// name is one of these (api.CheckName), so a row cannot pass for a token's submission, which that token may follow and cancel.
func insertedBy(given string) string {
	const head = createdByStore + ":"
	switch {
	case given == "" || given == createdByStore:
		return createdByStore
	case strings.HasPrefix(given, head):
		return given
	}
	return head + given
}

// RequestHash tells whether two requests under one idempotency key are the same.
func RequestHash(r *api.SubmitRequest) []byte { return requestHash(r) }
