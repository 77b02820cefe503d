package store

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Each method decides one kind of change. Next, in rules.go, has the edges.

func (d *Decision) place(row *Row, facts *Facts, c *Place, now time.Time) {
	to, ok := Next(c.Name(), row.Status)
	if !ok || row.Attempt != c.Attempt {
		mine := row.Attempt == c.Attempt+1 && row.Worker == c.Worker && row.PlacedBy == c.PlacedBy &&
			row.Status >= messages.Scheduled && !row.Status.Terminal()
		d.mismatch(c, mine, now)
		return
	}
	if err := checkWorker(row, c); err != nil {
		d.refuse(c, err)
		return
	}
	if err := checkSession(row, facts, c); err != nil {
		d.refuse(c, err)
		return
	}
	n := &d.Next
	n.Status, n.Attempt, n.Last = to, row.Attempt+1, LastPlace
	n.Worker, n.WorkerID, n.Generation, n.PlacedBy = c.Worker, c.WorkerID, 0, c.PlacedBy
	n.ScheduledAt, n.ClaimBy = now, now.Add(c.ClaimWithin).Truncate(time.Microsecond)
	if row.FirstPlacedAt.IsZero() {
		n.FirstPlacedAt = now
	}
	n.SessionEpoch, n.SessionLost, n.SessionHit = 0, false, false
	if u := c.Session; u != nil {
		n.SessionEpoch, n.SessionLost, n.SessionHit = u.Epoch, u.Lost, u.Hit
		if u.Bind {
			d.Session = SessionBound
		}
	}
	d.takeEffect(row, c, now, "", "")
	d.Straight, d.Event.Worker = true, string(c.WorkerID)
}

// checkWorker returns why the placement's worker may not get the execution, or nil.
func checkWorker(row *Row, c *Place) error {
	switch {
	case c.Worker.Incarnation.IsZero():
		return fmt.Errorf("worker %s has no incarnation: %w", c.WorkerID, ErrInvalid)
	case c.Generation != 0:
		return fmt.Errorf("worker %s claims with its placement: %w: only a new execution is claimed as it is stored", c.WorkerID, ErrInvalid)
	case c.Worker.Pool != row.Pool:
		return fmt.Errorf("worker %s of pool %q cannot take work of pool %q: %w", c.WorkerID, c.Worker.Pool, row.Pool, ErrInvalid)
	}
	return nil
}

// checkSession returns why the session does not allow the placement, or nil. Every such error is an ErrSession.
func checkSession(row *Row, facts *Facts, c *Place) error {
	u, held := c.Session, &facts.Held
	if u == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("session %q: %w: "+format, append([]any{u.Session, ErrSession}, args...)...)
	}
	switch {
	case u.Session != row.Session || u.Pool != row.Pool:
		return refuse("the execution belongs to session %q of pool %q", row.Session, row.Pool)
	case row.Strict() && facts.Busy:
		return refuse("another execution of it is under way")
	case u.Bind && u.Epoch <= held.Epoch:
		return refuse("epoch %d is not above the stored %d", u.Epoch, held.Epoch)
	case u.Bind, row.Affinity == messages.AffinityHint && !u.Hit:
		return nil
	case held.Worker != c.Worker || held.Epoch != u.Epoch:
		return refuse("it is not bound to this worker with epoch %d; the stored epoch is %d", u.Epoch, held.Epoch)
	}
	return nil
}

func (d *Decision) takeBack(row *Row, c *TakeBack, now time.Time) {
	if _, ok := Next(c.Name(), row.Status); !ok || !row.stands(c.Attempt) {
		d.mismatch(c, row.Status == messages.Requested && row.Attempt == c.Attempt && row.Last == LastTakeBack, now)
		return
	}
	d.Next.Last, d.Next.Attempt, d.Next.TakeBacks = LastTakeBack, c.Attempt, row.TakeBacks+1
	if row.FirstPlacedAt.IsZero() {
		d.Next.FirstPlacedAt = now // at the latest
	}
	d.requeue(c.Delay, now)
	if c.Delay <= 0 && row.RunAt.Before(now) {
		d.Next.RunAt = row.RunAt // it has waited since then
	}
	d.takeEffect(row, c, now, c.Reason, c.By)
	d.endPlacement(row, time.Time{})
}

// stands reports whether the attempt is one that no worker has claimed: it is placed, or it may have been handed over directly.
func (r *Row) stands(attempt messages.Attempt) bool {
	if r.Status == messages.Scheduled {
		return r.Attempt == attempt
	}
	return r.Attempt+1 == attempt && r.Session == ""
}

// claims reports whether the claim is of the row's placement, or of one that was handed over directly.
func (c *Claim) claims(row *Row) bool {
	if !row.stands(c.Attempt) {
		return false
	}
	if row.Status == messages.Scheduled {
		return row.Worker == c.Worker
	}
	return !c.PlacedBy.IsZero() && !c.Worker.Incarnation.IsZero() && row.Pool == c.Worker.Pool
}

