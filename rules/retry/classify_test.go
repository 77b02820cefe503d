package retry

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func failure(code messages.Code, text string) *messages.Error {
	return &messages.Error{Code: code, Message: text}
}

// refused is whether and why a failed execution with the error is final.
func refused(err *messages.Error, rules Rules) Denial {
	return judge(Classify(messages.Failed, err), messages.Failed, err, rules)
}

// oldRules are those of before max_retries meant every failure.
func oldRules() Rules { return Rules{Unclassified: UnclassifiedFinal} }

func TestClassifyByCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[messages.Code]Class{
		"queue_timeout": QueueTimeout, "start_timeout": StartTimeout, "worker_unavailable": WorkerUnavailable,
		"no_workers": NoWorkers, "timeout": Timeout, "stalled": Timeout, "heartbeat_stale": HeartbeatStale,
		"worker_heartbeat_stale": HeartbeatStale, "worker_lost": WorkerLost, "node_shutdown": NodeShutdown,
		"connection_refused": ConnectionRefused, "connection_reset": ConnectionReset, "transient": TransientError,
		"temporary": TransientError, "transient_error": TransientError, "session_busy": SessionBusy, "rate_limited": RateLimited,

		"exit_status": ExitStatus, "limit_exceeded": LimitExceeded, "protocol_error": ProtocolError, "exception": Exception,
		"action_error": Exception, "whatever": Exception, "": Exception,

		"validation": Validation, "validation_error": Validation, "permission_denied": PermissionDenied,
		"action_not_found": ActionNotFound, "invalid_parameters": InvalidParameters, "parameters_too_large": TooLarge,
		"result_too_large": TooLarge, "cancelled": Cancelled, "poisoned": Poisoned, "queue_deadline": QueueDeadline,
		"session_lost": SessionLost, "session_expired": SessionLost,
	} {
		err := failure(code, "it broke")
		require.Equal(t, want, Classify(messages.Failed, err).Class, "code %q", code)
		require.Equal(t, kinds[want] == final, refused(err, Rules{}) != "", "code %q by default", code)
		require.Equal(t, kinds[want] != retriable, refused(err, oldRules()) != "", "code %q where unclassified is final", code)
		require.True(t, Known(string(want)))
	}
	for class := range kinds {
		if code := messages.Code(class); code.Reserved() {
			require.Equal(t, Exception, Classify(messages.Failed, failure("action."+code, "connection refused")).Class, "%s of an action", code)
		}
	}
	require.Equal(t, "", string(refused(failure("action.cancelled", "cancelled"), Rules{})), "a repeat may help")
	require.Equal(t, Timeout, Classify(messages.TimedOut, failure("action.cancelled", "")).Class)
	require.False(t, Known("whatever"))
	require.True(t, Known(ReasonManual))
}

