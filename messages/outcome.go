package messages

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Code is the machine-readable cause in an Error. Codes that Troupe itself writes are listed here; an action's own
// code is made of letters, digits, "_", "." and "-", see Error.Said.
type Code string

// The codes that Troupe writes.
const (
	CodeNoWorkers          Code = "no_workers"            // no fresh worker of the pool
	CodeNoNodeServes       Code = "no_node_serves_action" // no node that was tried serves the action, until the end of its wait
	CodeQueueTimeout       Code = "queue_timeout"         // the message expired in the worker's queue
	CodeStartTimeout       Code = "start_timeout"         // not started within scheduled_timeout of its first placement
	CodeQueueDeadline      Code = "queue_deadline"        // waited for busy workers past its own queue deadline
	CodeTimeout            Code = "timeout"               // ran past its run deadline
	CodeStalled            Code = "stalled"               // no sign of progress for the action's stall timeout
	CodeWorkerLost         Code = "worker_lost"           // its worker died while it ran
	CodePoisoned           Code = "poisoned"              // killed its worker as often as the poison limit allows
	CodeCancelled          Code = "cancelled"             // cancelled by a caller
	CodeSessionBusy        Code = "session_busy"          // strict_fail: the bound worker is not free
	CodeSessionLost        Code = "session_lost"          // strict_fail: the bound worker is gone
	CodeSessionStateBroken Code = "session_state_broken"  // strict_fail: its stored state ended each worker that it was given back to
	CodeSessionExpired     Code = "session_expired"       // the binding idled out
	CodeInvalidParameters  Code = "invalid_parameters"    // parameters break the action's schema
	CodeTooLarge           Code = "parameters_too_large"
	CodeResultTooLarge     Code = "result_too_large"
	CodeResultNotJSON      Code = "result_not_json"  // a result or a chunk that is no JSON, see CheckJSON
	CodeNumberNotExact     Code = "number_not_exact" // a number in parameters or a state that the language of the action's code cannot hold
	CodeUnstorable         Code = "unstorable"       // the store can never keep what the run left behind
	CodeActionNotFound     Code = "action_not_found"
	CodeActionError        Code = "action_error"   // the action's code failed without a code of its own
	CodeCannotStart        Code = "cannot_start"   // the command of the action cannot be started, and no repeat changes that
	CodeExitStatus         Code = "exit_status"    // a one-shot command ended with a status other than 0
	CodeProtocol           Code = "protocol_error" // a worker says that it broke its protocol
	CodePermission         Code = "permission_denied"
	CodeRateLimited        Code = "rate_limited"
	CodeNodeShutdown       Code = "node_shutdown"  // stopped because its node was told to stop
	CodeLimit              Code = "limit_exceeded" // the process broke a resource limit
)

// reserved are the codes that only Troupe decides. The code of an action may not say them of itself: they name what the node
// has done or found, and retries, the poison limit and health depend on that. A new code of this kind is added here.
var reserved = map[Code]bool{
	CodeNoWorkers: true, CodeQueueTimeout: true, CodeStartTimeout: true, CodeQueueDeadline: true, CodeTimeout: true, CodeStalled: true,
	CodeWorkerLost: true, CodePoisoned: true, CodeCancelled: true, CodeSessionBusy: true, CodeSessionLost: true, CodeSessionExpired: true,
	CodeTooLarge: true, CodeUnstorable: true, CodeActionNotFound: true, CodeNodeShutdown: true, CodeLimit: true,
	CodeSessionStateBroken: true, CodeCannotStart: true, CodeNoNodeServes: true,
	"worker_unavailable": true, "heartbeat_stale": true, "worker_heartbeat_stale": true, // as older nodes say it
}

// Reserved reports whether only Troupe decides the code.
func (c Code) Reserved() bool { return reserved[c] }

// ReservedCodes lists the codes that only Troupe decides, sorted.
func ReservedCodes() []Code { return slices.Sorted(maps.Keys(reserved)) }

// borrowed begins the code of an action's error that has said a reserved one.
const borrowed = "action."

// Borrowed reports whether an action's own code has said a reserved one: it stands behind "action.".
func (c Code) Borrowed() bool {
	said, ok := strings.CutPrefix(string(c), borrowed)
	return ok && Code(said).Reserved()
}

// SaidMax bounds a code that an action's code may say, in bytes.
const SaidMax = 64

