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
	// Generation, where set, is the worker's that claims the execution as it is stored: see SubmitPlaced. Apply refuses it.
	Generation messages.Generation
	// Session, where set, is the session's part of the placement. With affinity strict or strict_fail the store also
	// refuses the change while another execution of the session is scheduled, running or cancelling.
	Session *SessionUse
}

// SessionUse is how a placement uses its session.
type SessionUse struct {
	Pool, Session string
	Epoch         int64 // of the binding that the run will see
	// Bind makes or moves the binding to the worker with Epoch, which must exceed the stored epoch. Without Bind the
	// stored binding must be (Worker, Epoch); a hint that missed leaves it alone.
	Bind bool
	Lost bool // passed to the run
	Hit  bool // passed to the run
}

// AsStored is what SubmitPlaced does with a placement once its execution is stored: it makes it or, with a Generation, the claim
// that it carries.
func (c *Place) AsStored() Change {
	if c.Generation == 0 {
		return c
	}
	return &Claim{ID: c.ID, Attempt: c.Attempt + 1, Worker: c.Worker, Generation: c.Generation, PlacedBy: c.PlacedBy, WorkerID: c.WorkerID}
}

// TakeBack returns an unclaimed placement: scheduled → requested, same attempt, take_backs + 1. Of a placement that the
// store does not have, because it was handed to its worker directly, it uses up the attempt: requested with the attempt
// before → requested with this attempt. The worker's claim is then Stale.
type TakeBack struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Reason  string
	Delay   time.Duration // run_at = now + this; 0: at once
	By      string        // who asked for it, for its event; empty: nobody
}

// Claim starts a placement: scheduled → running, or, with PlacedBy, requested → running, for this worker and generation. The run
// deadline is now + timeout. The Result holds the whole execution with its parameters. If the placement already runs for the same worker and
// generation, the verdict is Already, and the Result holds the execution too. Where leases are evaluated, a claim by an
// incarnation without a live lease is Refused with ErrFenced. A run with a session's state is Refused with ErrSession
// if the session's binding is no longer that of the placement; the caller then takes the placement back.
type Claim struct {
	ID         messages.ExecutionID
	Attempt    messages.Attempt
	Worker     messages.WorkerKey
	Generation messages.Generation
	// PlacedBy is the router that handed the execution to the worker directly, without a Place; zero: the placement is
	// stored. Such a claim also places: requested or scheduling, with the attempt before this one → running. It is Stale
	// for an execution with a session, whose placement binds the session.
	PlacedBy messages.Incarnation
	// WorkerID is the worker's name: of the row with PlacedBy, else for the event of a claim that is Stale.
	WorkerID messages.WorkerID
}

// Finish writes the outcome of a run: running → Outcome.Status. From cancelling, every outcome is written as cancelled,
// with its result or error in the details, and no retry is stored (see RecordedOutcome).
type Finish struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Outcome messages.Outcome
	Output  messages.Output
	// Retry is the execution that follows, stored in the same transaction; nil: none.
	Retry *messages.Execution
	By    string // who ended the run, for its event; empty: it ended by itself
	// Restored: the run had the state of its session back from a snapshot. So none was lost, as its placement had to suppose. Whoever ends
	// the run of a worker that is gone cannot know it, and keeps what the placement wrote.
	Restored bool
	// NeverRan: the code never heard of the run. So it was not told of a loss, and has neither had nor left the state of its session, which
	// stands as before it.
	NeverRan bool
	// WorkerID is the worker that ran it, for the event of a finish that is Stale; empty: the row's where it has the attempt.
	WorkerID messages.WorkerID
}

// End writes an outcome for an execution that never started: requested, scheduling or scheduled with this attempt →
// Outcome.Status.
type End struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Outcome messages.Outcome
	Retry   *messages.Execution
}

// Cancel asks an execution to stop: requested, scheduling, scheduled → cancelled; running → cancelling. The Result's
// Execution has the new status and the worker of a run. A terminal or cancelling execution does not change: Already.
type Cancel struct {
	ID messages.ExecutionID
	By string // who asked, for the event
}

// Rescue places a run again after the loss of its worker: running → requested, crash_count + 1. From cancelling it
// becomes cancelled.
type Rescue struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Reason  string
	Delay   time.Duration
	// Unstarted: this is no crash, and crash_count does not change. The worker claimed the execution and never started it,
	// was told to end while it ran, or its node ended.
	Unstarted bool
	By        string // who ended the run, for its event; empty: nobody did
}

// Verdict is the outcome of a change.
type Verdict uint8

// The verdicts.
const (
	Applied Verdict = iota + 1
	Already         // the same change was made before
	Stale           // the execution has another status or attempt; nothing was changed
	Missing         // the execution does not exist
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

// Result is the answer to one change.
type Result struct {
	Verdict Verdict
	Status  messages.Status  // after the change, or as found
	Attempt messages.Attempt // after the change, or as found
	At      time.Time        // the store's clock
	// Execution is set for Claim (Applied, Already), for Cancel (unless Missing), and without parameters for an Applied
	// Finish or End. Waiters receive it.
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

// FailedByRescue is the FailedBy of a run that was to be cancelled when its worker was lost.
const FailedByRescue = "rescue"

// RecordedOutcome returns the outcome to write for a run that ended with o while its status was from. It is o, or, from
// cancelling, cancelled with the run's own outcome in the details.
func RecordedOutcome(from messages.Status, o messages.Outcome) messages.Outcome {
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
	cancelled := messages.Outcome{Status: messages.Cancelled, Error: &messages.Error{
		Code: messages.CodeCancelled, Message: "cancelled while it ran", Details: details,
	}}
	if o.Error != nil {
		cancelled.Error.FailedBy = o.Error.FailedBy
	}
	return cancelled
}
