package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// operations previews and starts operations on many executions or dead letters, and works on those that this node holds.
type operations struct {
	*base
	operator *operate.Operator
	retries  *backend

	counting chan struct{} // has one entry for each count under way

	mu    sync.Mutex
	turn  int                                 // counts the rounds; only they use it
	paces map[messages.OperationID]*bulk.Pace // of those that this node holds
}

var _ api.Bulk = (*operations)(nil)

func newOperations(b *base, operator *operate.Operator) *operations {
	return &operations{base: b, operator: operator, counting: make(chan struct{}, countsMax), paces: map[messages.OperationID]*bulk.Pace{}}
}

// Bounds of previews: how long one may be confirmed, how long it counts, how many executions it reads in one page, and how many count at
// once.
const (
	previewLasts = 10 * time.Minute
	previewTime  = 2 * time.Second
	previewPage  = 1000
	countsMax    = 2
)

// Preview implements api.Bulk.
func (o *operations) Preview(ctx context.Context, op store.Operation) (store.Operation, *bulk.Tally, error) {
	newest, err := o.newest(ctx, bulk.Kind(op.Kind))
	if err != nil {
		return op, nil, err
	}
	op.ID, op.SeqMax = messages.NewOperationID(), newest
	tally, exact, err := o.count(ctx, &op)
	if err != nil {
		return op, nil, err
	}
	op.Count, op.Exact = tally.Count, exact
	op, err = o.store.AddOperation(ctx, op, previewLasts)
	return op, tally, err
}

// newest is the seq of the newest execution, or the number of the newest dead letter; 0: there is none.
func (o *operations) newest(ctx context.Context, kind bulk.Kind) (int64, error) {
	if kind.Letters() {
		page, err := o.store.ListDeadLetters(ctx, 0, 1)
		if err != nil || len(page) == 0 {
			return 0, err
		}
		return page[0].ID, nil
	}
	page, err := o.store.List(ctx, store.Filter{Limit: 1})
	if err != nil || len(page.Executions) == 0 {
		return 0, err
	}
	return page.Executions[0].Seq, nil
}

// count reads what matches an operation, up to bulk.CountMax of them and previewTime. Exact is whether that was all.
func (o *operations) count(ctx context.Context, op *store.Operation) (tally *bulk.Tally, exact bool, err error) {
	select {
	case o.counting <- struct{}{}:
		defer func() { <-o.counting }()
	case <-ctx.Done():
		return nil, false, messages.Problemf(messages.CodeTooManyRequests, "the node counts what other operations would act on; try again")
	}
	tally = bulk.NewTally(bulk.Kind(op.Kind))
	if tally.Kind.Letters() {
		exact, err = o.countLetters(ctx, op, tally)
		return tally, exact, err
	}
	if len(op.IDs) > 0 {
		found, errs := o.find(ctx, op.IDs)
		for i := range found {
			if found[i].ID.IsZero() {
				tally.Skip(bulk.Unknown)
				continue
			}
			tally.Add(&found[i])
		}
		return tally, true, errors.Join(errs...)
	}
	f, err := walkOf(op, previewPage)
	if err != nil {
		return nil, false, err
	}
	for end := time.Now().Add(previewTime); ; {
		page, err := o.store.List(ctx, f)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Executions {
			tally.Add(&page.Executions[i])
		}
		if page.Next == 0 {
			return tally, true, nil
		}
		if tally.Matched >= bulk.CountMax || time.Now().After(end) {
			return tally, false, nil
		}
		f.After = page.Next
	}
}

// walkOf is the list of an operation's executions behind its cursor, oldest first, up to its bound.
func walkOf(op *store.Operation, limit int) (f store.Filter, err error) {
	var values map[string][]string
	if err := json.Unmarshal(op.Filter, &values); err != nil {
		return f, messages.Problemf(messages.CodeInvalidRequest, "filter: %s", err)
	}
	if f, err = api.BulkFilter(values); err != nil {
		return f, err
	}
	f.Oldest, f.After, f.Before, f.Limit = true, op.Cursor, op.SeqMax+1, limit
	return f, nil
}

// find reads executions, and returns the error of each. Those that the store does not have are zero.
func (o *operations) find(ctx context.Context, ids []store.OperationItem) (found []messages.Execution, errs []error) {
	found, errs = make([]messages.Execution, len(ids)), make([]error, len(ids))
	abreast(len(ids), func(i int) {
		e, err := o.store.Get(ctx, ids[i].Execution())
		if err == nil {
			e.Parameters, e.Result = nil, nil
			found[i] = e
		} else if !errors.Is(err, store.ErrNotFound) {
			errs[i] = err
		}
	})
	return found, errs
}

// abreastMax bounds the calls of the store that an operation has under way.
const abreastMax = 16

// abreast calls do for each number below n, several at a time.
func abreast(n int, do func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, abreastMax) {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// Confirm implements api.Bulk.
func (o *operations) Confirm(ctx context.Context, id messages.OperationID, c api.Confirmation) (store.Operation, error) {
	op, err := o.store.GetOperation(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && op.By != c.By {
		return op, expired(id)
	}
	if err != nil || op.State != store.OperationPreviewed {
		return op, err
	}
	if c.Count != op.Count {
		return op, messages.Problemf(messages.CodeInvalidRequest, "confirm_count is %d, and the preview has counted %d; confirm what was previewed", c.Count, op.Count)
	}
	tally, _, err := o.count(ctx, &op)
	if err != nil {
		return op, err
	}
	if op.Exact && bulk.Grown(op.Count, tally.Count) {
		p := messages.Problemf(messages.CodeCountChanged, "the preview has counted %d, and now there are %d; preview again", op.Count, tally.Count)
		p.Details = map[string]any{"previewed": op.Count, "now": tally.Count}
		return op, p
	}
	op, err = o.store.StartOperation(ctx, id, c.Reason, c.Rate)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return op, expired(id)
	case errors.Is(err, store.ErrCrowded):
		return op, messages.Problemf(messages.CodeTooManyRequests, "%d operations have not ended; wait for one, or stop one", store.OperationsMax)
	}
	return op, err
}

func expired(id messages.OperationID) error {
	return messages.Problemf(messages.CodePreviewExpired, "there is no preview %s of yours; it ends after %d minutes: preview again", id, int(previewLasts.Minutes()))
}

// Operation implements api.Bulk.
func (o *operations) Operation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	op, err := o.store.GetOperation(ctx, id)
	if err == nil && op.State == store.OperationPreviewed {
		err = store.ErrNotFound
	}
	return op, found("operation", id, err)
}

// Operations implements api.Bulk.
func (o *operations) Operations(ctx context.Context, q store.OperationQuery) ([]store.Operation, error) {
	return o.store.ListOperations(ctx, q)
}

// Stop implements api.Bulk.
func (o *operations) Stop(ctx context.Context, id messages.OperationID, by string) (store.Operation, error) {
	before, err := o.Operation(ctx, id)
	if err != nil {
		return before, err
	}
	op, err := o.store.StopOperation(ctx, id)
	if err == nil && before.State == store.OperationRunning {
		o.journal.operator(ctx, "bulk_stop", operationName(id), by)
	}
	return op, found("operation", id, err)
}

// operationName names an operation in the journal.
func operationName(id messages.OperationID) string { return "operation " + id.String() }
