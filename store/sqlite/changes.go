package sqlite

import (
	"bytes"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func (w *writer) place(c *store.Place, r, next *record, out *store.Result) error {
	if _, ok := store.Next(c.Name(), r.Status); !ok || r.Attempt != c.Attempt {
		mine := r.Attempt == c.Attempt+1 && r.Worker == c.Worker && r.PlacedBy == c.PlacedBy &&
			r.Status >= messages.Scheduled && !r.Status.Terminal()
		return w.stale(c, c.Attempt, r, mine, out)
	}
	if c.Worker.Pool != r.Pool || c.Worker.Incarnation.IsZero() {
		return own(fmt.Errorf("worker %s of pool %q cannot take work of pool %q: %w", c.WorkerID, c.Worker.Pool, r.Pool, store.ErrInvalid))
	}
	if err := w.useSession(c, r); err != nil {
		return err
	}
	next.Status, next.Attempt, next.last = messages.Scheduled, r.Attempt+1, lastPlace
	next.Worker, next.WorkerID, next.PlacedBy = c.Worker, c.WorkerID, c.PlacedBy
	next.Generation = 0
	next.ScheduledAt, next.ClaimBy = w.now, w.now.Add(c.ClaimWithin).Truncate(time.Microsecond)
	if r.FirstPlacedAt.IsZero() {
		next.FirstPlacedAt = w.now
	}
	next.SessionEpoch, next.SessionLost, next.SessionHit = 0, false, false
	if u := c.Session; u != nil {
		next.SessionEpoch, next.SessionLost, next.SessionHit = u.Epoch, u.Lost, u.Hit
	}
	err := w.update(updatePlace, r, int64(next.Attempt), next.Worker.Incarnation[:], int64(next.Worker.Slot), text(next.WorkerID),
		id16(next.PlacedBy), micros(next.FirstPlacedAt), micros(next.ScheduledAt), micros(next.ClaimBy), next.SessionEpoch,
		flags(next.SessionLost, next.SessionHit))
	if err != nil {
		return err
	}
	if err := w.straightEvent(c.Name(), r, next); err != nil {
		return err
	}
	return w.applied(r, next, out)
}

func (w *writer) takeBack(c *store.TakeBack, r, next *record, out *store.Result) error {
	if r.Status != messages.Scheduled || r.Attempt != c.Attempt {
		mine := r.Status == messages.Requested && r.Attempt == c.Attempt && r.last == lastTakeBack
		return w.stale(c, c.Attempt, r, mine, out)
	}
	next.last, next.TakeBacks = lastTakeBack, r.TakeBacks+1
	return w.requeue(c.Name(), c.Reason, c.By, c.Delay, r, next, out)
}

// requeue puts an execution back to requested, with no trace of its worker.
func (w *writer) requeue(name, reason, by string, delay time.Duration, r, next *record, out *store.Result) error {
	next.Status, next.RunAt = messages.Requested, w.now
	if delay > 0 {
		next.RunAt = w.now.Add(delay).Truncate(time.Microsecond)
	}
	rank, err := w.rank(next)
	if err != nil {
		return err
	}
	next.rank = rank
	next.Worker, next.WorkerID, next.Generation, next.PlacedBy = messages.WorkerKey{}, "", 0, messages.Incarnation{}
	next.ScheduledAt, next.ClaimBy, next.RunDeadline = time.Time{}, time.Time{}, time.Time{}
	next.SessionEpoch, next.SessionLost, next.SessionHit = 0, false, false
	err = w.update(updateRequeue, r, next.rank, int64(next.last),
		micros(next.RunAt), int64(next.TakeBacks), int64(next.CrashCount))
	if err != nil {
		return err
	}
	if err := w.event(name, r, next, reason, string(r.WorkerID), by); err != nil {
		return err
	}
	return w.applied(r, next, out)
}

func (w *writer) claim(c *store.Claim, r, next *record, out *store.Result) error {
	if r.Status != messages.Scheduled || r.Attempt != c.Attempt || r.Worker != c.Worker {
		mine := r.Status.Started() && r.Attempt == c.Attempt && r.Worker == c.Worker && r.Generation == c.Generation
		if err := w.stale(c, c.Attempt, r, mine, out); err != nil || !mine {
			return err
		}
		return w.carry(r, out)
	}
	if err := w.boundStill(r); err != nil {
		return err
	}
	next.Status, next.last, next.Generation, next.TakeBacks = messages.Running, lastClaim, c.Generation, 0
	next.StartedAt, next.RunDeadline = w.now, time.Time{}
	if r.Timeout > 0 {
		next.RunDeadline = w.now.Add(r.Timeout)
	}
	err := w.update(updateClaim, r, int64(next.Generation), micros(next.StartedAt), micros(next.RunDeadline))
	if err != nil {
		return err
	}
	if err := w.startedSession(r); err != nil {
		return err
	}
	if err := w.straightEvent(c.Name(), r, next); err != nil {
		return err
	}
	if err := w.applied(r, next, out); err != nil {
		return err
	}
	return w.carry(r, out)
}

// carry gives the result the whole execution, parameters included.
func (w *writer) carry(r *record, out *store.Result) error {
	e := r.Execution
	if len(e.Parameters) != r.params {
		b, err := readBlob(w.c, "SELECT parameters FROM request WHERE seq = ?", r.Seq)
		if err != nil {
			return err
		}
		e.Parameters = b
	}
	out.Execution = &e
	return nil
}

func (w *writer) finish(c *store.Finish, r, next *record, out *store.Result) error {
	if err := store.CheckOutcome(&c.Outcome); err != nil {
		return own(err)
	}
	if !r.Status.Started() || r.Attempt != c.Attempt {
		return w.lateOutcome(c, c.Attempt, lastFinish, c.Outcome, r, out)
	}
	retry := c.Retry
	if r.Status == messages.Cancelling {
		retry = nil
	}
	next.last = lastFinish
	if c.Outcome.Crash() {
		next.CrashCount++
	}
	if err := w.conclude(store.Settle(r.Status, c.Outcome), retry, r, next); err != nil {
		return err
	}
	if !c.Output.Empty() {
		err := w.exec("INSERT OR REPLACE INTO output (seq, stdout, stderr, cut) VALUES (?, ?, ?, ?)", r.Seq,
			blob(c.Output.Stdout), blob(c.Output.Stderr), flags(c.Output.StdoutCut, c.Output.ErrCut))
		if err != nil {
			return err
		}
	}
	if err := w.finishedSession(r, next.Status); err != nil {
		return err
	}
	plain := r.Status == messages.Running && (next.Status == messages.Completed || next.Status == messages.Failed)
	if !plain || c.By != "" || w.s.cfg.EventsAll {
		if err := w.event(c.Name(), r, next, reasonOf(next), string(r.WorkerID), c.By); err != nil {
			return err
		}
	}
	return w.told(r, next, out)
}

func (w *writer) end(c *store.End, r, next *record, out *store.Result) error {
	if err := store.CheckOutcome(&c.Outcome); err != nil {
		return own(err)
	}
	if _, ok := store.Next(c.Name(), r.Status); !ok || r.Attempt != c.Attempt {
		return w.lateOutcome(c, c.Attempt, lastEnd, c.Outcome, r, out)
	}
	next.last = lastEnd
	if err := w.conclude(c.Outcome, c.Retry, r, next); err != nil {
		return err
	}
	if err := w.event(c.Name(), r, next, reasonOf(next), string(r.WorkerID), ""); err != nil {
		return err
	}
	return w.told(r, next, out)
}

func (w *writer) cancel(c *store.Cancel, r, next *record, out *store.Result) error {
	to, ok := store.Next(c.Name(), r.Status)
	if !ok {
		out.Verdict = store.Already
		e, err := w.withOutcome(r)
		out.Execution = e
		return err
	}
	next.last = lastCancel
	if to == messages.Cancelling {
		next.Status = to
		if err := w.update(updateCancelling, r); err != nil {
			return err
		}
	} else {
		o := messages.Outcome{Status: to, Error: &messages.Error{Code: messages.CodeCancelled, Message: "cancelled before it started"}}
		if err := w.conclude(o, nil, r, next); err != nil {
			return err
		}
	}
	if err := w.event(c.Name(), r, next, "", string(r.WorkerID), c.By); err != nil {
		return err
	}
	return w.told(r, next, out)
}

func (w *writer) rescue(c *store.Rescue, r, next *record, out *store.Result) error {
	if !r.Status.Started() || r.Attempt != c.Attempt {
		mine := r.Attempt == c.Attempt && r.last == lastRescue
		return w.stale(c, c.Attempt, r, mine, out)
	}
	next.last, next.CrashCount = lastRescue, r.CrashCount+1
	if c.Unstarted {
		next.CrashCount = r.CrashCount
	}
	if r.Status == messages.Running {
		return w.requeue(c.Name(), c.Reason, c.By, c.Delay, r, next, out)
	}
	lost := messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost, Message: c.Reason}}
	if err := w.conclude(store.Settle(r.Status, lost), nil, r, next); err != nil {
		return err
	}
	if err := w.event(c.Name(), r, next, c.Reason, string(r.WorkerID), c.By); err != nil {
		return err
	}
	return w.told(r, next, out)
}

