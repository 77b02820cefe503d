package node

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the work on operations: how often the node looks at those that it holds, and how much one step reads.
const (
	operationsEvery = 500 * time.Millisecond
	planTime        = 2 * time.Second
	planPages       = 20
	planPageMin     = 100
)

// round takes what no living node works on, and does one step of each operation that this node holds.
func (o *operations) round(ctx context.Context) error {
	held, err := o.store.LeaseOperations(ctx, o.incarnation)
	if err != nil {
		return err
	}
	var errs []error
	o.turn++ // only rounds use it, one at a time
	for i := range held {
		if ctx.Err() != nil {
			break
		}
		if err := o.step(ctx, &held[(i+o.turn)%len(held)]); !errors.Is(err, store.ErrTaken) { // another node goes on with it
			errs = append(errs, err)
		}
	}
	o.forget(held)
	return errors.Join(errs...)
}

// paceOf is the pace of an operation. First is whether this node has it anew.
func (o *operations) paceOf(id messages.OperationID) (pace *bulk.Pace, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pace, known := o.paces[id]
	if !known {
		pace = &bulk.Pace{}
		o.paces[id] = pace
	}
	return pace, !known
}

// forget drops the paces of what this node holds no more.
func (o *operations) forget(held []store.Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.paces, func(id messages.OperationID, _ *bulk.Pace) bool {
		return !slices.ContainsFunc(held, func(op store.Operation) bool { return op.ID == id })
	})
}

// step does the next part of an operation. What it is about to change is saved before. So whoever takes over after a crash does
// exactly that again, which is harmless, and counts it once.
func (o *operations) step(ctx context.Context, op *store.Operation) error {
	pace, first := o.paceOf(op.ID)
	if first && op.Epoch == 1 {
		o.note(op, "bulk_"+op.Kind, op.By, map[string]any{"count": op.Count, "rate": op.Rate})
	}
	if _, err := bulk.ParseKind(op.Kind); err != nil { // a node of another version has stored it
		for _, item := range op.Pending {
			fail(op, item, errors.New("whether it was changed is unknown"))
		}
		return o.refuse(ctx, op, "kind: "+err.Error())
	}
	if len(op.Pending) > 0 { // somebody has begun it
		return o.act(ctx, op, true)
	}
	if op.State == store.OperationStopping {
		return o.finish(ctx, op, store.OperationStopped)
	}
	n := pace.Take(o.clock.Now(), op.Rate)
	if n == 0 {
		return nil
	}
	more, err := o.plan(ctx, op, n)
	pace.Return(n - len(op.Pending))
	var problem *messages.Problem
	switch {
	case errors.As(err, &problem): // the filter cannot be read: a node of another version has stored it
		return o.refuse(ctx, op, problem.Message)
	case err != nil:
		return err
	case len(op.Pending) == 0 && !more:
		return o.finish(ctx, op, store.OperationDone)
	}
	state, err := o.store.SaveOperation(ctx, op)
	if err != nil || len(op.Pending) == 0 {
		return err
	}
	if state == store.OperationStopping {
		op.Pending = nil
		return o.finish(ctx, op, store.OperationStopped)
	}
	return o.act(ctx, op, false)
}

// plan moves the cursor past what is looked at, counts what is left as it is, and puts up to n items into Pending. More is whether
// something may follow.
func (o *operations) plan(ctx context.Context, op *store.Operation, n int) (more bool, err error) {
	switch letters := bulk.Kind(op.Kind).Letters(); {
	case letters:
		return o.planLetters(ctx, op, n)
	case len(op.IDs) > 0:
		return o.planIDs(ctx, op, n)
	}
	f, err := walkOf(op, min(max(n, planPageMin), bulk.StepMax))
	if err != nil {
		return false, err
	}
	end := time.Now().Add(planTime)
	for range planPages {
		page, err := o.store.List(ctx, f)
		if err != nil {
			return false, err
		}
		for i := range page.Executions {
			e := &page.Executions[i]
			if op.Cursor = e.Seq; !judged(op, e) {
				continue
			}
			if op.Pending = append(op.Pending, store.ExecutionItem(e.ID)); len(op.Pending) == n {
				return true, nil
			}
		}
		if page.Next == 0 {
			return false, nil
		}
		op.Cursor, f.After = page.Next, page.Next
		if time.Now().After(end) {
			break
		}
	}
	return true, nil
}

