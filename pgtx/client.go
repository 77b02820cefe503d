// Package pgtx submits executions from a program that runs no node, through the Postgres of the nodes. It can submit
// within the program's own transactions, so that the program's rows and the execution exist both or not at all. It
// links neither a broker nor the protocol between nodes.
package pgtx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// Client submits executions to the nodes that share a Postgres. It reads the actions of the nodes from the store and
// checks requests with them. Its database user needs SELECT on action, request, execution, outcome and submission, and
// INSERT on submission; no more.
//
// A submission is a row of the table submission. The nodes take it some tens of milliseconds after its commit. They may
// still refuse it because of their configuration or packs: Get and Wait then return the reason.
type Client struct {
	inbox *postgres.InboxClient
	by    string
	mu    sync.Mutex
	known map[string]*knownAction
}

// Config says where the nodes' store is. A zero field means its default.
type Config struct {
	Store     string // postgres:// address of the nodes' store; required
	CreatedBy string // who submits; it is shown with sql: before it. Default "sql"
}

// knownAction is an action as it was last read.
type knownAction struct {
	at         time.Time
	definition []byte
	set        *pack.Set
}

const (
	actionAge  = 10 * time.Second // then an action is read again
	actionsMax = 1000             // that are cached
	waitMin    = 20 * time.Millisecond
	waitMax    = 500 * time.Millisecond
	lookMax    = 5 * time.Second // timeout of one look
)

// Open connects to the nodes' store.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	inbox, err := postgres.OpenInboxClient(ctx, postgres.Config{URL: cfg.Store, Name: "client", Conns: 4})
	if err != nil {
		return nil, err
	}
	return &Client{inbox: inbox, by: cfg.CreatedBy, known: map[string]*knownAction{}}, nil
}

// Close ends the client's connections.
func (c *Client) Close() { c.inbox.Close() }

// Submit submits one execution and returns its id. After an error that is no *Problem, repeat the call with the same
// idempotency key.
func (c *Client) Submit(ctx context.Context, s troupe.Submission) (troupe.ExecutionID, error) {
	return c.submit(ctx, nil, s)
}

// SubmitTx submits one execution within the caller's own transaction, on the database of the nodes' store, and returns
// its id. The execution exists once the transaction commits. If the transaction does not commit, the execution never
// existed. After an error that is no *Problem the transaction can only be rolled back.
func (c *Client) SubmitTx(ctx context.Context, tx pgx.Tx, s troupe.Submission) (troupe.ExecutionID, error) {
	return c.submit(ctx, tx, s)
}

func (c *Client) submit(ctx context.Context, tx pgx.Tx, s troupe.Submission) (troupe.ExecutionID, error) {
	r, err := s.Request()
	if err != nil {
		return troupe.ExecutionID{}, err
	}
	if err := c.check(ctx, &r); err != nil {
		return troupe.ExecutionID{}, err
	}
	if r.Webhook != nil {
		return troupe.ExecutionID{}, &messages.Problem{Code: messages.CodeInvalidRequest,
			Message: "webhook: a submission in a transaction has none of its own; give the action one, or the nodes (webhooks.url)"}
	}
	submission := c.submission(&r)
	if r.IdempotencyKey != "" {
		holder, err := c.holder(ctx, tx, &submission)
		if err != nil || !holder.IsZero() {
			return holder, err
		}
	}
	if err := c.inbox.Put(ctx, tx, &submission); err != nil {
		return troupe.ExecutionID{}, store.AsProblem(err)
	}
	return submission.ID, nil
}

// submission returns the request as stored in the inbox, with times in microseconds.
func (c *Client) submission(r *submit.Request) store.Submission {
	s := store.Submission{
		ID: messages.NewExecutionID(), Action: r.ActionRef, Parameters: r.Parameters, Session: r.Session,
		Affinity:       messages.Affinity(r.Affinity),
		IdempotencyKey: r.IdempotencyKey, MaxRetries: r.MaxRetries, Labels: r.Labels, CreatedBy: c.by, Trace: submit.ParseTrace(r.Trace),
	}
	if len(s.Parameters) == 0 || bytes.Equal(s.Parameters, []byte("null")) {
		s.Parameters = json.RawMessage("{}")
	}
	if !r.RunAt.IsZero() {
		s.RunAt = r.RunAt.UTC().Truncate(time.Microsecond)
	}
	if r.TimeoutSeconds != nil {
		s.Timeout = time.Duration(*r.TimeoutSeconds * float64(time.Second)).Truncate(time.Microsecond)
	}
	if r.Priority != nil {
		p := messages.Priority(*r.Priority)
		s.Priority = &p
	}
	return s
}