// told gives the result the execution without parameters, for those who wait.
func (w *writer) told(r, next *record, out *store.Result) error {
	if err := w.applied(r, next, out); err != nil {
		return err
	}
	if r.Status.Terminal() { // the working set has dropped it, so it may be handed out as it is
		r.Parameters = nil
		out.Execution = &r.Execution
		return nil
	}
	e := r.Execution
	e.Parameters = nil
	out.Execution = &e
	return nil
}

// conclude writes an outcome and, where given, the execution that follows.
func (w *writer) conclude(o messages.Outcome, retry *messages.Execution, r, next *record) error {
	next.Status, next.FinishedAt, next.Result, next.Error = o.Status, w.now, o.Result, o.Error
	if retry != nil {
		keyless := *retry
		keyless.IdempotencyKey, keyless.KeyOwner = "", ""
		id, err := w.retry(&keyless, r, next.CrashCount)
		if err != nil {
			return err
		}
		next.RetriedAs = id
	}
	if err := w.settle(o, r, next); err != nil {
		return err
	}
	if r.Notify {
		if err := w.notice(r); err != nil {
			return err
		}
	}
	if retry == nil {
		return nil
	}
	return w.event("retry", r, next, next.RetriedAs.String(), string(r.WorkerID), "")
}

// shortOutcome is how long result and error may be together to stand in the execution's own row.
const shortOutcome = 512

