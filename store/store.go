// Package store is the port to the store, which holds the state of executions. It defines the queries, the guarded
// changes of an execution, and the errors that callers branch on. It has no state of its own. The adapters
// (store/sqlite, store/postgres) implement it and pass the suite in store/storetest.
//
// Every change of an execution is a compare-and-set on (id, status, attempt). A change that does not match has no
// effect and returns Stale. Every change may be repeated: a repeated change returns Already. So after any error with an
// unknown commit the caller repeats the call.
//
// Decide is the state machine. From a row, facts about it, a change and the time it returns the verdict and all that is
// to be written. It is pure. An adapter reads the row (NeedsSession and NeedsOutcome say what else), asks Decide, and
// writes the decision by a compare-and-set on the row as it was read. Where that is too slow, an adapter has its own
// statements, which storetest compares with Decide. Statement puts the numbers of statuses and changes into its SQL.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Errors that callers branch on.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("idempotency key was used with a different request")
	ErrLocked      = errors.New("store is in use by another node")
	ErrNewer       = errors.New("store was written by a newer version")
	ErrReadOnly    = errors.New("store is read-only")
	ErrFull        = errors.New("store is out of space")
	ErrUnavailable = errors.New("store is unavailable") // outcome of the call unknown; repeat it
	ErrClosed      = errors.New("store is closed")
	// ErrSession is why a placement was refused: its session is bound to another worker or epoch, or is busy. The caller
	// reads the session again.
	ErrSession = errors.New("session does not allow the placement")
	// ErrFenced is why a claim was refused: the claimer's own lease is not live, so other nodes may have declared it dead.
	ErrFenced = errors.New("incarnation has no live lease")
	// ErrTaken is why the progress of an operation was not saved: another node works on it, or it has ended.
	ErrTaken = errors.New("operation is not this node's to work on")
	// ErrCrowded is why an operation was not started: too many have not ended.
	ErrCrowded = errors.New("too many operations have not ended")
	// ErrInvalid: the store cannot keep the data. The error names the field.
	ErrInvalid = errors.New("invalid")
)