func TestClassifyByText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Class{
		"dial tcp 127.0.0.1:1: connect: Connection refused": ConnectionRefused,
		"could not connect: connection refused":             ConnectionRefused,
		"[Errno 111] ECONNREFUSED":                          ConnectionRefused,
		"read: connection reset by peer":                    ConnectionReset,
		"ECONNRESET":                                        ConnectionReset,
		"a transient problem":                               TransientError,
		"transient_error":                                   TransientError,
		"TransientError: try later":                         TransientError,
		"transient error: try later":                        TransientError,
		"Temporary failure in name resolution":              TransientError,
		"service temporarily unavailable":                   TransientError,
		"request timed out":                                 Timeout,
		"i/o timeout":                                       Timeout,
		"queue timeout":                                     Timeout,
		"queue_timeout":                                     Timeout,
		"Worker queue TTL expired: message expired in worker queue": TransientError,
		"start timeout":                              Timeout,
		"worker unavailable":                         TransientError,
		"no workers available":                       TransientError,
		"No workers with fresh heartbeats available": TransientError,
		"heartbeat stale":                            TransientError,
		"worker heartbeat stale":                     TransientError,
		"Worker heartbeat is stale":                  TransientError,
		"worker_heartbeat_stale":                     TransientError,
		"worker lost":                                TransientError,
		"session busy":                               TransientError,
		"HTTP 429: Too Many Requests":                RateLimited,
		"rate limit exceeded":                        RateLimited,
		"rate-limited":                               RateLimited,

		"not temporary":                                      Exception,
		"this is not temporary":                              Exception,
		"this is not a temporary error":                      Exception,
		"This isn't transient":                               Exception,
		"it isn’t really temporary":                          Exception,
		"a non-transient error":                              Exception,
		"a contemporary problem":                             Exception,
		"no timeout":                                         Exception,
		"not temporary; but the connection refused":          ConnectionRefused,
		"no, temporary":                                      TransientError,
		"not temporary? it was a temporary one":              TransientError,
		"never mind: a temporary failure":                    TransientError,
		"did not answer before the timeout":                  Timeout,
		"HTTP 503 service unavailable":                       Exception,
		"division by zero":                                   Exception,
		"":                                                   Exception,
		strings.Repeat("x ", textMax) + "connection refused": Exception,

		"validation failed: timeout must be positive": Validation,
		"permission denied while connection refused":  PermissionDenied,
		"Action not found: demo.x":                    Exception,
		"invalid parameters: name is required":        InvalidParameters,
		"cancelled by the user before the timeout":    Timeout,
		"context canceled":                            Exception,
		"not cancelled, but the request timed out":    Timeout,
	} {
		for _, code := range []messages.Code{messages.CodeActionError, messages.CodeExitStatus, "mine"} {
			err := failure(code, text)
			want := want
			if want == Exception && code == messages.CodeExitStatus {
				want = ExitStatus
			}
			require.Equal(t, want, Classify(messages.Failed, err).Class, "text %.60q", text)
			require.Equal(t, kinds[want] == final, refused(err, Rules{}) != "", "text %.60q by default", text)
			require.Equal(t, kinds[want] != retriable, refused(err, oldRules()) != "", "text %.60q where unclassified is final", text)
		}
	}
}

func TestJudgeOrder(t *testing.T) {
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
		rules  Rules
		want   Denial
	}{
		{"the worker's yes beats a final text", messages.Failed, with("x", "permission denied", &yes), Rules{}, ""},
		{"the worker's no beats a retriable text", messages.Failed, with("x", "connection refused", &no), Rules{}, DeniedByWorker},
		{"the worker's no beats the default", messages.Failed, with("x", "boo", &no), Rules{}, DeniedByWorker},
		{"the worker's yes beats unclassified", messages.Failed, with("x", "boo", &yes), oldRules(), ""},
		{"the worker's yes beats a final code", messages.Failed, with("validation", "", &yes), Rules{}, ""},
		{"the worker's no beats a retriable code", messages.Failed, with("timeout", "", &no), Rules{}, DeniedByWorker},
		{"cancelled is final whatever the worker says", messages.Cancelled, with("timeout", "", &yes), Rules{}, DeniedFinal},
		{"poisoned is final whatever the worker says", messages.Failed, with("poisoned", "", &yes), Rules{On: []string{"poisoned"}}, DeniedFinal},
		{"out of time without an error", messages.TimedOut, nil, oldRules(), ""},
		{"out of time with an unknown code", messages.TimedOut, failure("x", "validation"), oldRules(), ""},
		{"abandoned without an error", messages.Abandoned, nil, oldRules(), ""},
		{"failed without an error", messages.Failed, nil, Rules{}, ""},
		{"failed without an error, of old", messages.Failed, nil, oldRules(), DeniedUnclassified},
		{"a final code beats a retriable text", messages.Failed, failure("invalid_parameters", "timeout"), Rules{}, DeniedFinal},
		{"never_on beats the worker's yes", messages.Failed, with("x", "", &yes), Rules{NeverOn: []string{"x"}}, DeniedNeverOn},
		{"never_on beats on", messages.Failed, failure("x", ""), Rules{On: []string{"x"}, NeverOn: []string{"x"}}, DeniedNeverOn},
		{"on leaves out what it does not list", messages.Failed, failure("timeout", ""), Rules{On: []string{"x"}}, DeniedNotOn},
		{"on leaves out even what the worker calls retriable", messages.Failed, with("y", "", &yes), Rules{On: []string{"x"}}, DeniedNotOn},
		{"on beats unclassified", messages.Failed, failure("x", ""), Rules{On: []string{"x"}, Unclassified: "final"}, ""},
		{"on beats a final text", messages.Failed, failure("x", "permission denied"), Rules{On: []string{"x"}}, ""},
		{"on does not beat a final code", messages.Failed, failure("invalid_parameters", ""), Rules{On: []string{"invalid_parameters"}}, DeniedFinal},
		{"the worker's no beats on", messages.Failed, with("x", "", &no), Rules{On: []string{"x"}}, DeniedByWorker},
	} {
		require.Equal(t, c.want, judge(Classify(c.status, c.err), c.status, c.err, c.rules), c.name)
	}
}

