package messages

import "fmt"

// Problem is an error that the caller can do something about.
type Problem struct {
	Code    Code   // for programs
	Message string // for people
	Details any    // encoded as JSON; nil: none
	Cause   Cause  // tells problems of one code apart, where callers are answered differently
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Message }

// Problemf makes a Problem with a formatted message.
func Problemf(code Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Cause says where the cause of a problem is, beyond its code.
type Cause uint8

// The causes.
const (
	CauseByCode Cause = iota // where the code says
	CauseAction              // the request is well-formed, and the action that it names, or the node, does not allow what it asks for
	CausePeer                // another node gave an answer that cannot be used
)

// The codes of problems, beside those of errors of executions.
const (
	CodeInvalidRequest      Code = "invalid_request"
	CodeInvalidJSON         Code = "invalid_json"
	CodeUnknownField        Code = "unknown_field"
	CodeBodyTooLarge        Code = "body_too_large"
	CodeMediaType           Code = "unsupported_media_type"
	CodeNotFound            Code = "not_found"
	CodeMethodNotAllowed    Code = "method_not_allowed"
	CodeUnauthorized        Code = "unauthorized"
	CodeForbidden           Code = "forbidden"
	CodeNotRetriable        Code = "not_retriable"
	CodeNotRequeueable      Code = "not_requeueable"
	CodeKeyConflict         Code = "idempotency_conflict"
	CodePreviewExpired      Code = "preview_expired"
	CodeCountChanged        Code = "count_changed" // more executions match than were previewed
	CodeEmptyFilter         Code = "empty_filter"
	CodeTooManyRequests     Code = "too_many_requests"
	CodeTooManyWaits        Code = "too_many_waits"
	CodeUnavailable         Code = "unavailable"
	CodeDraining            Code = "draining" // the node is shutting down
	CodeStoreUnavailable    Code = "store_unavailable"
	CodeStorageFull         Code = "storage_full"
	CodeNodeUnreachable     Code = "node_unreachable"
	CodeNodeOlder           Code = "node_older"
	CodeCrowded             Code = "crowded" // another node has too many requests of this one under way
	CodeAmbiguousNode       Code = "ambiguous_node"
	CodeReloadFailed        Code = "reload_failed"
	CodeInvalidTokens       Code = "invalid_tokens"
	CodeInvalidCertificates Code = "invalid_certificates"
	CodeInvalidPacks        Code = "invalid_packs"
	CodeInvalidTopic        Code = "invalid_topic"
	CodeRefused             Code = "refused" // the nodes did not take a row of the inbox, or the store does not take a change
	CodeInternal            Code = "internal"
)