// Unanswered reports whether a call failed without an answer. The store may be unavailable, and the same call may
// succeed later.
func Unanswered(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// Store is all that a node asks of its store. All methods are safe for concurrent use. Times are of the store's clock.
type Store interface {
	Executions
	Nodes
	Workers
	Sessions
	DeadLetters
	Notices
	Inbox
	Routing
	Journal
	Rollups
	Keyframes
	Ledger
	Webhooks
	Operations

	// SaveActions records the actions that this node serves, by (ref, version).
	SaveActions(ctx context.Context, actions []messages.Action) error
	// Watch reports changes by other programs and nodes, coalesced, until ctx or the store ends; then it closes the
	// channel. The values are only hints: any may be missing, so a caller that must not miss a change also polls. A store
	// with one node sends none.
	Watch(ctx context.Context) (<-chan Hint, error)
	// Now returns the store's clock, the only clock with which leases and heartbeats are compared.
	Now(ctx context.Context) (time.Time, error)
	// Purge deletes rows older than the given times, in one bounded batch of each kind. It looks at a bounded number of
	// rows, and the next call continues after them, so that rows which must stay never hide others. If one kind fails,
	// Purge still deletes the others: it returns that error and what was deleted. A session stays while an execution of it
	// waits or runs, because that run may have to be told of lost state. CountPurged knows of the executions that it deletes.
	Purge(ctx context.Context, p Purge) (Purged, error)
	// Close ends the store's work and releases its lock. Calls in progress end with ErrClosed or their result.
	Close() error
}

// LateFailure is a failure of a run's code that came when the run had ended: an error that a timer or a thread of it threw.
// It changes nothing of the execution, whose events tell it.
type LateFailure struct {
	Execution messages.ExecutionID
	Attempt   messages.Attempt
	Reason    string
	Worker    messages.WorkerID
}

// LateFailureKind is the kind of the event of a late failure. A store keeps at most LateFailuresMax of them for one execution:
// a timer may fail without end.
const (
	LateFailureKind = "late_failure"
	LateFailuresMax = 16
)

// Executions is the part of the store that holds executions.
type Executions interface {
	// SaveLateFailure stores an event of the execution, up to LateFailuresMax of them. That of an unknown execution is dropped.
	SaveLateFailure(ctx context.Context, f LateFailure) error
	// Submit stores the executions as requested, all or none, in the given order, and returns them as stored. If the same
	// request (equal RequestHash) was stored before under the idempotency key, Submit returns the stored execution with
	// Existing set. If another request was, the error is ErrConflict (as *ConflictError), and nothing is stored.
	Submit(ctx context.Context, executions []messages.Execution) ([]Submitted, error)
	// SubmitPlaced is Submit with placements in the same transaction, for a router with free workers. Each placement names
	// an execution of the call by its id (see CheckPlaced). One with a Generation carries the claim too: its execution is stored
	// as running, or as requested where the worker's incarnation has no live lease. The result says which were placed or
	// claimed: an execution that existed before is not changed.
	SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*Place) ([]Submitted, error)
	// Apply makes the changes in order, in as few transactions as the bounds on one allow, and returns one Result for
	// each. A change that is refused (stale, missing, unstorable) or blocked does not stop the others. After an error the
	// outcome of all is unknown. If MayPassInParts(err), one of them may be the cause, and the others may succeed without it.
	Apply(ctx context.Context, changes []Change) ([]Result, error)

	// Retry stores next as the retry of an execution that ended without a result, in one transaction, unless RetriedAs
	// already names a retry: then it returns that one as Existing. So an execution has at most one retry, however often it
	// is asked for. Next takes the execution's parameters unless it has its own, and the crash count of its chain.
	// ErrConflict: another execution has the key of next. ErrInvalid: the execution may not be retried. By is who asked,
	// for the event.
	Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (Submitted, error)

	// Due returns the executions that a router may place now, best first.
	Due(ctx context.Context, q DueQuery) (DuePage, error)
	// Overdue returns executions past a deadline, oldest first, without parameters and results.
	Overdue(ctx context.Context, q OverdueQuery) ([]messages.Execution, error)
	// Live returns a pool's scheduled, running and cancelling executions, for a router that takes over.
	Live(ctx context.Context, pool string) ([]messages.Execution, error)

	// Get returns one execution complete, or ErrNotFound.
	Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	// List returns one page without parameters and results, and with the first ErrorListed bytes of each error. It looks at no more than ListWalk executions, for about ListFor.
	List(ctx context.Context, f Filter) (Page, error)
	// Chain returns the execution's whole retry chain, oldest first, as a list has them. Where Purge has deleted the first of a chain, its id
	// still gives the others.
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	// Events returns the events of the execution, oldest first: EventsAll at most.
	Events(ctx context.Context, id messages.ExecutionID) ([]Event, error)
	// EventsBetween returns the events of an execution in a range of time, oldest first. It looks at no more than EventsWalk of them.
	EventsBetween(ctx context.Context, q EventQuery) (EventPage, error)
	// Output returns the output of the execution's process; empty if there is none.
	Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error)
	// Depths counts the executions that are not terminal, by pool and status, at the time of the call. It counts waiting
	// executions by an index, up to DepthMax for each pool, priority and kind of waiting (due, behind others of its
	// session, until run_at), and sets More above that. A caller that asks often keeps the answer, as a node does.
	Depths(ctx context.Context) ([]Depth, error)
}

// Submitted is one stored execution. Existing: it was stored before, under the same idempotency key.
type Submitted struct {
	Execution messages.Execution
	Existing  bool
}

// ConflictError names the key and the execution that holds it. errors.Is(err, ErrConflict) holds.
type ConflictError struct {
	Key    string
	Holder messages.ExecutionID
}

