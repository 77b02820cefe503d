package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// backend is the node as its API sees it.
type backend struct {
	*Node
	*operate.Operator
}

var _ api.Backend = backend{}

// Backend returns the node's operations, as the HTTP API and the Go API use them.
func (n *Node) Backend() api.Backend { return n.backend() }

func (n *Node) backend() backend { return backend{n, n.operator} }

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

// readTime bounds one look at an execution, where the caller has as much time as it likes.
const readTime = 5 * time.Second

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