func (d *Decision) claim(row *Row, facts *Facts, c *Claim, now time.Time) {
	to, ok := Next(c.Name(), row.Status)
	if !ok || !c.claims(row) {
		mine := row.Status.Started() && row.Attempt == c.Attempt && row.Worker == c.Worker && row.Generation == c.Generation
		d.Carry = mine
		d.mismatch(c, mine, now)
		return
	}
	switch held := &facts.Held; {
	case row.hasState() && (held.Worker != row.Worker || held.Epoch != row.SessionEpoch):
		// The process that had the state is gone, and the run would not be told that state was lost.
		d.refuse(c, fmt.Errorf("session %q: %w: its binding with epoch %d has ended", row.Session, ErrSession, row.SessionEpoch))
		return
	case facts.Fenced:
		d.refuse(c, fmt.Errorf("%s: %w", c.Worker.Incarnation, ErrFenced))
		return
	}
	n := &d.Next
	if row.Status != messages.Scheduled {
		n.Attempt, n.Worker, n.WorkerID, n.PlacedBy = c.Attempt, c.Worker, c.WorkerID, c.PlacedBy
		if row.FirstPlacedAt.IsZero() {
			n.FirstPlacedAt = now
		}
	}
	n.Status, n.Last, n.Generation, n.TakeBacks = to, LastClaim, c.Generation, 0
	n.StartedAt, n.RunDeadline = now, time.Time{}
	if row.Timeout > 0 {
		n.RunDeadline = now.Add(row.Timeout)
	}
	if row.hasState() {
		d.Session = SessionStarted
	}
	d.takeEffect(row, c, now, "", "")
	d.Straight, d.Carry, d.Event.Worker = true, true, string(n.WorkerID)
}

func (d *Decision) finish(row *Row, c *Finish, now time.Time) {
	if err := CheckOutcome(&c.Outcome); err != nil {
		d.refuse(c, err)
		return
	}
	if _, ok := Next(c.Name(), row.Status); !ok || row.Attempt != c.Attempt {
		d.mismatch(c, row.Attempt == c.Attempt && row.Last == LastFinish && row.Status.Terminal() && row.sameOutcome(c.Outcome), now)
		return
	}
	asked := c.Retry
	if row.Status == messages.Cancelling {
		asked = nil // a cancelled execution is not retried
	}
	retry, err := storableRetry(asked)
	if err != nil {
		d.refuse(c, err)
		return
	}
	d.Next.Last, d.Output = LastFinish, c.Output
	if c.Outcome.Crash() {
		d.Next.CrashCount++
	}
	d.conclude(RecordedOutcome(row.Status, c.Outcome), now)
	d.addRetry(retry)
	if row.Session != "" && row.SessionEpoch > 0 && !c.NeverRan {
		d.Session = SessionFinished
	}
	if c.Restored || c.NeverRan {
		d.Next.SessionLost = false
	}
	d.takeEffect(row, c, now, reasonOf(d.Next.Error), c.By)
	plain := d.Next.Status == messages.Completed || d.Next.Status == messages.Failed
	d.Straight = plain && row.Status == messages.Running && c.By == ""
}

func (d *Decision) end(row *Row, c *End, now time.Time) {
	if err := CheckOutcome(&c.Outcome); err != nil {
		d.refuse(c, err)
		return
	}
	if _, ok := Next(c.Name(), row.Status); !ok || row.Attempt != c.Attempt {
		d.mismatch(c, row.Attempt == c.Attempt && row.Last == LastEnd && row.Status.Terminal() && row.sameOutcome(c.Outcome), now)
		return
	}
	retry, err := storableRetry(c.Retry)
	if err != nil {
		d.refuse(c, err)
		return
	}
	d.Next.Last, d.Next.SessionLost = LastEnd, false // no code was told of a loss
	d.conclude(c.Outcome, now)
	d.addRetry(retry)
	d.takeEffect(row, c, now, reasonOf(d.Next.Error), "")
}

func (d *Decision) cancel(row *Row, c *Cancel, now time.Time) {
	d.Carry = true
	to, ok := Next(c.Name(), row.Status)
	if !ok {
		d.mismatch(c, true, now)
		return
	}
	d.Next.Last, d.Next.Status = LastCancel, to
	if to != messages.Cancelling {
		d.Next.SessionLost = false
		d.conclude(messages.Outcome{Status: to, Error: &messages.Error{Code: messages.CodeCancelled, Message: "cancelled before it started"}}, now)
	}
	d.takeEffect(row, c, now, "", c.By)
}

func (d *Decision) rescue(row *Row, c *Rescue, now time.Time) {
	if _, ok := Next(c.Name(), row.Status); !ok || row.Attempt != c.Attempt {
		d.mismatch(c, row.Attempt == c.Attempt && row.Last == LastRescue, now)
		return
	}
	d.Next.Last = LastRescue
	if !c.Unstarted {
		d.Next.CrashCount++
	}
	if row.Status == messages.Running {
		d.requeue(c.Delay, now)
	} else {
		lost := messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost, Message: c.Reason, FailedBy: FailedByRescue}}
		d.conclude(RecordedOutcome(row.Status, lost), now)
	}
	d.takeEffect(row, c, now, c.Reason, c.By)
	d.endPlacement(row, row.StartedAt)
}