func (e *ConflictError) Error() string {
	return "idempotency key " + e.Key + ": used with a different request by execution " + e.Holder.String()
}

// Is makes the error an ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnansweredError is of executions that the store was to keep and has not answered in time: it may have stored them, all or none.
type UnansweredError struct {
	First messages.ExecutionID
	N     int
	Err   error
}

// MayBeStored adds to the error of a submission without an answer which executions the store may have stored.
func MayBeStored(executions []messages.Execution, err error) error {
	if len(executions) == 0 || !Unanswered(err) && !errors.Is(err, context.Canceled) {
		return err
	}
	return &UnansweredError{First: executions[0].ID, N: len(executions), Err: err}
}

func (e *UnansweredError) Error() string {
	if e.N > 1 {
		return fmt.Sprintf("%d executions, the first %s, may be stored all the same: ask for it by its id, or repeat the call with the same idempotency keys: %s", e.N, e.First, e.Err)
	}
	return fmt.Sprintf("execution %s may be stored all the same: ask for it by its id, or repeat the call with the same idempotency key: %s", e.First, e.Err)
}

// Unwrap returns why there was no answer.
func (e *UnansweredError) Unwrap() error { return e.Err }

// DueQuery asks for the executions of one pool that may start now: requested, run_at reached.
type DueQuery struct {
	Pool string
	// Limit bounds the executions without a session (or of affinity hint), in order of priority, then seq.
	Limit int
	// Heads bounds the session heads. The head of a session with affinity strict or strict_fail is its earliest due
	// execution (Head), if none of the session is scheduled, running or cancelling. An execution with run_at ahead does
	// not hold its session, unless it was given back: then it keeps its place during the back-off. Heads come in order of
	// their own priority, then seq.
	//
	// Heads also bounds, separately, the strict_fail executions that find their session busy: all that are due and no
	// head, because another execution of the session is scheduled, running or cancelling, or an earlier due one is strict
	// or strict_fail. They have Behind set, in no order: the router fails them at once with session_busy.
	Heads int
	// AfterPriority and AfterSeq, where AfterSeq > 0, continue the part without sessions after that position.
	AfterPriority messages.Priority
	AfterSeq      int64
}

// DuePage is one answer to a DueQuery.
type DuePage struct {
	Candidates []messages.Candidate // both parts, merged by priority, then seq
	More       bool                 // a bound limited the answer
	// NextAt is the earliest run_at ahead; zero: none.
	NextAt time.Time
}

// Deadline names the sweeps.
type Deadline uint8

// The deadlines that Overdue knows.
const (
	ClaimBy  Deadline = iota + 1 // scheduled, and claim_by has passed
	StartBy                      // first placed longer than Age ago, and never started
	QueueBy                      // requested or scheduled, and queue_deadline has passed
	WorkerBy                     // requested, and its wait for any worker has passed
	RunBy                        // running or cancelling, and run_deadline + Age has passed
	Orphaned                     // scheduled, running or cancelling on an incarnation that is dead or unknown
)

// OverdueQuery asks for executions past a deadline.
type OverdueQuery struct {
	Deadline Deadline
	Age      time.Duration // see the deadlines
	After    OverdueCursor // zero: from the oldest
	Limit    int
}

// OverdueCursor is a position in the order of executions past a deadline: after one of them.
type OverdueCursor struct {
	At  time.Time // the deadline, or when its time began
	Seq int64
}

// CursorOf returns the position after an execution that Overdue returned.
func CursorOf(d Deadline, e *messages.Execution) OverdueCursor {
	c := OverdueCursor{Seq: e.Seq}
	switch d {
	case ClaimBy:
		c.At = e.ClaimBy
	case StartBy:
		c.At = e.FirstPlacedAt
	case QueueBy:
		c.At = e.QueueDeadline
	case WorkerBy:
		c.At = e.WorkerDeadline
	case RunBy:
		c.At = e.RunDeadline
	case Orphaned:
		c.At = e.ScheduledAt
	}
	return c
}