func TestWhatListsName(t *testing.T) {
	t.Parallel()
	details := json.RawMessage(`{"type":"KeyError","traceback":"…"}`)
	for _, c := range []struct {
		entry string
		err   *messages.Error
		want  bool
	}{
		{"mine", failure("mine", ""), true},
		{"timeout", failure("stalled", ""), true},
		{"rate_limited", failure("action_error", "Too Many Requests"), true},
		{"3", &messages.Error{Code: "exit_status", Exit: "exit status 3"}, true},
		{"3", &messages.Error{Code: "exit_status", Exit: "exit status 33"}, false},
		{"exit_status", &messages.Error{Code: "exit_status", Exit: "exit status 3"}, true},
		{"oom", &messages.Error{Code: "limit_exceeded", Exit: "oom"}, true},
		{"KeyError", &messages.Error{Code: "action_error", Type: "KeyError"}, true},
		{"KeyError", &messages.Error{Code: "action_error", Details: details}, true},
		{"KeyError", &messages.Error{Code: "action_error", Type: "ValueError", Details: details}, false},
		{"keyerror", &messages.Error{Code: "action_error", Type: "KeyError"}, false},
		{"exception", &messages.Error{Code: "action_error", Type: "KeyError"}, true},
		{"LookupError", &messages.Error{Code: "action_error", Type: "KeyError", Types: []string{"KeyError", "LookupError", "Exception"}}, true},
		{"Exception", &messages.Error{Code: "action_error", Type: "KeyError", Types: []string{"KeyError", "LookupError", "Exception"}}, true},
		{"ValueError", &messages.Error{Code: "action_error", Type: "KeyError", Types: []string{"KeyError", "LookupError", "Exception"}}, false},
		{"x", &messages.Error{Code: "y", Details: json.RawMessage(`not JSON`)}, false},
		{"", failure("", ""), false},
	} {
		got := refused(c.err, Rules{NeverOn: []string{c.entry}}) == DeniedNeverOn
		require.Equal(t, c.want, got, "%q of %+v", c.entry, c.err)
		require.Equal(t, c.want, refused(c.err, Rules{On: []string{c.entry}}) == "", "%q of %+v", c.entry, c.err)
	}
}

func TestResolveRules(t *testing.T) {
	t.Parallel()
	under := Rules{On: []string{"a"}, NeverOn: []string{"b"}, Unclassified: "final"}
	require.Equal(t, under, ResolveRules(Rules{}, under))
	require.Equal(t, Rules{On: []string{"c"}, Unclassified: "retry"}, ResolveRules(Rules{On: []string{"c"}, Unclassified: "retry"}, under))
}

// A cancelled or completed execution is never repeated, whatever its error and the rules say.
func TestNothingIsRepeatedThatIsOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		err := failure(messages.Code(rapid.String().Draw(t, "code")), rapid.String().Draw(t, "text"))
		if rapid.Bool().Draw(t, "says") {
			word := rapid.Bool().Draw(t, "word")
			err.Retriable = &word
		}
		status := rapid.SampledFrom([]messages.Status{messages.Completed, messages.Cancelled}).Draw(t, "status")
		d := Decide(Input{Execution: &messages.Execution{MaxRetries: 9, MayRepeat: true, Idempotent: true},
			Outcome: messages.Outcome{Status: status, Error: err}, Rules: Rules{On: []string{string(err.Code)}}})
		require.False(t, d.Retry)
	})
}

// FuzzText: a text of any bytes names one of the classes, or none.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"not a temporary", "non-transient’", "\xff timeout", "’’isn't", "İ timeout"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		class, ok := byText(text)
		if _, known := kinds[class]; known != ok {
			t.Fatalf("%q: class %q", text, class)
		}
	})
}
