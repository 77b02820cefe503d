package sqlite

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// change makes one change as store.Decide decides it.
func (w *writer) change(c store.Change, r *record, out *store.Result) error {
	facts, err := w.factsFor(c, r)
	if err != nil {
		return err
	}
	row := &r.Row
	if store.NeedsOutcome(row, c) {
		ended := r.Row
		if err := readOutcome(w.c, &ended.Execution); err != nil {
			return err
		}
		row = &ended
	}
	w.decided = store.Decide(row, facts, c, w.now)
	d := &w.decided
	out.Verdict, out.Err = d.Verdict, d.Err
	switch d.Verdict {
	case store.Applied:
		return w.applied(c, d, r, out)
	case store.Stale:
		return w.staleEvent(r.Seq, &d.Event)
	case store.Already:
		return w.setExecution(c, d, r, out)
	}
	return nil
}

// applied writes the decision and makes it the current row.
func (w *writer) applied(c store.Change, d *store.Decision, r *record, out *store.Result) error {
	rank, err := w.write(d, r)
	if err != nil {
		return err
	}
	if err := w.writeSideRows(d, r); err != nil {
		return err
	}
	from := marksOf(r)
	r.Row, r.rank = d.Next, rank
	if err := w.mark(from, r); err != nil {
		return err
	}
	out.Status, out.Attempt = r.Status, r.Attempt
	if r.Status.Terminal() {
		w.cache.drop(r.ID)
	}
	return w.setExecution(c, d, r, out)
}

// setExecution sets the result's execution if the decision says so: with parameters for a claim, without for others.
func (w *writer) setExecution(c store.Change, d *store.Decision, r *record, out *store.Result) error {
	if !d.Carry {
		return nil
	}
	if d.Verdict == store.Applied && r.Status.Terminal() { // the cache has dropped it, so it may be returned without a copy
		r.Parameters = nil
		out.Execution = &r.Execution
		return nil
	}
	e := d.Next.Execution
	if _, ok := c.(*store.Claim); !ok {
		e.Parameters = nil
	} else if len(e.Parameters) != r.params {
		b, err := readBlob(w.c, "SELECT parameters FROM request WHERE seq = ?", r.Seq)
		if err != nil {
			return err
		}
		e.Parameters = b
	}
	out.Execution = &e
	return nil
}

// write updates the execution's own row by the statement that changes the fewest indexes, and returns its rank.
func (w *writer) write(d *store.Decision, r *record) (rank int64, err error) {
	switch n := &d.Next; n.Status {
	case messages.Scheduled:
		return r.rank, w.update(updatePlace, r, int64(n.Attempt), n.Worker.Incarnation[:], int64(n.Worker.Slot), text(n.WorkerID), id16(n.PlacedBy),
			micros(n.FirstPlacedAt), micros(n.ScheduledAt), micros(n.ClaimBy), n.SessionEpoch, flags(n.SessionLost, n.SessionHit))
	case messages.Requested:
		if rank, err = w.rank(n); err != nil {
			return rank, err
		}
		return rank, w.update(updateRequeue, r, rank, int64(n.Attempt), int64(n.Last), micros(n.RunAt), int64(n.TakeBacks), int64(n.CrashCount),
			micros(n.FirstPlacedAt))
	case messages.Running:
		if r.Status != messages.Scheduled {
			return r.rank, w.update(updateStart, r, int64(n.Attempt), n.Worker.Incarnation[:], int64(n.Worker.Slot), text(n.WorkerID),
				int64(n.Generation), id16(n.PlacedBy), micros(n.FirstPlacedAt), micros(n.StartedAt), micros(n.RunDeadline))
		}
		return r.rank, w.update(updateClaim, r, int64(n.Generation), micros(n.StartedAt), micros(n.RunDeadline))
	case messages.Cancelling:
		return r.rank, w.update(updateCancelling, r)
	}
	if d.Retry != nil {
		if err := w.retry(d.Retry, r, d.Next.CrashCount); err != nil {
			return r.rank, err
		}
	}
	return r.rank, w.writeEnd(r, &d.Next)
}

// shortOutcome bounds the bytes of a result and error together that are stored in the execution's own row.
const shortOutcome = 512

// writeEnd writes the row of an ended execution. If it completed on its worker, as most do, one index changes.
func (w *writer) writeEnd(r *record, next *store.Row) error {
	result, failure := next.Result, store.EncodeError(next.Error)
	if len(result)+len(failure) > shortOutcome {
		if err := w.exec("INSERT INTO outcome (seq, result, error) VALUES (?, ?, ?)", r.Seq, blob(result), blob(failure)); err != nil {
			return err
		}
		result, failure = nil, nil
	}
	if r.SessionLost && !next.SessionLost {
		if err := w.update(updateRestored, r, flags(next.SessionLost, next.SessionHit)); err != nil {
			return err
		}
	}
	if next.Status == messages.Completed && stage(r.Status) == stageActive && next.CrashCount == r.CrashCount && next.RetriedAs.IsZero() {
		return w.update(updateCompleted, r, int64(next.Last), micros(next.FinishedAt), blob(result), blob(failure))
	}
	unusual := int64(next.Status)
	if next.Status == messages.Completed {
		unusual = 0
	}
	return w.update(updateEnded, r, int64(next.Status), int64(next.Last), int64(next.CrashCount), micros(next.FinishedAt),
		id16(next.RetriedAs), blob(result), blob(failure), unusual)
}

// writeSideRows writes a change's rows of other tables: its notice, webhook, output, events, and its effect on the session.
func (w *writer) writeSideRows(d *store.Decision, r *record) error {
	if d.Next.Status.Terminal() && r.Notify {
		if err := w.notice(r); err != nil {
			return err
		}
	}
	if d.Next.Status.Terminal() {
		if err := w.hookDue(r, &d.Next); err != nil {
			return err
		}
	}
	if o := &d.Output; !o.Empty() {
		err := w.exec("INSERT OR REPLACE INTO output (seq, stdout, stderr, cut, record) VALUES (?, ?, ?, ?, ?)", r.Seq,
			blob(o.Stdout), blob(o.Stderr), flags(o.StdoutCut, o.ErrCut), blob(o.Record))
		if err != nil {
			return err
		}
	}
	if err := w.session(d); err != nil {
		return err
	}
	if d.Retry != nil {
		v := d.RetryEvent()
		if err := w.event(r.Seq, &v); err != nil {
			return err
		}
	}
	if d.Straight && !w.s.cfg.EventsAll {
		return nil // its times are columns anyway
	}
	return w.event(r.Seq, &d.Event)
}

// retry stores the retry of r. It takes r's parameters unless it has its own, and the crash count of the chain.
func (w *writer) retry(e *messages.Execution, r *record, crashes int) error {
	n := &record{Row: store.Row{Execution: *e}, avoid: r.WorkerID}
	store.CountFrom(&n.Execution, w.now)
	if len(n.Parameters) == 0 && r.params > 0 {
		b, err := readBlob(w.c, "SELECT parameters FROM request WHERE seq = ?", r.Seq)
		if err != nil {
			return err
		}
		n.Parameters = b
	}
	w.fresh(n)
	n.CrashCount, n.Hooked = crashes, r.Hooked
	if err := w.insert(n); err != nil {
		return err
	}
	if err := w.hookRetry(r, n); err != nil || crashes == 0 {
		return err
	}
	return w.exec("UPDATE execution SET crash_count = ? WHERE seq = ?", int64(crashes), n.Seq)
}
