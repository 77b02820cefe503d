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

// Get implements api.Backend.
func (x *executions) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if shut := x.cfg.Self.Gate(); shut != nil {
		return messages.Execution{}, shut
	}
	e, err := x.cfg.Store.Get(ctx, id)
	return e, found("execution", id, err)
}

// List implements api.Backend.
func (x *executions) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return x.cfg.Store.List(ctx, f)
}

// Chain implements api.Backend.
func (x *executions) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	chain, err := x.cfg.Store.Chain(ctx, id)
	return chain, found("execution", id, err)
}

// Events implements api.Backend.
func (x *executions) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	if _, err := x.Get(ctx, id); err != nil {
		return nil, err
	}
	return x.cfg.Store.Events(ctx, id)
}

// Wait implements api.Backend. It ends with this incarnation, and outlives outages of the store.
func (x *executions) Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if shut := x.cfg.Self.Gate(); shut != nil {
		return messages.Execution{}, shut
	}
	ctx, release := untilEither(ctx, x.cfg.Members.Over())
	defer release()
	e, err := x.cfg.Outcomes.Wait(ctx, id, x.readOnce)
	if errors.Is(err, actors.ErrTooManyWaiters) {
		return e, &messages.Problem{Code: messages.CodeTooManyWaits, Message: err.Error()}
	}
	return e, found("execution", id, err)
}

// readTime bounds one look at an execution, where the caller has as much time as it likes.
const readTime = 5 * time.Second

func (x *executions) readOnce(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return x.cfg.Store.Get(ctx, id)
}

// Cancel implements api.Backend.
func (x *executions) Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error) {
	e, err := x.Get(ctx, id)
	if err != nil {
		return e, err
	}
	results, err := x.cfg.Record(ctx, e.Pool, []actors.Item{{Change: &store.Cancel{ID: id, By: by}, Worker: e.Worker}})
	if err != nil {
		return e, err
	}
	if r := results[0]; r.Verdict == store.Blocked {
		return e, fmt.Errorf("%w: cancel again: %w", store.ErrUnavailable, r.Err)
	}
	if e, err = x.Get(ctx, id); err == nil {
		x.calls.hintCancel(&e, by)
	}
	return e, err
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