// settle writes the row of an execution that has ended. One that completed on its worker, as most do, moves one index.
func (w *writer) settle(o messages.Outcome, r, next *record) error {
	result, failure := o.Result, store.EncodeError(o.Error)
	if len(result)+len(failure) > shortOutcome {
		if err := w.exec("INSERT INTO outcome (seq, result, error) VALUES (?, ?, ?)", r.Seq, blob(result), blob(failure)); err != nil {
			return err
		}
		result, failure = nil, nil
	}
	if next.Status == messages.Completed && stage(r.Status) == stageActive && next.CrashCount == r.CrashCount && next.RetriedAs.IsZero() {
		return w.update(updateCompleted, r, int64(next.last), micros(next.FinishedAt), blob(result), blob(failure))
	}
	unusual := int64(next.Status)
	if next.Status == messages.Completed {
		unusual = 0
	}
	return w.update(updateEnded, r, int64(next.Status), int64(next.last), int64(next.CrashCount), micros(next.FinishedAt),
		id16(next.RetriedAs), blob(result), blob(failure), unusual)
}

// retry stores the execution that follows r. It takes r's parameters unless it has its own, and the crashes of the chain so
// far. Where an outcome brings it, it has no idempotency key: that stays with the execution that was submitted under it.
func (w *writer) retry(e *messages.Execution, r *record, crashes int) (messages.ExecutionID, error) {
	n := &record{Execution: *e, avoid: r.WorkerID}
	if len(n.Parameters) == 0 && r.params > 0 {
		b, err := readBlob(w.c, "SELECT parameters FROM request WHERE seq = ?", r.Seq)
		if err != nil {
			return n.ID, err
		}
		n.Parameters = b
	}
	if err := store.Check(&n.Execution); err != nil {
		return n.ID, own(fmt.Errorf("its retry: %w", err))
	}
	w.fresh(n)
	n.CrashCount = crashes
	if err := w.insert(n); err != nil || crashes == 0 {
		return n.ID, err
	}
	return n.ID, w.exec("UPDATE execution SET crash_count = ? WHERE seq = ?", int64(crashes), n.Seq)
}

// lateOutcome judges an outcome that finds its execution elsewhere: Already where the very same one is stored.
func (w *writer) lateOutcome(c store.Change, attempt messages.Attempt, last int, o messages.Outcome, r *record, out *store.Result) error {
	mine := false
	if r.Status.Terminal() && r.Attempt == attempt && r.last == last {
		e, err := w.withOutcome(r)
		if err != nil {
			return err
		}
		for _, from := range []messages.Status{messages.Running, messages.Cancelling} {
			would := store.Settle(from, o)
			mine = mine || would.Status == e.Status && bytes.Equal(would.Result, e.Result) &&
				bytes.Equal(store.EncodeError(would.Error), store.EncodeError(e.Error))
		}
	}
	return w.stale(c, attempt, r, mine, out)
}

// withOutcome returns the execution with its stored result and error, without parameters.
func (w *writer) withOutcome(r *record) (*messages.Execution, error) {
	e := r.Execution
	e.Parameters = nil
	if !e.Status.Terminal() {
		return &e, nil
	}
	err := readOutcome(w.c, &e)
	return &e, err
}

func reasonOf(r *record) string {
	if r.Error == nil {
		return ""
	}
	return string(r.Error.Code)
}
