package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// invalid returns the 400 for a request that is well-formed but wrong.
func invalid(format string, args ...any) *messages.Problem {
	return messages.Problemf(messages.CodeInvalidRequest, format, args...)
}

// NotFound returns the 404 for an unknown object of a kind, such as ("execution", id).
func NotFound(kind, name string) *messages.Problem {
	return messages.Problemf(messages.CodeNotFound, "%s %s is not known here", kind, clip(name))
}

// toProblem returns the problem that the caller gets for a handler's error. Any other error than a Problem becomes a
// 500. Its text is only logged, because it may contain paths and statements that the caller must not see.
func toProblem(err error) *messages.Problem {
	var p *messages.Problem
	if errors.As(err, &p) {
		return p
	}
	var conflict *store.ConflictError
	var unanswered *store.UnansweredError
	switch {
	case errors.As(err, &conflict):
		p = messages.Problemf(messages.CodeKeyConflict,
			"idempotency key %s was used with a different request by execution %s; send the same request or a new key",
			clip(conflict.Key), conflict.Holder)
		p.Details = map[string]any{"execution": conflict.Holder}
	case errors.As(err, &unanswered):
		p = messages.Problemf(messages.CodeStoreUnavailable, "%s", mayBeStored(unanswered))
		p.Details = map[string]any{"execution": unanswered.First, "executions": unanswered.N}
	case errors.Is(err, store.ErrConflict):
		p = messages.Problemf(messages.CodeKeyConflict, "the idempotency key was used with a different request")
	case errors.Is(err, store.ErrInvalid):
		p = invalid("%s", clip(err.Error()))
	case errors.Is(err, store.ErrNotFound):
		p = messages.Problemf(messages.CodeNotFound, "what the request names is not known here")
	case errors.Is(err, store.ErrFull):
		p = messages.Problemf(messages.CodeStorageFull, "the store is out of space; free some and try again: its disk is full, and the node goes on by itself once it is not")
	case errors.Is(err, store.ErrReadOnly):
		p = messages.Problemf(messages.CodeStoreUnavailable,
			"the store takes no writes now: it is a replica, or is set to read only; try again, with an idempotency key where it submits")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed),
		errors.Is(err, context.DeadlineExceeded):
		p = messages.Problemf(messages.CodeStoreUnavailable,
			"the store does not take the request now; try again, with an idempotency key where it submits")
	default:
		p = messages.Problemf(messages.CodeInternal, "the node could not do this; its log says why")
	}
	return p
}

// mayBeStored says of a submission without an answer how to find out what became of it. The error behind it may have paths in it.
func mayBeStored(e *store.UnansweredError) string {
	what, key := "the execution", "key"
	if e.N > 1 {
		what, key = fmt.Sprintf("all %d executions", e.N), "keys"
	}
	return fmt.Sprintf("the store did not answer, so %s may be stored. Once it answers, GET /api/v1/executions/%s says so, with 404 if not; or send the request again with the same idempotency %s",
		what, e.First, key)
}

// named adds the name to a store.ErrNotFound, which does not contain it.
func named(err error, kind, name string) error {
	var p *messages.Problem
	if errors.Is(err, store.ErrNotFound) && !errors.As(err, &p) {
		return NotFound(kind, name)
	}
	return err
}

// executionID reads the {id} of a path.
func executionID(r *http.Request) (messages.ExecutionID, error) {
	text := r.PathValue("id")
	id, err := messages.ParseExecutionID(text)
	if err != nil {
		return id, messages.Problemf(messages.CodeNotFound, "execution %q is not known here: it is not an execution id", clip(text))
	}
	return id, nil
}

// clip bounds a caller's text within a message.
func clip(s string) string {
	const limit = 128
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
