package retry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func failure(code messages.Code, text string) *messages.Error {
	return &messages.Error{Code: code, Message: text}
}

func TestClassifyByCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[messages.Code]Class{
		"queue_timeout": Retriable, "start_timeout": Retriable, "worker_unavailable": Retriable,
		"no_workers": Retriable, "timeout": Retriable, "heartbeat_stale": Retriable, "worker_lost": Retriable,
		"connection_refused": Retriable, "connection_reset": Retriable, "transient": Retriable,
		"temporary": Retriable, "session_busy": Retriable, "rate_limited": Retriable, "stalled": Retriable,
		"node_shutdown": Retriable,

		"validation": Final, "permission_denied": Final, "action_not_found": Final, "invalid_parameters": Final,
		"cancelled": Final, "poisoned": Final, "queue_deadline": Final, "session_lost": Final,
		"session_expired": Final, "parameters_too_large": Final, "result_too_large": Final,
		"action_error": Final, "exit_status": Final, "protocol_error": Final, "limit_exceeded": Final,
		"whatever": Final, "": Final,
	} {
		require.Equal(t, want, Classify(messages.Failed, failure(code, "it broke")), "code %q", code)
	}
}

func TestClassifyByText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Class{
		"dial tcp 127.0.0.1:1: connect: Connection refused": Retriable,
		"read: connection reset by peer":                    Retriable,
		"[Errno 111] ECONNREFUSED":                          Retriable,
		"a transient problem":                               Retriable,
		"Temporary failure in name resolution":              Retriable,
		"service temporarily unavailable":                   Retriable,
		"request timed out":                                 Retriable,
		"i/o timeout":                                       Retriable,
		"no workers available":                              Retriable,
		"No workers with fresh heartbeats available":        Retriable,
		"HTTP 429: Too Many Requests":                       Retriable,
		"rate limit exceeded":                               Retriable,
		"validation failed: timeout must be positive":       Final,
		"permission denied while connection refused":        Final,
		"Action not found: demo.x":                          Final,
		"invalid parameters: name is required":              Final,
		"cancelled by the user before the timeout":          Final,
		"division by zero":                                  Final,
		"":                                                  Final,
		strings.Repeat("x", textMax) + "connection refused": Final,
	} {
		require.Equal(t, want, Classify(messages.Failed, failure(messages.CodeActionError, text)), "text %.60q", text)
	}
}

func TestClassifyOrder(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	with := func(code messages.Code, text string, word *bool) *messages.Error {
		e := failure(code, text)
		e.Retriable = word
		return e
	}
	for _, c := range []struct {
		name   string
		status messages.Status
		err    *messages.Error
		want   Class
	}{
		{"the worker's yes beats a final text", messages.Failed, with("x", "permission denied", &yes), Retriable},
		{"the worker's no beats a retriable text", messages.Failed, with("x", "connection refused", &no), Final},
		{"the worker's yes beats a final code", messages.Failed, with("validation", "", &yes), Retriable},
		{"the worker's no beats a retriable code", messages.Failed, with("timeout", "", &no), Final},
		{"cancelled is final whatever the worker says", messages.Cancelled, with("timeout", "", &yes), Final},
		{"completed is final", messages.Completed, nil, Final},
		{"poisoned is final whatever the worker says", messages.Failed, with("poisoned", "", &yes), Final},
		{"out of time without an error", messages.TimedOut, nil, Retriable},
		{"out of time with an unknown code", messages.TimedOut, failure("x", "validation"), Retriable},
		{"abandoned without an error", messages.Abandoned, nil, Retriable},
		{"failed without an error", messages.Failed, nil, Final},
		{"a final code beats a retriable text", messages.Failed, failure("invalid_parameters", "timeout"), Final},
	} {
		require.Equal(t, c.want, Classify(c.status, c.err), c.name)
	}
	require.Equal(t, "retriable", Retriable.String())
	require.Equal(t, "final", Final.String())
}

// A cancelled or completed execution is never repeated, whatever its error says.
func TestClassifyNeverRepeatsWhatIsOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		err := failure(messages.Code(rapid.String().Draw(t, "code")), rapid.String().Draw(t, "text"))
		if rapid.Bool().Draw(t, "says") {
			word := rapid.Bool().Draw(t, "word")
			err.Retriable = &word
		}
		status := rapid.SampledFrom([]messages.Status{messages.Completed, messages.Cancelled}).Draw(t, "status")
		require.Equal(t, Final, Classify(status, err))
	})
}
