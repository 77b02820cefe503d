// Package store is the port to the truth about executions: what can be asked of it, the guarded changes that may be
// made to an execution, and the errors that callers branch on. It holds no state; the adapters (store/sqlite,
// store/postgres) do the work and pass the suite in store/storetest.
//
// Every change of an execution is a compare-and-set on (id, status, attempt). A change that finds something else has
// no effect and says Stale. Every change may be repeated: one that finds its own work done says Already. So after
// any error, whose commit is unknown, the caller repeats.
//
// Decide is the state machine: from a row, what is known beside it, a change and the time it says what becomes of the change and all that
// is to be written. It is pure. An adapter reads the row (AsksSession and AsksOutcome say what else), asks Decide, and writes what it says
// by a compare-and-set on what was read. Where that is too slow it has statements of its own, which storetest holds to Decide. Statement
// gives its SQL the numbers of statuses and changes.
package store

import (
	"context"
	"errors"
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
	// ErrSession is why a placement was refused: its session is bound elsewhere, under another epoch, or busy. The
	// caller reads the session again.
	ErrSession = errors.New("session does not allow the placement")
	// ErrFenced is why a claim was refused: the claimer's own lease is not live, so others may have declared it dead.
	ErrFenced = errors.New("incarnation has no live lease")
	// ErrInvalid is data that the store cannot keep; the error names the field.
	ErrInvalid = errors.New("invalid")
)

// Unanswered reports whether a call failed for want of an answer: the store may be away, and the same call may succeed later.
func Unanswered(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// Store is everything a node asks of its store. All methods are safe for concurrent use. Times are the store's clock.
type Store interface {
	Executions
	Nodes
	Workers
	Sessions
	DeadLetters
	Notices
	Inbox
	Routing

	// SaveActions records the actions that this node serves, by (ref, version).
	SaveActions(ctx context.Context, actions []messages.Action) error
	// Watch tells of what other programs and nodes did, coalesced, until ctx or the store ends; the channel is closed then.
	// Hints only: any of them may be missing, so whoever needs the truth also looks by itself. A store that one node alone
	// uses gives none.
	Watch(ctx context.Context) (<-chan Hint, error)
	// Now is the store's clock, the only one that leases and heartbeats are compared with.
	Now(ctx context.Context) (time.Time, error)
	// Purge deletes, in one bounded batch of each kind, what is older than the given moments. It looks at a bounded number
	// of rows and the next call goes on behind them, so what may not go yet never hides what may. Where a kind fails, the
	// others go all the same: the error is that kind's, and what was deleted is said beside it. A session stays while an
	// execution of it waits or runs, whose state it may have to tell of.
	Purge(ctx context.Context, p Purge) (Purged, error)
	// Close ends the store's work and releases its lock. Calls in flight end with ErrClosed or their outcome.
	Close() error
}

// Executions is the part of the store that holds executions.
type Executions interface {
	// Submit stores the executions as requested, all or none, in the order given, and returns them as stored. One
	// whose idempotency key is taken by the same request (equal RequestHash) comes back as the stored one, with
	// Existing set; a different request under the key is ErrConflict (as *ConflictError), and nothing is stored.
	Submit(ctx context.Context, executions []messages.Execution) ([]Submitted, error)
	// SubmitPlaced is Submit that also makes placements in the same transaction, for a router that has workers free: each is
	// of an execution of the call, named by its id (see CheckPlaced). What it returns says what was placed: an execution
	// that was there before stays as it stood.
	SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*Place) ([]Submitted, error)
	// Apply makes the changes in order, in as few transactions as the bounds on one allow, and returns one Result each. A
	// change that is refused (stale, missing, unstorable) or blocked does not hinder the others. An error means that the
	// outcome of all is unknown; where OfPart holds, something among them may be to blame, and the others pass without it.
	Apply(ctx context.Context, changes []Change) ([]Result, error)

	// Retry stores next as the retry of an execution that has ended without a result, in one transaction and only if no
	// retry is named in its RetriedAs: otherwise it answers with the one that is, as Existing. So an execution has one
	// retry, whoever asks for it how often. Next takes the execution's parameters unless it has its own, and the crash count
	// of its chain. A key of next that another execution has is ErrConflict. What may not be retried is an ErrInvalid. By is
	// who asks, for the event.
	Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (Submitted, error)

	// Due returns what a router may place now, best first.
	Due(ctx context.Context, q DueQuery) (DuePage, error)
	// Overdue returns executions past a deadline of theirs, oldest first, without parameters and results.
	Overdue(ctx context.Context, q OverdueQuery) ([]messages.Execution, error)
	// Live returns a pool's scheduled, running and cancelling executions, for a router that takes over.
	Live(ctx context.Context, pool string) ([]messages.Execution, error)

	// Get returns one execution whole, or ErrNotFound.
	Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	// List returns one page, newest first, without parameters and results.
	List(ctx context.Context, f Filter) (Page, error)
	// Chain returns the execution's whole retry chain, oldest first, without parameters.
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	// Events returns what happened to the execution, oldest first.
	Events(ctx context.Context, id messages.ExecutionID) ([]Event, error)
	// Output returns what the execution's process wrote; empty where nothing was.
	Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error)
	// Depths counts the executions that are not terminal, by pool and status, as they stand. What waits is counted by an
	// index, up to DepthMax for each pool, priority and kind of waiting (due, in its session's line, for a time): where
	// there is more, it says so. A caller that asks often keeps the answer, as a node does.
	Depths(ctx context.Context) ([]Depth, error)
}

