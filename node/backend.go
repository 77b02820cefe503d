package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// backend is the node as its API sees it.
type backend struct{ *Node }

var _ api.Backend = backend{}

// Backend returns the node's operations, as the HTTP API and the Go API use them.
func (n *Node) Backend() api.Backend { return backend{n} }

// found maps store.ErrNotFound to the problem not_found.
func found(what string, id any, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return messages.Problemf(messages.CodeNotFound, "there is no %s %v", what, id)
	}
	return err
}

// Submit stores the requests, all or none, and wakes their pools.
func (b backend) Submit(ctx context.Context, requests []submit.Request) ([]store.Submitted, error) {
	executions, err := b.Prepare(ctx, requests)
	if err != nil {
		return nil, err
	}
	b.submitting.Add(1)
	defer b.submitting.Add(-1)
	offers := b.offer(executions)
	submitted, err := b.store.SubmitPlaced(ctx, executions, offers.places())
	b.settle(offers, submitted, err)
	if err != nil {
		return nil, err
	}
	b.wake(submitted)
	return submitted, nil
}

// inBatch says which request of several a problem is about.
func inBatch(err error, i, count int) error {
	var p *messages.Problem
	if count > 1 && errors.As(err, &p) {
		named := *p
		named.Message = fmt.Sprintf("execution %d of %d: %s", i+1, count, p.Message)
		return &named
	}
	return err
}

// arrivedMax bounds what is handed to a router without a look at the store.
const arrivedMax = 256

// wake tells the routers of what was stored just now: the executions themselves where they are few and nothing but their
// rank decides when they run, else that there are some.
func (b backend) wake(submitted []store.Submitted) {
	wakes := map[string]*supervisor.Wake{}
	for i := range submitted {
		e := &submitted[i].Execution
		if e.Status != messages.Requested {
			continue // it is placed, or was there before
		}
		w, known := wakes[e.Pool]
		if !known {
			w = &supervisor.Wake{More: b.submitting.Load() > offersMax}
		}
		if known && w.Arrived == nil || len(submitted) > arrivedMax || submitted[i].Existing || !plain(e) {
			w.Arrived = nil
		} else {
			w.Arrived = append(w.Arrived, candidateOf(e))
		}
		wakes[e.Pool] = w
	}
	for pool, w := range wakes {
		b.pools.Tell(pool, w)
	}
}

// plain reports whether a new execution is due, of no session, and the first of its chain.
func plain(e *messages.Execution) bool {
	return e.Session == "" && e.Original.IsZero() && !e.RunAt.After(e.RequestedAt)
}

// candidateOf is a plain execution as a router sees it.
func candidateOf(e *messages.Execution) messages.Candidate {
	return messages.Candidate{
		ID: e.ID, Seq: e.Seq, Attempt: e.Attempt, Action: e.Action, Version: e.Version, Priority: e.Priority,
		WaitForWorker: e.WaitForWorker, WorkerDeadline: e.WorkerDeadline, Timeout: e.Timeout, Idempotent: e.Idempotent,
	}
}

// Get implements api.Backend.
func (b backend) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if shut := b.gate(); shut != nil {
		return messages.Execution{}, shut
	}
	e, err := b.store.Get(ctx, id)
	return e, found("execution", id, err)
}

// List implements api.Backend.
func (b backend) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return b.store.List(ctx, f)
}

// Chain implements api.Backend.
func (b backend) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	chain, err := b.store.Chain(ctx, id)
	return chain, found("execution", id, err)
}

// Events implements api.Backend.
func (b backend) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	if _, err := b.Get(ctx, id); err != nil {
		return nil, err
	}
	return b.store.Events(ctx, id)
}

// Wait implements api.Backend. It ends with this incarnation, and outlives outages of the store.
func (b backend) Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if shut := b.gate(); shut != nil {
		return messages.Execution{}, shut
	}
	ctx, release := b.untilOver(ctx)
	defer release()
	e, err := b.outcomes.Wait(ctx, id, b.read)
	if errors.Is(err, actors.ErrTooManyWaiters) {
		return e, &messages.Problem{Code: messages.CodeTooManyWaits, Message: err.Error()}
	}
	return e, found("execution", id, err)
}

// readTime bounds one look at an execution, where the caller has as much time as it likes.
const readTime = 5 * time.Second

func (b backend) read(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return b.store.Get(ctx, id)
}

// Cancel implements api.Backend.
func (b backend) Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error) {
	e, err := b.Get(ctx, id)
	if err != nil {
		return e, err
	}
	results, err := b.record(ctx, e.Pool, []actors.Item{{Change: &store.Cancel{ID: id, By: by}, Worker: e.Worker}})
	if err != nil {
		return e, err
	}
	if r := results[0]; r.Verdict == store.Blocked {
		return e, fmt.Errorf("%w: cancel again: %w", store.ErrUnavailable, r.Err)
	}
	if e, err = b.Get(ctx, id); err == nil {
		b.hintCancel(&e, by)
	}
	return e, err
}

// Actions implements api.Backend.
func (b backend) Actions(context.Context) ([]messages.Action, error) {
	return b.catalog.Load().set.Actions, nil
}

// DeadLetters implements api.Backend.
func (b backend) DeadLetters() store.DeadLetters { return b.store }

// Reload implements api.Backend.
func (b backend) Reload(ctx context.Context, by string) (api.ReloadReport, error) {
	return b.Node.Reload(ctx, by)
}

// Redact implements api.Backend.
func (b backend) Redact(ref string, parameters json.RawMessage) json.RawMessage {
	a, ok := b.action(ref, "")
	if !ok {
		return parameters
	}
	clean := pack.Redact(a, parameters)
	if p, ok := b.catalog.Load().set.Pool(a.Pool); ok {
		return b.secrets.shown(p, clean)
	}
	return clean
}
