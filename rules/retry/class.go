package retry

import "github.com/troupe-run/troupe/messages"

// Class is what kind of failure an outcome is. Retries are counted by it, and rules may name it.
type Class string

// The classes.
const (
	QueueTimeout      Class = "queue_timeout"
	StartTimeout      Class = "start_timeout"
	NoWorkers         Class = "no_workers"
	WorkerUnavailable Class = "worker_unavailable"
	Timeout           Class = "timeout"
	HeartbeatStale    Class = "heartbeat_stale"
	WorkerLost        Class = "worker_lost"
	NodeShutdown      Class = "node_shutdown"
	ConnectionRefused Class = "connection_refused"
	ConnectionReset   Class = "connection_reset"
	TransientError    Class = "transient_error"
	SessionBusy       Class = "session_busy"
	RateLimited       Class = "rate_limited"

	ExitStatus    Class = "exit_status"
	LimitExceeded Class = "limit_exceeded"
	ProtocolError Class = "protocol_error"
	Exception     Class = "exception" // the action's code failed, and nothing says how

	Validation        Class = "validation"
	PermissionDenied  Class = "permission_denied"
	ActionNotFound    Class = "action_not_found"
	InvalidParameters Class = "invalid_parameters"
	TooLarge          Class = "too_large"
	Cancelled         Class = "cancelled"
	Poisoned          Class = "poisoned"
	QueueDeadline     Class = "queue_deadline"
	CannotStart       Class = "cannot_start"
	SessionLost       Class = "session_lost"
)

// kind is what is known of a class.
type kind uint8

const (
	unclassified kind = iota // the action's retry.unclassified decides
	retriable                // a repeat may help
	final                    // a repeat would end the same way, or is not wanted
)

// kinds are all classes.
var kinds = map[Class]kind{
	QueueTimeout: retriable, StartTimeout: retriable, NoWorkers: retriable, WorkerUnavailable: retriable, Timeout: retriable,
	HeartbeatStale: retriable, WorkerLost: retriable, NodeShutdown: retriable, ConnectionRefused: retriable,
	ConnectionReset: retriable, TransientError: retriable, SessionBusy: retriable, RateLimited: retriable,

	ExitStatus: unclassified, LimitExceeded: unclassified, ProtocolError: unclassified, Exception: unclassified,

	Validation: final, PermissionDenied: final, ActionNotFound: final, InvalidParameters: final, TooLarge: final,
	Cancelled: final, Poisoned: final, QueueDeadline: final, CannotStart: final, SessionLost: final,
}

// Known reports whether the text is a class, or the reason of a retry that a person asked for.
func Known(reason string) bool {
	_, class := kinds[Class(reason)]
	return class || reason == ReasonManual
}

// codes are the classes of codes whose name is another; a code that has a class's name is of that class.
var codes = map[messages.Code]Class{
	messages.CodeStalled:        Timeout, // a timeout by another clock
	messages.CodeActionError:    Exception,
	messages.CodeNoNodeServes:   NoWorkers, // none that can run it
	messages.CodeTooLarge:       TooLarge,
	messages.CodeResultTooLarge: TooLarge,
	messages.CodeSessionExpired: SessionLost,

	// Codes that workers, drivers and older nodes use for the same causes.
	"worker_heartbeat_stale": HeartbeatStale,
	"transient":              TransientError,
	"temporary":              TransientError,
	"validation_error":       Validation,
}

// byCode is the class that a code alone names.
func byCode(code messages.Code) (Class, bool) {
	if class, ok := codes[code]; ok {
		return class, true
	}
	_, ok := kinds[Class(code)]
	return Class(code), ok
}