// sayable reports whether an action's code may say the code: letters, digits, "_", "." and "-", up to SaidMax of them.
func (c Code) sayable() bool {
	for _, b := range []byte(c) {
		if letter := b|0x20 >= 'a' && b|0x20 <= 'z'; !letter && (b < '0' || b > '9') && b != '_' && b != '.' && b != '-' {
			return false
		}
	}
	return c != "" && len(c) <= SaidMax
}

// Known reports whether the code is one that Troupe writes.
func (c Code) Known() bool { return c.Advice() != "" }

// Error is why an execution did not complete.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Class is what kind of failure it is (timeout, worker_lost, exception …), by which retries are counted. The node writes it.
	Class string `json:"class,omitempty"`
	// Type is the type of the exception that the action's code raised, as the program names it.
	Type string `json:"type,omitempty"`
	// Types are that type and those that it derives from, most derived first, as the program names them. They decide the retry, and are not
	// stored.
	Types []string `json:"-"`
	// NoRetry is why no retry follows, written with the outcome; empty where one follows, or where nobody judged.
	NoRetry string `json:"no_retry,omitempty"`
	// Retriable is the worker's own word on whether a repeat may help; nil leaves it to the classifier.
	Retriable *bool `json:"retriable,omitempty"`
	// WorkerFault says that the worker itself is to blame, so that it counts against the worker's health.
	WorkerFault bool            `json:"worker_fault,omitempty"`
	Details     json.RawMessage `json:"details,omitempty"`
	// FailedBy names the part of Troupe that wrote the outcome; empty: the action's own code.
	FailedBy string `json:"failed_by,omitempty"`
	// Stderr is the tail of the process's standard error.
	Stderr string `json:"stderr,omitempty"`
	// Exit is how the process ended ("exit status 3", "signal: SIGKILL", "oom", "limit: cpu_time"), where one did.
	Exit string `json:"exit,omitempty"`
}

// Said returns the error that an action's code or its worker has said, as it is stored: with the fields that are theirs to say.
// A reserved code becomes "action." and the code. A text that is no code at all becomes the beginning of the message.
func (e *Error) Said() *Error {
	said := Error{Code: e.Code, Message: e.Message, Type: e.Type, Types: e.Types, Retriable: e.Retriable, WorkerFault: e.WorkerFault, Details: e.Details, Stderr: e.Stderr}
	switch {
	case e.Code == "":
		said.Code = CodeActionError
	case !e.Code.sayable():
		said.Code = CodeActionError
		said.Message = ClipText(string(e.Code), CodeMax) + ": " + e.Message
	case e.Code.Reserved():
		said.Code = borrowed + e.Code
	}
	return &said
}

// The parts of Troupe that write the outcome of a run for its worker, on the worker's node.
const (
	FailedByWorker   = "worker"
	FailedByRecorder = "recorder"
)

// ByWorker reports whether the end of a run is as its worker knew it, with this error or, if it is nil, without one. Another part of Troupe
// ends the run of a worker that is gone.
func (e *Error) ByWorker() bool {
	return e == nil || e.FailedBy == "" || e.FailedBy == FailedByWorker || e.FailedBy == FailedByRecorder
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Outcome is what one execution ended with. Exactly one of Result and Error is set, except that a cancelled
// execution keeps a result that came too late in its error's details.
type Outcome struct {
	Status Status
	Result json.RawMessage
	Error  *Error
}

// Crash reports whether the run took its worker down, which counts toward the poison limit. A worker that was told to end
// is no crash of the execution's making: its error is no worker fault.
func (o *Outcome) Crash() bool {
	switch e := o.Error; {
	case e == nil:
		return o.Status == Abandoned
	case e.Code == CodePoisoned:
		return e.WorkerFault // not where its nodes ended
	case e.Code == CodeNodeShutdown:
		return false
	default:
		return e.WorkerFault && (o.Status == Abandoned || e.Code == CodeWorkerLost)
	}
}

// Output is what an execution's process wrote, each stream up to its bound; StdoutCut and ErrCut say that more came.
type Output struct {
	Stdout, Stderr    []byte
	StdoutCut, ErrCut bool
	Record            []byte // what was said when, see OutputRecord; empty: nothing was, or it is not known
	Notice            string // what a reader must know of it, such as that it is lost; no store keeps it
}

// Empty reports whether nothing was said.
func (o Output) Empty() bool { return len(o.Stdout) == 0 && len(o.Stderr) == 0 && len(o.Record) == 0 }
