package node

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// letterOf is a dead letter in the words of the rules.
func letterOf(l *store.Letter) bulk.Letter {
	return bulk.Letter{
		ID: l.ID, At: l.At, Reason: l.Reason, Resolution: l.Resolution, Action: l.Action, Execution: l.Execution, Status: l.Status, RetriedAs: l.RetriedAs,
	}
}

// countLetters reads the dead letters that match an operation. Exact is whether that was all.
func (o *operations) countLetters(ctx context.Context, op *store.Operation, tally *bulk.Tally) (exact bool, err error) {
	if len(op.IDs) > 0 {
		found, err := o.findLetters(ctx, op.IDs)
		for i := range found {
			if found[i].ID == 0 {
				tally.Skip(bulk.Unknown)
				continue
			}
			l := letterOf(&found[i])
			tally.AddLetter(&l)
		}
		return true, err
	}
	w, err := letterWalkOf(op)
	if err != nil {
		return false, err
	}
	for end := time.Now().Add(previewTime); ; {
		page, more, err := w.next(ctx, o.store)
		if err != nil {
			return false, err
		}
		for i := range page {
			l := letterOf(&page[i])
			tally.AddLetter(&l)
		}
		if !more {
			return true, nil
		}
		if tally.Matched >= bulk.CountMax || time.Now().After(end) {
			return false, nil
		}
	}
}

// letterWalk reads an operation's dead letters, oldest first, up to its bound.
type letterWalk struct {
	filter      store.DeadLetterFilter
	after, last int64
}

func letterWalkOf(op *store.Operation) (*letterWalk, error) {
	f, err := api.BulkLetterFilter(op.Filter)
	return &letterWalk{filter: f, after: op.Cursor, last: op.SeqMax}, err
}

// next reads a page, and returns those that the filter has. More is whether a page may follow.
func (w *letterWalk) next(ctx context.Context, s store.DeadLetters) (page []store.Letter, more bool, err error) {
	page, err = s.WalkDeadLetters(ctx, w.after, w.last, previewPage)
	if err != nil || len(page) == 0 {
		return nil, false, err
	}
	more, w.after = len(page) == previewPage, page[len(page)-1].ID
	return slices.DeleteFunc(page, func(l store.Letter) bool { return !w.filter.Match(&l.DeadLetter) }), more, nil
}

// findLetters reads dead letters, each at the place of its number. Those that the store does not have are zero.
func (o *operations) findLetters(ctx context.Context, items []store.OperationItem) ([]store.Letter, error) {
	numbers, places := make([]int64, len(items)), make(map[int64]int, len(items))
	for i, item := range items {
		numbers[i] = item.Letter()
		places[numbers[i]] = i
	}
	found, err := o.store.FindDeadLetters(ctx, numbers)
	letters := make([]store.Letter, len(items))
	for i := range found {
		letters[places[found[i].ID]] = found[i]
	}
	return letters, err
}

// planLetters is plan for dead letters.
func (o *operations) planLetters(ctx context.Context, op *store.Operation, n int) (more bool, err error) {
	if len(op.IDs) > 0 {
		return o.planLetterIDs(ctx, op, n)
	}
	w, err := letterWalkOf(op)
	if err != nil {
		return false, err
	}
	for end, pages := time.Now().Add(planTime), 0; pages < planPages; pages++ {
		page, more, err := w.next(ctx, o.store)
		if err != nil {
			return false, err
		}
		for i := range page {
			op.Cursor = page[i].ID
			if planLetter(op, &page[i]); len(op.Pending) == n {
				return true, nil
			}
		}
		if op.Cursor = w.after; !more {
			return false, nil
		}
		if time.Now().After(end) {
			break
		}
	}
	return true, nil
}

func (o *operations) planLetterIDs(ctx context.Context, op *store.Operation, n int) (more bool, err error) {
	from := min(int(op.Cursor), len(op.IDs))
	to := min(from+n, len(op.IDs))
	found, err := o.findLetters(ctx, op.IDs[from:to])
	if err != nil {
		return false, err
	}
	for i := range found {
		if found[i].ID == 0 {
			skip(op, bulk.Unknown)
			continue
		}
		planLetter(op, &found[i])
	}
	op.Cursor = int64(to)
	return to < len(op.IDs), nil
}

// planLetter takes a dead letter that the operation acts on, and counts another one. One whose execution has a retry is looked at again
// when it is acted on: the operation may have made that retry, for another dead letter of the execution.
func planLetter(op *store.Operation, l *store.Letter) {
	judged := letterOf(l)
	switch why := bulk.JudgeLetter(bulk.Kind(op.Kind), &judged); why {
	case "", bulk.AlreadyRetried:
		op.Pending = append(op.Pending, store.LetterItem(l.ID))
	default:
		skip(op, why)
	}
}

// requeue submits the executions of the pending dead letters again. A retry that the operation made before is found by its idempotency
// key, also where its dead letter says already that it was requeued.
func (o *operations) requeue(ctx context.Context, op *store.Operation, fates []fate, again bool) error {
	letters, err := o.findLetters(ctx, op.Pending)
	if err != nil {
		return err
	}
	err = o.retryEach(fates, func(i int) (store.Submitted, fate) {
		if letters[i].ID == 0 {
			return store.Submitted{}, fate{why: bulk.Unknown}
		}
		l := letterOf(&letters[i])
		why := bulk.JudgeLetter(bulk.Requeue, &l)
		if why != "" && why != bulk.AlreadyRetried && (why != bulk.AlreadyRequeued || !again) {
			return store.Submitted{}, fate{why: why}
		}
		made, f := o.retryOne(ctx, op, l.Execution)
		if f.why != "" && why == bulk.AlreadyRequeued { // by somebody else
			f.why = why
		}
		return made, f
	})
	if err != nil {
		return err
	}
	var done []int64
	for i, f := range fates {
		if f.why == "" && f.err == nil {
			done = append(done, letters[i].ID)
		}
	}
	_, err = o.store.ResolveDeadLetters(ctx, done, bulk.Requeued, bulk.Requeued)
	return err
}

// discard marks the pending dead letters as handled. One that is discarded already counts as done where this may be a repetition.
func (o *operations) discard(ctx context.Context, op *store.Operation, fates []fate, again bool) error {
	numbers := make([]int64, len(op.Pending))
	for i, item := range op.Pending {
		numbers[i] = item.Letter()
	}
	changed, err := o.store.ResolveDeadLetters(ctx, numbers, bulk.Discarded, bulk.Requeued, bulk.Discarded)
	if err != nil || len(changed) == len(numbers) {
		return err
	}
	now := make(map[int64]bool, len(changed))
	for _, number := range changed {
		now[number] = true
	}
	letters, err := o.findLetters(ctx, op.Pending)
	if err != nil {
		return err
	}
	for i := range letters {
		l := letterOf(&letters[i])
		switch {
		case now[numbers[i]] || again && l.Resolution == bulk.Discarded:
		case l.ID == 0:
			fates[i].why = bulk.Unknown
		default:
			fates[i].why = bulk.JudgeLetter(bulk.Discard, &l)
		}
	}
	return nil
}
