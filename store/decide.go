package store

import (
	"bytes"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// This file, decide_changes.go and rules.go are the state machine of executions. They are pure, as the packages of rules/ are: they decide by their
// arguments alone. An adapter reads a row, asks Decide, and writes what it says by a statement that compares what was read;
// or it makes a change by a statement of its own, which storetest compares with Decide.

// Last is the change that brought a row to where it stands, as stores keep it in last_change. The numbers are stored.
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

// Row is an execution with what a store keeps beside it to judge changes.
type Row struct {
	messages.Execution
	Last Last
}

// Strict reports whether the execution takes turns with the others of its session.
func (r *Row) Strict() bool {
	return r.Session != "" && (r.Affinity == messages.AffinityStrict || r.Affinity == messages.AffinityStrictFail)
}

// Facts are what some changes are decided by beside the execution's own row: its session where AsksSession says so, and the
// claimer's lease.
type Facts struct {
	Held Session // the execution's session as it stands; zero: there is none yet
	// Busy: an execution of the session is scheduled, running or cancelling. It matters for affinity strict and strict_fail.
	Busy bool
	// Fenced: the store evaluates leases, and the claimer's is not live.
	Fenced bool
}

// Effect is what a change does to the row of the execution's session.
type Effect uint8

// The effects on a session.
const (
	// SessionBound: the binding is made or moved to the placement's worker and epoch.
	SessionBound Effect = iota + 1
	// SessionStarted: a run with the session's state begins; the first epoch of which that holds is kept.
	SessionStarted
	// SessionFinished: finished_epoch rises to that of the run, one run more is counted where Leaves holds of the status, and
	// the session is touched. For affinity hint this happens only where the session is bound to the run's worker: one that
	// missed says nothing of the session's state.
	SessionFinished
)

// Decision is what becomes of a change: the verdict and, where it is Applied, all that a store has to write in one
// transaction.
type Decision struct {
	Verdict Verdict
	Err     error // with Refused
	Next    Row   // after the change, or as found. The parameters are as in the row that was given
	// Event is what is kept of the change, also where it is Stale; Kind "": nothing.
	Event Event
	// Straight: the event is a step of the straight path, which is kept only where all events are.
	Straight bool
	// Retry is the execution to store as the one that follows; nil: none. It has no idempotency key, takes the row's parameters
	// unless it has its own, the row's worker as the one to avoid, and Next.CrashCount. An event says so, see RetryEvent.
	Retry *messages.Execution
	// Output is what the run wrote; empty: nothing to store.
	Output  messages.Output
	Session Effect // on the execution's session; 0: none
	// Carry: the result carries the execution, see Result.Execution.
	Carry bool
}

// RetryEvent is the event of a decision with a Retry.
func (d *Decision) RetryEvent() Event {
	v := Event{At: d.Next.FinishedAt, Attempt: d.Next.Attempt, Kind: "retry", From: d.Event.From, To: d.Next.Status}
	v.Reason, v.Worker = d.Next.RetriedAs.String(), string(d.Next.WorkerID)
	return v
}

// Decide says what becomes of the change of a row that stands so; row nil is an execution that does not exist. Facts may be nil where
// nothing of them matters. What it is given is not changed. A change that is repeated after it was Applied is Already.
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

// AsksSession reports whether the change is decided by the execution's session too, so that Facts must say how that stands.
func AsksSession(row *Row, c Change) bool {
	switch c := c.(type) {
	case *Place:
		return c.Session != nil && row.Session != ""
	case *Claim:
		return row.withState()
	}
	return false
}

// AsksOutcome reports whether the change is answered with the row's result and error, so that the row must have them.
func AsksOutcome(row *Row, c Change) bool {
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

// withState reports whether the placement was promised the session's state.
func (r *Row) withState() bool { return r.Session != "" && r.SessionEpoch > 0 && r.SessionHit }

// ChangedAttempt is the attempt that a change names; a Cancel names none.
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

// refuse leaves the row as it is, for what err says.
func (d *Decision) refuse(c Change, err error) {
	d.Verdict, d.Err = Refused, fmt.Errorf("%s execution %s: %w", c.Name(), d.Next.ID, err)
}

// miss is for a change that finds the execution elsewhere, or its own work (mine). The latter is no event.
func (d *Decision) miss(c Change, mine bool, now time.Time) {
	if mine {
		d.Verdict = Already
		return
	}
	d.Verdict = Stale
	d.Event = Event{At: now, Attempt: ChangedAttempt(c), Kind: StaleWrite, From: d.Next.Status, To: d.Next.Status,
		Reason: c.Name(), Worker: string(d.Next.WorkerID)}
}

// StaleWrite is the kind of the event of a change that came too late. A store keeps at most StaleWritesMax of one execution, so that a party that
// repeats without end cannot fill it.
const (
	StaleWrite     = "stale_write"
	StaleWritesMax = 64
)

// made is for a change that takes effect: d.Next is complete.
func (d *Decision) made(row *Row, c Change, now time.Time, reason, by string) {
	d.Verdict = Applied
	d.Event = Event{At: now, Attempt: d.Next.Attempt, Kind: c.Name(), From: row.Status, To: d.Next.Status,
		Reason: reason, Worker: string(row.WorkerID), By: by}
}

// requeue puts the execution back to requested, with no trace of its worker.
func (d *Decision) requeue(delay time.Duration, now time.Time) {
	n := &d.Next
	n.Status, n.RunAt = messages.Requested, now.Add(max(delay, 0)).Truncate(time.Microsecond)
	n.Worker, n.WorkerID, n.Generation, n.PlacedBy = messages.WorkerKey{}, "", 0, messages.Incarnation{}
	n.ScheduledAt, n.ClaimBy, n.RunDeadline = time.Time{}, time.Time{}, time.Time{}
	n.SessionEpoch, n.SessionLost, n.SessionHit = 0, false, false
}

// conclude gives the execution an outcome.
func (d *Decision) conclude(o messages.Outcome, now time.Time) {
	n := &d.Next
	n.Status, n.FinishedAt, n.Result, n.Error = o.Status, now, o.Result, o.Error
	d.Carry = true
}

// mayFollow returns the retry as it is stored, without its key, which stays with the execution that was submitted under it. The error
// says what keeps it from being stored.
func mayFollow(retry *messages.Execution) (*messages.Execution, error) {
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

// follow names the execution that follows.
func (d *Decision) follow(retry *messages.Execution) {
	if retry != nil {
		d.Retry, d.Next.RetriedAs = retry, retry.ID
	}
}

// sameOutcome reports whether the outcome is the one that the row has, whichever status the run ended from.
func (r *Row) sameOutcome(o messages.Outcome) bool {
	for _, from := range []messages.Status{messages.Running, messages.Cancelling} {
		would := Settle(from, o)
		if would.Status == r.Status && bytes.Equal(would.Result, r.Result) && bytes.Equal(EncodeError(would.Error), EncodeError(r.Error)) {
			return true
		}
	}
	return false
}

// reasonOf is the code of an error, as events have it.
func reasonOf(e *messages.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}
