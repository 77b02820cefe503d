package store

import (
	"bytes"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// This file, decide_changes.go and rules.go are the state machine of executions. Like the packages of rules/ they are
// pure: they decide by their arguments alone. An adapter reads a row, asks Decide, and writes the decision by a
// statement that compares with the row as it was read. Or it makes a change by a statement of its own, which storetest
// compares with Decide.

// Last is the last change of a row, as stores keep it in last_change. The numbers are stored.
type Last uint8

// The changes by number.
const (
	LastSubmit Last = iota
	LastPlace
	LastTakeBack
	LastClaim
	LastFinish
	LastEnd
	LastCancel
	LastRescue
)

// Row is an execution with the data that a store keeps for its decisions.
type Row struct {
	messages.Execution
	Last Last
}

// Strict reports whether the session's executions run one after the other.
func (r *Row) Strict() bool {
	return r.Session != "" && (r.Affinity == messages.AffinityStrict || r.Affinity == messages.AffinityStrictFail)
}

// Facts are the other inputs of some decisions: the execution's session (if NeedsSession) and the claimer's lease.
type Facts struct {
	Held Session // the execution's session; zero: there is none yet
	// Busy: an execution of the session is scheduled, running or cancelling. It matters for affinity strict and strict_fail.
	Busy bool
	// Fenced: the store evaluates leases, and the claimer's is not live.
	Fenced bool
}

// Effect is the effect of a change on the row of the execution's session.
type Effect uint8

// The effects on a session.
const (
	// SessionBound: the session is bound to the placement's worker and epoch.
	SessionBound Effect = iota + 1
	// SessionStarted: a run with the session's state begins. The store keeps the epoch of the first such run.
	SessionStarted
	// SessionFinished: finished_epoch rises to the run's epoch, Runs is incremented if LeavesState(status), and TouchedAt is
	// set. With affinity hint this happens only where the session is bound to the run's worker: a run on another worker
	// says nothing about the session's state.
	SessionFinished
)

// Decision is the verdict on a change and, if Applied, all that a store must write in one transaction.
type Decision struct {
	Verdict Verdict
	Err     error // with Refused
	Next    Row   // after the change, or as found. It has the parameters of the given row
	// Event is the event to store, also if Stale; Kind "": none.
	Event Event
	// Straight: the event is a step of the straight path (placed, claimed, finished). It is stored only where all events
	// are stored.
	Straight bool
	// Retry is the execution to store as the retry; nil: none. It has no idempotency key. It takes the row's parameters
	// unless it has its own, the row's worker as the one to avoid, and Next.CrashCount. RetryEvent is its event.
	Retry *messages.Execution
	// Output is the output of the run; empty: nothing to store.
	Output  messages.Output
	Session Effect // effect on the execution's session; 0: none
	// Carry: the result includes the execution, see Result.Execution.
	Carry bool
}

// RetryEvent is the event of a decision with a Retry.
func (d *Decision) RetryEvent() Event {
	v := Event{At: d.Next.FinishedAt, Attempt: d.Next.Attempt, Kind: "retry", From: d.Event.From, To: d.Next.Status}
	v.Reason, v.Worker = d.Next.RetriedAs.String(), string(d.Next.WorkerID)
	return v
}

// Decide decides a change of the row. A nil row is an execution that does not exist. Facts may be nil if the change
// needs none. Decide does not change its arguments. A change that is repeated after it was Applied is Already.
func Decide(row *Row, facts *Facts, c Change, now time.Time) (d Decision) {
	if row == nil {
		d.Verdict = Missing
		return d
	}
	if facts == nil {
		facts = &Facts{}
	}
	d.Next = *row
	switch c := c.(type) {
	case *Place:
		d.place(row, facts, c, now)
	case *TakeBack:
		d.takeBack(row, c, now)
	case *Claim:
		d.claim(row, facts, c, now)
	case *Finish:
		d.finish(row, c, now)
	case *End:
		d.end(row, c, now)
	case *Cancel:
		d.cancel(row, c, now)
	case *Rescue:
		d.rescue(row, c, now)
	default:
		d.refuse(c, fmt.Errorf("unknown change %T: %w", c, ErrInvalid))
	}
	return d
}

// NeedsSession reports whether the decision needs the execution's session in Facts.
func NeedsSession(row *Row, c Change) bool {
	switch c := c.(type) {
	case *Place:
		return c.Session != nil && row.Session != ""
	case *Claim:
		return row.hasState()
	}
	return false
}

// NeedsOutcome reports whether the decision needs the row's result and error.
func NeedsOutcome(row *Row, c Change) bool {
	if !row.Status.Terminal() {
		return false
	}
	switch c := c.(type) {
	case *Finish:
		return row.Attempt == c.Attempt && row.Last == LastFinish
	case *End:
		return row.Attempt == c.Attempt && row.Last == LastEnd
	case *Cancel:
		return true
	}
	return false
}

// hasState reports whether the placement told the run that it has the session's state.
func (r *Row) hasState() bool { return r.Session != "" && r.SessionEpoch > 0 && r.SessionHit }

// ChangedAttempt returns the attempt that a change names. Cancel names none.
func ChangedAttempt(c Change) messages.Attempt {
	switch c := c.(type) {
	case *Place:
		return c.Attempt
	case *TakeBack:
		return c.Attempt
	case *Claim:
		return c.Attempt
	case *Finish:
		return c.Attempt
	case *End:
		return c.Attempt
	case *Rescue:
		return c.Attempt
	}
	return 0
}

// refuse rejects the change with err and leaves the row as it is.
func (d *Decision) refuse(c Change, err error) {
	d.Verdict, d.Err = Refused, fmt.Errorf("%s execution %s: %w", c.Name(), d.Next.ID, err)
}

// mismatch decides a change that does not fit the row: Already, without an event, if the row shows this change's own work
// (mine), else Stale.
func (d *Decision) mismatch(c Change, mine bool, now time.Time) {
	if mine {
		d.Verdict = Already
		return
	}
	d.Verdict = Stale
	d.Event = Event{At: now, Attempt: ChangedAttempt(c), Kind: StaleWrite, From: d.Next.Status, To: d.Next.Status,
		Reason: c.Name(), Worker: string(changedWorker(&d.Next, c))}
}

// changedWorker names the worker of the placement that a stale change is about. The row's worker may be that of a later attempt.
// Empty: neither the change nor the row says.
func changedWorker(row *Row, c Change) messages.WorkerID {
	own := row.Attempt == ChangedAttempt(c)
	switch c := c.(type) {
	case *Place:
		return c.WorkerID
	case *Claim:
		if c.WorkerID != "" {
			return c.WorkerID
		}
		own = own && row.Worker == c.Worker
	case *Finish:
		if c.WorkerID != "" {
			return c.WorkerID
		}
	}
	if own {
		return row.WorkerID
	}
	return ""
}

// StaleWrite is the kind of the event of a stale change. A store keeps at most StaleWritesMax of them for one
// execution: a party that repeats a change without end cannot fill the store.
const (
	StaleWrite     = "stale_write"
	StaleWritesMax = 64
)

// takeEffect records that the change takes effect. The caller has completed d.Next.
func (d *Decision) takeEffect(row *Row, c Change, now time.Time, reason, by string) {
	d.Verdict = Applied
	d.Event = Event{At: now, Attempt: d.Next.Attempt, Kind: c.Name(), From: row.Status, To: d.Next.Status,
		Reason: reason, Worker: string(row.WorkerID), By: by}
}

// endPlacement adds to the event which placement the change ended: the row does not keep it.
func (d *Decision) endPlacement(row *Row, started time.Time) {
	v := &d.Event
	v.Incarnation, v.Generation, v.RunAt = row.Worker.Incarnation, row.Generation, row.RunAt
	v.ScheduledAt, v.StartedAt = row.ScheduledAt, started
}

// requeue returns the execution to requested and clears its worker.
func (d *Decision) requeue(delay time.Duration, now time.Time) {
	n := &d.Next
	n.Status, n.RunAt = messages.Requested, now.Add(max(delay, 0)).Truncate(time.Microsecond)
	n.Worker, n.WorkerID, n.Generation, n.PlacedBy = messages.WorkerKey{}, "", 0, messages.Incarnation{}
	n.ScheduledAt, n.ClaimBy, n.RunDeadline = time.Time{}, time.Time{}, time.Time{}
	n.SessionEpoch, n.SessionLost, n.SessionHit = 0, false, false
}

// conclude gives the execution its outcome.
func (d *Decision) conclude(o messages.Outcome, now time.Time) {
	n := &d.Next
	n.Status, n.FinishedAt, n.Result, n.Error = o.Status, now, o.Result, o.Error
	d.Carry = true
}

// storableRetry returns the retry as it is stored, without its idempotency key: the key stays with the submitted execution.
// The error says why the retry cannot be stored.
func storableRetry(retry *messages.Execution) (*messages.Execution, error) {
	if retry == nil {
		return nil, nil
	}
	keyless := *retry
	keyless.IdempotencyKey, keyless.KeyOwner = "", ""
	if keyless.ID.IsZero() {
		return nil, fmt.Errorf("its retry: id: %w: it is zero", ErrInvalid)
	}
	if err := Check(&keyless); err != nil {
		return nil, fmt.Errorf("its retry: %w", err)
	}
	return &keyless, nil
}

// CountFrom has the times of a retry count from when it is stored, and not from when it was judged: the store's clock may have been set since
// then, and a node estimates it. A retry of a caller who does not say when it was judged keeps its times.
func CountFrom(retry *messages.Execution, now time.Time) {
	if retry.RequestedAt.IsZero() {
		return
	}
	moved := now.Sub(retry.RequestedAt)
	for _, t := range []*time.Time{&retry.RunAt, &retry.QueueDeadline} {
		if !t.IsZero() {
			*t = t.Add(moved)
		}
	}
}

// addRetry adds the retry to the decision.
func (d *Decision) addRetry(retry *messages.Execution) {
	if retry != nil {
		d.Retry, d.Next.RetriedAs = retry, retry.ID
	}
}

// sameOutcome reports whether the row has this outcome, whichever status the run ended from.
func (r *Row) sameOutcome(o messages.Outcome) bool {
	for _, from := range []messages.Status{messages.Running, messages.Cancelling} {
		would := RecordedOutcome(from, o)
		if would.Status == r.Status && bytes.Equal(would.Result, r.Result) && bytes.Equal(EncodeError(would.Error), EncodeError(r.Error)) {
			return true
		}
	}
	return false
}

// reasonOf returns the code of an error, for events.
func reasonOf(e *messages.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}