func (o *operations) planIDs(ctx context.Context, op *store.Operation, n int) (more bool, err error) {
	from := min(int(op.Cursor), len(op.IDs))
	to := min(from+n, len(op.IDs))
	found, errs := o.find(ctx, op.IDs[from:to])
	if i := slices.IndexFunc(errs, passes); i >= 0 {
		return false, errs[i]
	}
	for i := range found {
		switch e := &found[i]; {
		case errs[i] != nil:
			fail(op, op.IDs[from+i], errs[i])
		case e.ID.IsZero():
			skip(op, bulk.Unknown)
		case judged(op, e):
			op.Pending = append(op.Pending, op.IDs[from+i])
		}
	}
	op.Cursor = int64(to)
	return to < len(op.IDs), nil
}

// judged reports whether the operation acts on an execution. One that it leaves is counted.
func judged(op *store.Operation, e *messages.Execution) bool {
	why := bulk.Judge(bulk.Kind(op.Kind), e)
	if why != "" {
		skip(op, why)
	}
	return why == ""
}

func skip(op *store.Operation, why bulk.Why) {
	if op.Skips == nil {
		op.Skips = map[string]int64{}
	}
	op.Skipped++
	op.Skips[string(why)]++
}

// fail counts what could not be changed. The first ones are kept.
func fail(op *store.Operation, item store.OperationItem, err error) {
	op.Failed++
	if len(op.Failures) < store.OperationFailuresMax {
		op.Failures = append(op.Failures, store.OperationFailure{
			Execution: item.Execution(), DeadLetter: item.Letter(), Error: clipText(err.Error(), store.OperationTextMax),
		})
	}
}

// fate is what became of one execution or dead letter: left for a reason, failed, or changed.
type fate struct {
	why bulk.Why
	err error
}

// act changes what is pending and saves what became of it. Again is whether somebody may have done so before. After an error
// that may pass, they stay pending for the next round.
func (o *operations) act(ctx context.Context, op *store.Operation, again bool) error {
	fates := make([]fate, len(op.Pending))
	if err := o.change(ctx, op, fates, again); err != nil {
		return err
	}
	for i, f := range fates {
		switch {
		case f.err != nil:
			fail(op, op.Pending[i], f.err)
		case f.why != "":
			skip(op, f.why)
		default:
			op.Done++
		}
	}
	op.Pending = nil
	_, err := o.store.SaveOperation(ctx, op)
	return err
}

// change changes what is pending, and says what became of each.
func (o *operations) change(ctx context.Context, op *store.Operation, fates []fate, again bool) error {
	switch bulk.Kind(op.Kind) {
	case bulk.Cancel:
		return o.cancel(ctx, op, fates, again)
	case bulk.Requeue:
		return o.requeue(ctx, op, fates, again)
	case bulk.Discard:
		return o.discard(ctx, op, fates, again)
	}
	return o.retry(ctx, op, fates)
}

// passes reports whether an error is of the store as a whole, so that the step is done again.
func passes(err error) bool {
	return err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrReadOnly) || errors.Is(err, store.ErrClosed) ||
		store.Unanswered(err) && !store.MayPassInParts(err))
}

// retry retries the pending executions. A retry that the operation made before is found by its idempotency key.
func (o *operations) retry(ctx context.Context, op *store.Operation, fates []fate) error {
	return o.retryEach(fates, func(i int) (store.Submitted, fate) { return o.retryOne(ctx, op, op.Pending[i].Execution()) })
}

// retryEach retries several at a time, and tells of those that were stored. The error is one that may pass.
func (o *operations) retryEach(fates []fate, one func(i int) (store.Submitted, fate)) error {
	made := make([]store.Submitted, len(fates))
	abreast(len(fates), func(i int) { made[i], fates[i] = one(i) })
	stored := slices.DeleteFunc(made, func(s store.Submitted) bool { return s.Existing || s.Execution.ID.IsZero() })
	o.retries.entered(stored, true)
	if i := slices.IndexFunc(fates, func(f fate) bool { return passes(f.err) }); i >= 0 {
		return fates[i].err
	}
	return nil
}

