package retry

import (
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Class is whether a repeat may help.
type Class uint8

// The classes. Everything unclassified is Final.
const (
	Final     Class = iota // a repeat would end the same way, or nobody knows
	Retriable              // a repeat may end better
)

func (c Class) String() string {
	if c == Retriable {
		return "retriable"
	}
	return "final"
}

// Codes that workers, drivers and older nodes use for the same causes as messages' codes.
const (
	codeWorkerUnavailable messages.Code = "worker_unavailable"
	codeHeartbeatStale    messages.Code = "heartbeat_stale"
	codeConnectionRefused messages.Code = "connection_refused"
	codeConnectionReset   messages.Code = "connection_reset"
	codeTransient         messages.Code = "transient"
	codeTemporary         messages.Code = "temporary"
	codeValidation        messages.Code = "validation"
	codeValidationError   messages.Code = "validation_error"
)

// codes is what a code alone says.
var codes = map[messages.Code]Class{
	messages.CodeQueueTimeout: Retriable,
	messages.CodeStartTimeout: Retriable,
	messages.CodeNoWorkers:    Retriable,
	codeWorkerUnavailable:     Retriable,
	messages.CodeTimeout:      Retriable,
	messages.CodeStalled:      Retriable, // a timeout by another clock
	codeHeartbeatStale:        Retriable,
	messages.CodeWorkerLost:   Retriable, // with consent: Decide
	messages.CodeNodeShutdown: Retriable, // with consent: Decide
	codeConnectionRefused:     Retriable,
	codeConnectionReset:       Retriable,
	codeTransient:             Retriable,
	codeTemporary:             Retriable,
	messages.CodeSessionBusy:  Retriable,
	messages.CodeRateLimited:  Retriable,

	codeValidation:                 Final,
	codeValidationError:            Final,
	messages.CodePermission:        Final,
	messages.CodeActionNotFound:    Final,
	messages.CodeInvalidParameters: Final,
	messages.CodeTooLarge:          Final,
	messages.CodeResultTooLarge:    Final,
	messages.CodeCancelled:         Final,
	messages.CodePoisoned:          Final,
	messages.CodeQueueDeadline:     Final,
	messages.CodeSessionLost:       Final,
	messages.CodeSessionExpired:    Final,
}

// finalTexts are looked for before retriableTexts: "validation failed: timeout must be positive" is no timeout.
var (
	finalTexts = []string{
		"validation", "permission denied", "action not found", "invalid parameter", "cancelled", "canceled",
	}
	retriableTexts = []string{
		"connection refused", "connection reset", "econnrefused", "econnreset", "transient", "temporary",
		"temporarily", "timed out", "timeout", "worker unavailable", "no workers available",
		"no workers with fresh heartbeats", "heartbeat is stale", "worker lost", "session busy", "rate limit",
		"too many requests",
	}
)

// textMax bounds how much of a message the text patterns look at, in bytes.
const textMax = 4096

// Classify says whether a repeat may help an execution that ended with the status and the error. What was completed or
// cancelled, and what its own worker keeps dying of, is final whatever anyone says. Then the worker's own word
// counts, then the code, then the status, then the text.
func Classify(status messages.Status, err *messages.Error) Class {
	if status == messages.Completed || status == messages.Cancelled {
		return Final
	}
	if err == nil {
		return byStatus(status)
	}
	if err.Code == messages.CodePoisoned {
		return Final
	}
	if err.Retriable != nil {
		if *err.Retriable {
			return Retriable
		}
		return Final
	}
	if class, known := codes[err.Code]; known {
		return class
	}
	if byStatus(status) == Retriable {
		return Retriable
	}
	return byText(err)
}

// byStatus judges an outcome whose error says nothing: out of time, or its worker gone.
func byStatus(s messages.Status) Class {
	if s == messages.TimedOut || s == messages.Abandoned {
		return Retriable
	}
	return Final
}

func byText(err *messages.Error) Class {
	text := err.Message
	if len(text) > textMax {
		text = text[:textMax]
	}
	text = strings.ToLower(text)
	if containsAny(text, finalTexts) {
		return Final
	}
	if containsAny(text, retriableTexts) {
		return Retriable
	}
	return Final
}

func containsAny(text string, patterns []string) bool {
	for _, p := range patterns {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
