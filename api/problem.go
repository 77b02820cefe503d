package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Codes of problems that the API itself writes, beside the codes of messages.
const (
	CodeInvalidRequest   = "invalid_request"
	CodeInvalidJSON      = "invalid_json"
	CodeUnknownField     = "unknown_field"
	CodeDuplicateField   = "duplicate_field"
	CodeTooDeep          = "json_too_deep"
	CodeBodyTooLarge     = "body_too_large"
	CodeMediaType        = "unsupported_media_type"
	CodeNotFound         = "not_found"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeUnauthorized     = "unauthorized"
	CodeForbidden        = "forbidden"
	CodeNotRetriable     = "not_retriable"
	CodeNotRequeueable   = "not_requeueable"
	CodeKeyConflict      = "idempotency_conflict"
	CodeTooManyRequests  = "too_many_requests"
	CodeUnavailable      = "unavailable"
	CodeStoreUnavailable = "store_unavailable"
	CodeStorageFull      = "storage_full"
	CodeNodeUnreachable  = "node_unreachable"
	CodeNodeOlder        = "node_older"
	CodeAmbiguousNode    = "ambiguous_node"
	CodeReloadFailed     = "reload_failed"
	CodeInternal         = "internal"
)

// ErrorBody is the shape of every answer that is an error.
type ErrorBody struct {
	Error ErrorView `json:"error"`
}

// ErrorView says what was wrong. Code is for programs, Message for people.
type ErrorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

// problemf makes a Problem with a formatted message.
func problemf(status int, code, format string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid is the 400 for a request that is well-formed and still wrong.
func invalid(format string, args ...any) *Problem {
	return problemf(http.StatusBadRequest, CodeInvalidRequest, format, args...)
}

// NotFound is the 404 for a thing of a kind that the node does not know, such as ("execution", id).
func NotFound(kind, name string) *Problem {
	return problemf(http.StatusNotFound, CodeNotFound, "%s %s is not known here", kind, clip(name))
}

// toProblem turns whatever a handler returned into what the caller is told. Errors that are nobody's Problem become
// a 500 whose text stays in the log: it may hold paths and statements that are not the caller's business.
func toProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		p = problemf(http.StatusConflict, CodeKeyConflict,
			"idempotency key %s was used with a different request by execution %s; send the same request or a new key",
			clip(conflict.Key), conflict.Holder)
		p.Details = map[string]any{"execution": conflict.Holder}
	case errors.Is(err, store.ErrConflict):
		p = problemf(http.StatusConflict, CodeKeyConflict, "the idempotency key was used with a different request")
	case errors.Is(err, store.ErrInvalid):
		p = invalid("%s", clip(err.Error()))
	case errors.Is(err, store.ErrNotFound):
		p = problemf(http.StatusNotFound, CodeNotFound, "what the request names is not known here")
	case errors.Is(err, store.ErrFull):
		p = problemf(http.StatusInsufficientStorage, CodeStorageFull, "the store is out of space; free some and try again: its disk is full, and the node goes on by itself once it is not")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrReadOnly), errors.Is(err, store.ErrClosed),
		errors.Is(err, context.DeadlineExceeded):
		p = problemf(http.StatusServiceUnavailable, CodeStoreUnavailable,
			"the store does not take the request now; try again, with an idempotency key where it submits")
	default:
		p = problemf(http.StatusInternalServerError, CodeInternal, "the node could not do this; its log says why")
	}
	return p
}

// named gives an unknown thing its name: a bare store.ErrNotFound does not know what was asked for.
func named(err error, kind, name string) error {
	var p *Problem
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
		return id, problemf(http.StatusNotFound, CodeNotFound, "execution %q is not known here: it is not an execution id", clip(text))
	}
	return id, nil
}

// clip bounds a foreign text that goes into a message.
func clip(s string) string {
	const limit = 128
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