// Event is one stored event of an execution.
type Event struct {
	At      time.Time        `json:"at"`
	Attempt messages.Attempt `json:"attempt"`
	Kind    string           `json:"kind"` // the change's name, or stale_write, dead_letter, retry, late_failure
	From    messages.Status  `json:"from"`
	To      messages.Status  `json:"to"`
	Reason  string           `json:"reason,omitempty"`
	Worker  string           `json:"worker,omitempty"`
	By      string           `json:"by,omitempty"` // who asked for it; empty: nobody
	// Of a take_back or rescue, the placement that it ended: the worker's node and generation, since when the execution was
	// due, when it was placed, and, of a rescue, when the run began.
	Incarnation messages.Incarnation `json:"incarnation,omitzero"`
	Generation  messages.Generation  `json:"generation,omitempty"`
	RunAt       time.Time            `json:"run_at,omitzero"`
	ScheduledAt time.Time            `json:"scheduled_at,omitzero"`
	StartedAt   time.Time            `json:"started_at,omitzero"`
}

// OfAnyVersion returns the event in this version's form. The previous version stored who asked for a cancel as its
// reason.
func (e Event) OfAnyVersion() Event {
	if e.Kind == "cancel" && e.By == "" {
		e.Reason, e.By = "", e.Reason
	}
	return e
}

// EventQuery selects events of one execution.
type EventQuery struct {
	Execution messages.ExecutionID
	From, To  time.Time // From <= at < To; zero: no bound
	Newest    bool      // the newest of them where there are more than Limit; else the oldest
	Limit     int       // 1 to EventsMax; 0: EventsMax
}

// Size is the number of events of a page.
func (q *EventQuery) Size() int {
	if q.Limit <= 0 {
		return EventsMax
	}
	return min(q.Limit, EventsMax)
}

// EventPage has events of one execution, oldest first. Left is how many others match. More says that there may be yet more, of which a
// walk does not know.
type EventPage struct {
	Events []Event
	Left   int
	More   bool
}

// Bounds of EventsBetween: the events of a page, and those that it looks at, from the newest or the oldest one on. And of Events.
const (
	EventsMax  = 2000
	EventsWalk = 100_000
	EventsAll  = 10_000
)

// Depth counts one pool's executions in one status.
type Depth struct {
	Pool   string
	Status messages.Status
	Count  int
	NotDue int       // of Count: those that wait for their time; one whose time has just come is among them until its pool's router has looked
	Oldest time.Time // RequestedAt of the oldest, of waiting ones of those that are due; zero: none is
	More   bool      // there are more than Count
	// Since is, of Scheduled executions, the earliest ScheduledAt. Of waiting ones it is the RunAt of the one without a session that is due and
	// next in its priority, the earliest of all priorities. Zero: there is none, or the status is another.
	Since time.Time
}

// OldestOf is the Oldest of two depths together.
func OldestOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// DepthMax bounds the counting of Depths.
const DepthMax = 100_000

// Purged is the result of one Purge.
type Purged struct {
	Rows int  // deleted executions, dead letters, worker events, journal entries, rollups of minutes and hours, keyframes, operations, sessions and nodes
	More bool // the call met its bounds: another one may delete more
}

// Purge says what may be deleted. A zero time keeps that kind.
type Purge struct {
	FinishedBefore    time.Time // terminal executions with all their data
	DeadLettersBefore time.Time
	EventsBefore      time.Time // worker events
	JournalBefore     time.Time // entries of the journal, keyframes, and operations that have ended or were never started
	MinutesBefore     time.Time // rollups of minutes; a whole hour, so that none is left with some of its minutes
	HoursBefore       time.Time // rollups of hours, and the numbers of what was purged
	SessionsBefore    time.Time // unbound sessions, unused since
	NodesBefore       time.Time // dead incarnations and their workers
	Limit             int       // rows of each kind in one call
}
