package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// executions answers about executions, wherever they run, and cancels them.
type executions struct {
	cfg   *Config
	nodes *Directory
	calls *Calls
}

// Get returns an execution.
func (q *executions) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return messages.Execution{}, shut
	}
	e, err := q.cfg.Store.Get(ctx, id)
	return e, found("execution", id, err)
}

// KeptFrom is when an execution must have ended to be kept; zero: all are.
func (q *executions) KeptFrom() time.Time { return keptFrom(q.cfg.Clock.Now(), q.cfg.Retains) }

// List returns a page of executions, newest first.
func (q *executions) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return q.cfg.Store.List(ctx, f)
}

// Chain returns the retry chain of an execution, oldest first.
func (q *executions) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	chain, err := q.cfg.Store.Chain(ctx, id)
	return chain, found("execution", id, err)
}

// Events returns what happened to an execution, oldest first.
func (q *executions) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	events, err := q.cfg.Store.Events(ctx, id)
	return events, found("execution", id, err)
}

// EventsBetween returns what happened to an execution in a range of time, oldest first.
func (q *executions) EventsBetween(ctx context.Context, query store.EventQuery) (store.EventPage, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return store.EventPage{}, shut
	}
	page, err := q.cfg.Store.EventsBetween(ctx, query)
	return page, found("execution", query.Execution, err)
}

// Wait returns the execution once it is terminal, or as it stands when ctx ends. The wait ends with this incarnation, and outlives
// outages of the store.
func (q *executions) Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return messages.Execution{}, shut
	}
	ctx, release := untilEither(ctx, q.cfg.Members.Over())
	defer release()
	e, err := q.cfg.Outcomes.Wait(ctx, id, q.readOnce)
	return e, waited(id, err)
}

// waited maps what may end a wait to problems.
func waited(id messages.ExecutionID, err error) error {
	if errors.Is(err, actors.ErrTooManyWaiters) {
		return &messages.Problem{Code: messages.CodeTooManyWaits, Message: err.Error()}
	}
	return found("execution", id, err)
}

// Expect begins to wait for an execution that is about to be stored: see actors.Outcomes.
func (q *executions) Expect(id messages.ExecutionID) *Expected {
	return &Expected{executions: q, id: id, waiter: q.cfg.Outcomes.Expect(id)}
}

// Expected is the wait of a caller who submits.
type Expected struct {
	*executions
	id     messages.ExecutionID
	waiter *actors.Waiter
}

// Wait is the operator's Wait for the execution. What it returns may lack the parameters, which whoever has submitted knows.
func (x *Expected) Wait(ctx context.Context) (messages.Execution, error) {
	ctx, release := untilEither(ctx, x.cfg.Members.Over())
	defer release()
	e, err := x.waiter.Wait(ctx, x.readOnce)
	return e, waited(x.id, err)
}

// Stored says how the execution was stored.
func (x *Expected) Stored(e *messages.Execution) { x.waiter.Stored(e) }

// Leave ends the wait. It may be called again.
func (x *Expected) Leave() { x.waiter.Leave() }

// readTime bounds one look at an execution, where the caller has as much time as it likes.
const readTime = 5 * time.Second

func (q *executions) readOnce(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return q.cfg.Store.Get(ctx, id)
}

// Cancel returns the execution as the cancel left it: cancelled, cancelling, or terminal before. A cancel that the store refuses is a
// problem, because the execution goes on.
func (q *executions) Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error) {
	e, err := q.Get(ctx, id)
	if err != nil {
		return e, err
	}
	results, err := q.cfg.Record(ctx, e.Pool, []actors.Item{{Change: &store.Cancel{ID: id, By: by}, Worker: e.Worker}})
	if err != nil {
		return e, err
	}
	r := results[0]
	if r.Execution != nil { // it may have ended by the time that it is read again
		q.calls.hintCancel(r.Execution, by)
	}
	switch r.Verdict {
	case store.Blocked:
		return e, fmt.Errorf("%w: cancel again: %w", store.ErrUnavailable, r.Err)
	case store.Refused:
		return e, messages.Problemf(messages.CodeRefused, "execution %s is not cancelled, it is %s as before: the store refuses the change: %v", id, e.Status, r.Err)
	case store.Applied:
		q.cfg.did(ctx, "cancel", id.String(), by)
	}
	return q.Get(ctx, id)
}

// CancelMany cancels executions of one pool, and returns what became of each. It leaves no entries in the journal.
func (q *executions) CancelMany(ctx context.Context, pool string, executions []messages.Execution, by string) ([]store.Result, error) {
	items := make([]actors.Item, len(executions))
	for i := range executions {
		items[i] = actors.Item{Change: &store.Cancel{ID: executions[i].ID, By: by}, Worker: executions[i].Worker}
	}
	results, err := q.cfg.Record(ctx, pool, items)
	if err != nil {
		return nil, err
	}
	for i := range results {
		if e := results[i].Execution; e != nil && results[i].Verdict == store.Applied {
			q.calls.hintCancel(e, by)
		}
	}
	return results, nil
}

// untilEither is ctx, ended early where the other one ends.
func untilEither(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(other, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}
