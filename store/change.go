package store

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Change is one legal change of an execution. The set is closed: Place, TakeBack, Claim, Finish, End, Cancel, Rescue.
type Change interface {
	// Name is the change's name in events and metrics.
	Name() string
	// Target is the execution.
	Target() messages.ExecutionID
	isChange()
}

// Place puts a requested execution on a worker's queue: requested or scheduling → scheduled, attempt + 1.
type Place struct {
	ID          messages.ExecutionID
	Attempt     messages.Attempt // before the change
	Worker      messages.WorkerKey
	WorkerID    messages.WorkerID
	PlacedBy    messages.Incarnation
	ClaimWithin time.Duration // claim_by = now + this
	// Session, where set, goes with the placement; for affinity strict and strict_fail the change is also refused
	// while another execution of the session is scheduled, running or cancelling.
	Session *SessionUse
}

// SessionUse is how a placement uses its session.
type SessionUse struct {
	Pool, Session string
	Epoch         int64 // of the binding that the run will see
	// Bind makes or moves the binding to the worker with Epoch, which must be above the stored epoch; false: the
	// stored binding must be (Worker, Epoch), or, for a hint that missed, is left alone.
	Bind bool
	Lost bool // told to the run
	Hit  bool // told to the run
}

// TakeBack returns an unclaimed placement: scheduled → requested, same attempt, take_backs + 1.
type TakeBack struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Reason  string
	Delay   time.Duration // run_at = now + this; 0: at once
	By      string        // who asked for it, for its event; empty: nobody
}

// Claim starts a placement: scheduled → running, for this worker and generation, with the run deadline now + timeout.
// Its Result carries the whole execution, parameters included. A claim that finds the placement running for the
// same worker and generation says Already and carries the execution too. Where leases are evaluated, a claim by an
// incarnation without a live one is Refused with ErrFenced. One of a run with a session's state whose binding is not that of
// its placement any more is Refused with ErrSession: the caller takes the placement back.
type Claim struct {
	ID         messages.ExecutionID
	Attempt    messages.Attempt
	Worker     messages.WorkerKey
	Generation messages.Generation
}

// Finish writes the outcome of a run: running → Outcome.Status. From cancelling every outcome is written
// cancelled, its result or error kept in the details, and no retry is made (see Settle).
type Finish struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Outcome messages.Outcome
	Output  messages.Output
	// Retry is the execution that follows, stored in the same transaction; nil: none.
	Retry *messages.Execution
	By    string // who ended the run, for its event; empty: nobody did, it ended by itself
}

// End writes an outcome for an execution that never started: requested, scheduling or scheduled with this attempt →
// Outcome.Status.
type End struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Outcome messages.Outcome
	Retry   *messages.Execution
}

// Cancel asks an execution to stop: requested, scheduling, scheduled → cancelled; running → cancelling. Its Result's
// Execution says which, and where a running one is. A terminal or cancelling one is left alone: Already.
type Cancel struct {
	ID messages.ExecutionID
	By string // who asks, for its event
}

// Rescue places a run again whose worker is gone: running → requested, crash_count + 1; from cancelling it
// becomes cancelled.
type Rescue struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Reason  string
	Delay   time.Duration
	// Unstarted: it is no crash, so that crash_count stays: the worker had claimed it and never started it, or was told
	// to end while it ran.
	Unstarted bool
	By        string // who ended the run, for its event; empty: nobody did
}

// Verdict is what became of a change.
type Verdict uint8

// The verdicts.
const (
	Applied Verdict = iota + 1
	Already         // this very change had been made before
	Stale           // the execution stands elsewhere; nothing was changed
	Missing         // there is no such execution
	Refused         // the row's own data or its session forbid it; Err says why
	Blocked         // another transaction holds a lock of the row; nothing was changed; Err says so. Repeat it later
)

func (v Verdict) String() string {
	names := [...]string{"none", "applied", "already", "stale", "missing", "refused", "blocked"}
	if int(v) < len(names) {
		return names[v]
	}
	return "verdict"
}

// Result is what became of one change.
type Result struct {
	Verdict Verdict
	Status  messages.Status  // after the change, or as found
	Attempt messages.Attempt // after the change, or as found
	At      time.Time        // the store's clock
	// Execution is set for Claim (Applied, Already), Cancel (unless Missing), and for Finish and End where Applied
	// (without parameters): what is told to waiters.
	Execution *messages.Execution
	Err       error // with Refused and Blocked
}

// Name implements Change.
func (c *Place) Name() string { return "place" }

// Name implements Change.
func (c *TakeBack) Name() string { return "take_back" }

// Name implements Change.
func (c *Claim) Name() string { return "claim" }

// Name implements Change.
func (c *Finish) Name() string { return "finish" }

// Name implements Change.
func (c *End) Name() string { return "end" }

// Name implements Change.
func (c *Cancel) Name() string { return "cancel" }

// Name implements Change.
func (c *Rescue) Name() string { return "rescue" }

// Target implements Change.
func (c *Place) Target() messages.ExecutionID { return c.ID }

// Target implements Change.
func (c *TakeBack) Target() messages.ExecutionID { return c.ID }

// Target implements Change.
func (c *Claim) Target() messages.ExecutionID { return c.ID }

// Target implements Change.
func (c *Finish) Target() messages.ExecutionID { return c.ID }

// Target implements Change.
func (c *End) Target() messages.ExecutionID { return c.ID }

// Target implements Change.
func (c *Cancel) Target() messages.ExecutionID { return c.ID }

// Target implements Change.
func (c *Rescue) Target() messages.ExecutionID { return c.ID }

func (*Place) isChange()    {}
func (*TakeBack) isChange() {}
func (*Claim) isChange()    {}
func (*Finish) isChange()   {}
func (*End) isChange()      {}
func (*Cancel) isChange()   {}
func (*Rescue) isChange()   {}

// Settle is the outcome that is written for a run that ended with o while the row stood in from: o itself, or, from
// cancelling, cancelled with what came kept in the details.
func Settle(from messages.Status, o messages.Outcome) messages.Outcome {
	if from != messages.Cancelling || o.Status == messages.Cancelled {
		return o
	}
	kept := struct {
		Status messages.Status `json:"status"`
		Result json.RawMessage `json:"result,omitempty"`
		Error  *messages.Error `json:"error,omitempty"`
	}{o.Status, o.Result, o.Error}
	if len(kept.Result) > 0 && !json.Valid(kept.Result) {
		kept.Result = nil
	}
	details, err := json.Marshal(kept)
	if err != nil {
		details = nil
	}
	return messages.Outcome{Status: messages.Cancelled, Error: &messages.Error{
		Code: messages.CodeCancelled, Message: "cancelled while it ran", Details: details,
	}}
}
