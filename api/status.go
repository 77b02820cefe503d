package api

import (
	"net/http"

	"github.com/troupe-run/troupe/messages"
)

// kind determines the status of a problem's answer.
type kind struct {
	code  messages.Code
	cause messages.Cause
}

// statuses holds the HTTP statuses of all problems. Only this table knows them.
var statuses = map[kind]int{
	{code: messages.CodeInvalidRequest}:      http.StatusBadRequest,
	{code: messages.CodeInvalidJSON}:         http.StatusBadRequest,
	{code: messages.CodeUnknownField}:        http.StatusBadRequest,
	{code: messages.CodeUnauthorized}:        http.StatusUnauthorized,
	{code: messages.CodeForbidden}:           http.StatusForbidden,
	{code: messages.CodeNotFound}:            http.StatusNotFound,
	{code: messages.CodeActionNotFound}:      http.StatusNotFound,
	{code: messages.CodeMethodNotAllowed}:    http.StatusMethodNotAllowed,
	{code: messages.CodeKeyConflict}:         http.StatusConflict,
	{code: messages.CodeNotRetriable}:        http.StatusConflict,
	{code: messages.CodeNotRequeueable}:      http.StatusConflict,
	{code: messages.CodePreviewExpired}:      http.StatusConflict,
	{code: messages.CodeCountChanged}:        http.StatusConflict,
	{code: messages.CodeEmptyFilter}:         http.StatusUnprocessableEntity,
	{code: messages.CodeSessionBusy}:         http.StatusConflict,
	{code: messages.CodeAmbiguousNode}:       http.StatusConflict,
	{code: messages.CodeBodyTooLarge}:        http.StatusRequestEntityTooLarge,
	{code: messages.CodeTooLarge}:            http.StatusRequestEntityTooLarge,
	{code: messages.CodeMediaType}:           http.StatusUnsupportedMediaType,
	{code: messages.CodeInvalidParameters}:   http.StatusUnprocessableEntity,
	{code: messages.CodeInvalidTokens}:       http.StatusUnprocessableEntity,
	{code: messages.CodeInvalidCertificates}: http.StatusUnprocessableEntity,
	{code: messages.CodeInvalidPacks}:        http.StatusUnprocessableEntity,
	{code: messages.CodeInvalidTopic}:        http.StatusUnprocessableEntity,
	{code: messages.CodeReloadFailed}:        http.StatusUnprocessableEntity,
	{code: messages.CodeRefused}:             http.StatusUnprocessableEntity,
	{code: messages.CodeTooManyRequests}:     http.StatusTooManyRequests,
	{code: messages.CodeTooManyWaits}:        http.StatusTooManyRequests,
	{code: messages.CodeInternal}:            http.StatusInternalServerError,
	{code: messages.CodeNodeOlder}:           http.StatusNotImplemented,
	{code: messages.CodeUnavailable}:         http.StatusServiceUnavailable,
	{code: messages.CodeDraining}:            http.StatusServiceUnavailable,
	{code: messages.CodeStoreUnavailable}:    http.StatusServiceUnavailable,
	{code: messages.CodeNodeUnreachable}:     http.StatusServiceUnavailable,
	{code: messages.CodeCrowded}:             http.StatusServiceUnavailable,
	{code: messages.CodeTimeout}:             http.StatusGatewayTimeout,
	{code: messages.CodeStorageFull}:         http.StatusInsufficientStorage,

	{messages.CodeInvalidRequest, messages.CauseAction}: http.StatusUnprocessableEntity,
	{messages.CodeInternal, messages.CausePeer}:         http.StatusBadGateway,
}

// StatusOf returns the HTTP status for a problem. A problem that is not in the table is the node's mistake: 500.
func StatusOf(p *messages.Problem) int {
	if status, known := statuses[kind{p.Code, p.Cause}]; known {
		return status
	}
	return http.StatusInternalServerError
}