// holder returns the execution with the submission's key, if any. If that has another request, the error is a *Problem.
func (c *Client) holder(ctx context.Context, tx pgx.Tx, s *store.Submission) (troupe.ExecutionID, error) {
	claim, err := c.inbox.Holder(ctx, tx, s)
	if err != nil || claim.ID.IsZero() {
		return troupe.ExecutionID{}, err
	}
	r := s.Request()
	if claim.Same || bytes.Equal(claim.RequestHash, r.Hash()) {
		return claim.ID, nil
	}
	return troupe.ExecutionID{}, store.AsProblem(&store.ConflictError{Key: s.IdempotencyKey, Holder: claim.ID})
}

// check checks the action and the parameters as the nodes will.
func (c *Client) check(ctx context.Context, r *submit.Request) error {
	set, err := c.action(ctx, r.ActionRef)
	if errors.Is(err, store.ErrNotFound) {
		return &messages.Problem{Code: messages.CodeActionNotFound,
			Message: fmt.Sprintf("no node has served an action %q yet", r.ActionRef)}
	}
	if err != nil {
		return err
	}
	return set.Refuse(ctx, r.ActionRef, r.Parameters)
}

// action returns a set with this action, as it was in the store at most actionAge ago.
func (c *Client) action(ctx context.Context, ref string) (*pack.Set, error) {
	c.mu.Lock()
	last := c.known[ref]
	c.mu.Unlock()
	if last != nil && time.Since(last.at) < actionAge {
		return last.set, nil
	}
	a, err := c.inbox.Action(ctx, ref)
	if err != nil {
		return nil, err
	}
	definition, err := json.Marshal(&a)
	if err != nil {
		return nil, err
	}
	next := &knownAction{at: time.Now(), definition: definition}
	if last != nil && bytes.Equal(last.definition, definition) {
		next.set = last.set // its schema is already compiled
	} else if next.set, err = pack.Of(a); err != nil {
		return nil, &messages.Problem{Code: messages.CodeInvalidPacks, Message: err.Error()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= actionsMax {
		clear(c.known)
	}
	c.known[ref] = next
	return next.set, nil
}

// Get returns the execution. One that no node has taken yet is requested. If the nodes refused it, the error is a
// *Problem with the code "refused" and their reason.
func (c *Client) Get(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	e, refused, err := c.inbox.Look(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return e, &messages.Problem{Code: messages.CodeNotFound, Message: fmt.Sprintf("there is no execution %s", id)}
	case refused != "":
		return e, &messages.Problem{Code: messages.CodeRefused, Message: refused}
	}
	return e, err
}

// Wait returns the execution once it has its outcome, or its current state when ctx ends. It polls at most 50 times a
// second at first and twice a second later, and once more when ctx ends. A store that does not answer delays that last
// look by up to 5 s.
func (c *Client) Wait(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	for pause := waitMin; ; pause = min(2*pause, waitMax) {
		e, err := c.look(ctx, id)
		if err != nil || e.Status.Terminal() || ctx.Err() != nil {
			return e, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Call submits one execution and waits for its outcome, like every Call. If neither the submission nor the action has a
// timeout, the deadline of a call to a session is based on 300 s, whatever the nodes' configuration is.
func (c *Client) Call(ctx context.Context, s troupe.Submission) (troupe.Execution, error) {
	id, err := c.Submit(ctx, s)
	if err != nil {
		return troupe.Execution{}, err
	}
	e := troupe.Execution{ID: id, Action: s.Action, Session: s.Session, Timeout: c.runTimeout(ctx, &s), RequestedAt: time.Now(), RunAt: s.RunAt}
	return troupe.Await(ctx, &e, c.Wait)
}

func (c *Client) runTimeout(ctx context.Context, s *troupe.Submission) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	if set, err := c.action(ctx, s.Action); err == nil { // it was read for the submission
		if a, ok := set.Action(s.Action); ok && a.Timeout > 0 {
			return a.Timeout
		}
	}
	return submit.TimeoutDefault
}

// look is Get with its own timeout.
func (c *Client) look(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookMax)
	defer cancel()
	return c.Get(limited, id)
}