func (o *operations) retryOne(ctx context.Context, op *store.Operation, id messages.ExecutionID) (store.Submitted, fate) {
	e, err := o.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Submitted{}, fate{why: bulk.Unknown}
	case err != nil:
		return store.Submitted{}, fate{err: err}
	}
	e.Parameters = nil // the store has them
	key, why := bulk.Key(op.ID, id), bulk.Judge(bulk.Retry, &e)
	if why == bulk.AlreadyRetried {
		next, err := o.store.Get(ctx, e.RetriedAs)
		switch {
		case err == nil && next.IdempotencyKey == key:
			return store.Submitted{}, fate{}
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return store.Submitted{}, fate{err: err}
		}
	}
	if why != "" {
		return store.Submitted{}, fate{why: why}
	}
	made, err := o.retries.retryOf(ctx, &e, key, op.By, bulk.Priority(e.Priority))
	var problem *messages.Problem
	if errors.As(err, &problem) && problem.Code == messages.CodeKeyConflict { // somebody was faster
		return store.Submitted{}, fate{why: bulk.AlreadyRetried}
	}
	return made, fate{err: err}
}

// cancel cancels the pending executions, pool by pool. One that is cancelled already counts as done where this may be a repetition.
func (o *operations) cancel(ctx context.Context, op *store.Operation, fates []fate, again bool) error {
	found, errs := o.find(ctx, op.Pending)
	if i := slices.IndexFunc(errs, passes); i >= 0 {
		return errs[i]
	}
	pools := map[string][]int{}
	for i := range found {
		switch e := &found[i]; {
		case errs[i] != nil:
			fates[i].err = errs[i]
		case e.ID.IsZero():
			fates[i].why = bulk.Unknown
		case again && (e.Status == messages.Cancelled || e.Status == messages.Cancelling):
		default:
			if fates[i].why = bulk.Judge(bulk.Cancel, e); fates[i].why == "" {
				pools[e.Pool] = append(pools[e.Pool], i)
			}
		}
	}
	for pool, places := range pools {
		executions := make([]messages.Execution, len(places))
		for j, i := range places {
			executions[j] = found[i]
		}
		results, err := o.operator.CancelMany(ctx, pool, executions, op.By)
		if err != nil {
			return err
		}
		for j, i := range places {
			fates[i] = fateOf(&results[j])
		}
	}
	return nil
}

// fateOf is what became of an execution that was cancelled.
func fateOf(r *store.Result) fate {
	switch r.Verdict {
	case store.Applied:
		return fate{}
	case store.Missing:
		return fate{why: bulk.Unknown}
	case store.Refused, store.Blocked:
		return fate{err: r.Err}
	}
	return fate{why: bulk.Judge(bulk.Cancel, &messages.Execution{Status: r.Status})}
}

// refuse ends an operation that this node does not fully know, and changes nothing.
func (o *operations) refuse(ctx context.Context, op *store.Operation, why string) error {
	op.Problem, op.Pending = clipText(why, store.OperationTextMax), nil
	o.logger.Warn("operation is not carried out, because this node does not know all of it", "operation", op.ID, "kind", op.Kind, "problem", op.Problem)
	return o.finish(ctx, op, store.OperationFailed)
}

// finish ends an operation and records that.
func (o *operations) finish(ctx context.Context, op *store.Operation, state store.OperationState) error {
	op.State = state
	if _, err := o.store.SaveOperation(ctx, op); err != nil {
		return err
	}
	o.logger.Info("operation has ended", "operation", op.ID, "kind", op.Kind, "state", state, "done", op.Done, "skipped", op.Skipped, "failed", op.Failed)
	o.note(op, "bulk_"+string(state), op.By, map[string]any{"kind": op.Kind, "done": op.Done, "skipped": op.Skipped, "failed": op.Failed})
	return nil
}

// note records what becomes of an operation in the journal.
func (o *operations) note(op *store.Operation, what, by string, detail map[string]any) {
	if len(op.Filter) > 0 && len(op.Filter) <= store.JournalDetailMax/2 {
		detail["filter"] = op.Filter
	}
	raw, err := json.Marshal(detail)
	if err != nil {
		return
	}
	o.journal.add(messages.JournalEntry{
		Kind: messages.JournalOperator, Subject: operationName(op.ID), What: what, Reason: op.Reason, Caller: by, Detail: raw,
	})
}