// Submitted is one stored execution. Existing: it was there before, under the same idempotency key.
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

// DueQuery asks for what one pool may start now: requested, run_at reached.
type DueQuery struct {
	Pool string
	// Limit bounds the executions without a session (or of affinity hint), in order of priority, then seq.
	Limit int
	// Heads bounds the session heads: of each session with affinity strict or strict_fail of which nothing is
	// scheduled, running or cancelling, its earliest due execution (Head). An execution whose run_at lies ahead does not
	// hold its session, unless it was given back and keeps its place while it is backed off. Heads come in order of their own priority, then seq. Heads also bounds, apart from those, the
	// strict_fails that find their session busy: all that are due and are no head, because another execution of the
	// session is scheduled, running or cancelling, or an earlier one of strict or strict_fail is due. They come with
	// Behind set, in place of which there is no order to keep: the router fails them at once with session_busy.
	Heads int
	// AfterPriority and AfterSeq, where AfterSeq > 0, continue the session-less part behind that position.
	AfterPriority messages.Priority
	AfterSeq      int64
}

// DuePage is one answer to a DueQuery.
type DuePage struct {
	Candidates []messages.Candidate // both parts, merged by priority, then seq
	More       bool                 // a bound cut the answer
	// NextAt is the earliest run_at that lies ahead; zero: none.
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

// OverdueCursor is a place in the order of executions past a deadline: behind one of them.
type OverdueCursor struct {
	At  time.Time // when the deadline was, or its time began
	Seq int64
}

// CursorOf is the place behind an execution that Overdue returned.
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

// Filter selects executions for a list. Zero fields select everything.
type Filter struct {
	Statuses []messages.Status
	Action   string
	Pool     string
	Session  string
	Worker   messages.WorkerID
	Label    [2]string // key, value
	Before   int64     // seq: the cursor; 0: from the newest
	Limit    int       // 1 to 1000; 0: 100
}

// Page is one page of a list. Next is the cursor of the following page; 0: this was the last. A page that would have to
// look back very far ends early: it is short or even empty, and has a Next.
type Page struct {
	Executions []messages.Execution
	Next       int64
}

// Event is one stored happening in an execution's life.
type Event struct {
	At      time.Time        `json:"at"`
	Attempt messages.Attempt `json:"attempt"`
	Kind    string           `json:"kind"` // the change's name, or stale_write, dead_letter, retry
	From    messages.Status  `json:"from"`
	To      messages.Status  `json:"to"`
	Reason  string           `json:"reason,omitempty"`
	Worker  string           `json:"worker,omitempty"`
	By      string           `json:"by,omitempty"` // who asked for it; empty: nobody, it came of itself
}

// OfAnyVersion is the event as this version writes it. Nodes of the version before wrote who asked for a cancel as its reason.
func (e Event) OfAnyVersion() Event {
	if e.Kind == "cancel" && e.By == "" {
		e.Reason, e.By = "", e.Reason
	}
	return e
}

// Depth counts one pool's executions in one status.
type Depth struct {
	Pool   string
	Status messages.Status
	Count  int
	Oldest time.Time // RequestedAt of the oldest
	More   bool      // there are more than Count
	// Placed is ScheduledAt of the one that was placed first, of those that stand Scheduled; zero for other statuses.
	Placed time.Time
}

// DepthMax is how far Depths counts.
const DepthMax = 100_000

// Purged is what one Purge has done.
type Purged struct {
	Rows int  // that were deleted, of executions, dead letters, worker events, sessions and nodes
	More bool // the call met its bounds: another one may find more
}

// Purge says what may be deleted. Zero times keep that kind.
type Purge struct {
	FinishedBefore    time.Time // terminal executions with all that belongs to them
	DeadLettersBefore time.Time
	EventsBefore      time.Time // worker events
	SessionsBefore    time.Time // unbound sessions, untouched since
	NodesBefore       time.Time // dead incarnations and their workers
	Limit             int       // rows of each kind in one call
}
