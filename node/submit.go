package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// submissions makes requests executions of the node's actions, stores them, and wakes their pools.
type submissions struct {
	*base
	catalog  *catalog
	servers  *watcher
	webhooks *webhooks

	unawaited atomic.Int32 // how many calls now submit without waiting for the outcome
}

// complete makes a request that was checked an execution of one of the node's actions, once its parameters are checked too. Its
// error is a *messages.Problem.
func (s *submissions) complete(ctx context.Context, r *submit.Request) (messages.Execution, error) {
	a, ok := s.catalog.action(r.ActionRef, "")
	if !ok {
		return messages.Execution{}, messages.Problemf(messages.CodeActionNotFound, "there is no action %q; `troupe actions` lists them", r.ActionRef)
	}
	if err := s.catalog.set().Refuse(ctx, a.Ref, r.Parameters); err != nil {
		return messages.Execution{}, err
	}
	return submit.Complete(r, a, &submit.Terms{
		ID: messages.NewExecutionID(), Now: s.clock.Now(), DefaultTimeout: s.cfg.DefaultTimeout, NoWorkerDeadline: s.cfg.NoWorkerDeadline,
		Notify: s.cfg.tells(), Webhook: s.webhooks.own, CheckWebhook: s.webhooks.check,
	})
}

// closed returns why nothing can be submitted now, or nil.
func (s *submissions) closed() *messages.Problem {
	if shut := s.servers.gate(); shut != nil {
		return shut
	}
	if s.phase.draining.Load() {
		return &messages.Problem{Code: messages.CodeDraining, Message: "this node is shutting down and takes no more work"}
	}
	return nil
}

// prepare makes all requests executions, or none, and stores nothing. Its errors are *messages.Problem.
func (s *submissions) prepare(ctx context.Context, requests []submit.Request) ([]messages.Execution, error) {
	if closed := s.closed(); closed != nil {
		return nil, closed
	}
	executions := make([]messages.Execution, len(requests))
	for i := range requests {
		e, err := s.complete(ctx, &requests[i])
		if err != nil {
			return nil, inBatch(err, i, len(requests))
		}
		executions[i] = e
	}
	return executions, nil
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

// submit stores the requests, all or none, and wakes their pools.
func (s *submissions) submit(ctx context.Context, requests []submit.Request) ([]store.Submitted, error) {
	executions, err := s.prepare(ctx, requests)
	if err != nil {
		return nil, err
	}
	spans := s.traced(executions, byAPI)
	stored, err := s.enterUnawaited(ctx, executions)
	spans.stored(executions, stored, err)
	return stored, err
}

// each stores every request that can be stored, and wakes their pools. It returns what became of each.
func (s *submissions) each(ctx context.Context, requests []submit.Request) []api.Submission {
	made := make([]api.Submission, len(requests))
	closed := s.closed()
	executions, of := make([]messages.Execution, 0, len(requests)), make([]*api.Submission, 0, len(requests))
	for i := range requests {
		if closed != nil {
			made[i].Err = closed
			continue
		}
		e, err := s.complete(ctx, &requests[i])
		if err != nil {
			made[i].Err = err
			continue
		}
		executions, of = append(executions, e), append(of, &made[i])
	}
	spans := s.traced(executions, byAPI)
	s.enterEach(ctx, executions, of)
	for i := range spans {
		spans.end(i, &executions[i], &of[i].Stored, of[i].Err, time.Now())
	}
	return made
}

// enterEach stores executions in one transaction. If one of them cannot be stored, it tries each half of them, until those are
// found that cannot: at most two transactions for each execution.
func (s *submissions) enterEach(ctx context.Context, executions []messages.Execution, of []*api.Submission) {
	if len(executions) == 0 {
		return
	}
	stored, err := s.enterUnawaited(ctx, executions)
	if half := len(executions) / 2; half > 0 && (errors.Is(err, store.ErrConflict) || store.NeverStorable(err)) {
		s.enterEach(ctx, executions[:half], of[:half])
		s.enterEach(ctx, executions[half:], of[half:])
		return
	}
	for i := range of {
		if of[i].Err = err; err == nil {
			of[i].Stored = stored[i]
		}
	}
}

// unawaitedMax is how many calls that do not wait for the outcome may submit at once, of which any is offered to a router. An offer saves
// a transaction before the start. That is what whoever waits for the outcome waits for. Many callers that do not wait share their
// transactions, and offering each execution by itself would cost more than it saves (docs/lab/waits.md).
const unawaitedMax = 5

// enterUnawaited stores executions whose caller does not wait for the outcome, all or none, and wakes their pools.
func (s *submissions) enterUnawaited(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	many := s.unawaited.Add(1) > unawaitedMax
	defer s.unawaited.Add(-1)
	return s.enter(ctx, executions, many)
}

// enter stores executions, all or none, and wakes their pools. Many is whether they are some of many that are being stored.
func (s *submissions) enter(ctx context.Context, executions []messages.Execution, many bool) ([]store.Submitted, error) {
	var offers offers
	if !many {
		offers = s.offer(executions)
	}
	submitted, err := s.store.SubmitPlaced(ctx, executions, offers.places())
	s.settle(offers, submitted, err)
	if err != nil {
		return nil, store.MayBeStored(executions, err)
	}
	s.wake(submitted, many)
	s.rollups.submitted(submitted)
	s.noteSubmitted(submitted)
	return submitted, nil
}

// arrivedMax bounds what is handed to a router without a look at the store.
const arrivedMax = 256

// wake tells the routers of what was stored just now: the executions themselves where they are few and nothing but their
// rank decides when they run, else that there are some.
func (s *submissions) wake(submitted []store.Submitted, many bool) {
	wakes := map[string]*supervisor.Wake{}
	for i := range submitted {
		e := &submitted[i].Execution
		if e.Status != messages.Requested {
			continue // it is placed, or was there before
		}
		w, known := wakes[e.Pool]
		if !known {
			w = &supervisor.Wake{Many: many}
		}
		if known && w.Arrived == nil || len(submitted) > arrivedMax || submitted[i].Existing || !plain(e) {
			w.Arrived = nil
		} else {
			w.Arrived = append(w.Arrived, candidateOf(e))
		}
		wakes[e.Pool] = w
	}
	for pool, w := range wakes {
		s.pools.Tell(pool, w)
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
