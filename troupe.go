// Package troupe runs supervised, durable work inside a Go program: the program registers actions with handlers, starts
// a node on an embedded store, and submits executions, each of which gets exactly one outcome whatever dies meanwhile.
//
//	t, err := troupe.New(troupe.Config{Data: "data"},
//		troupe.Action{Name: "mail.send", Handler: send, MaxRetries: 3})
//	…
//	err = t.Start(ctx)
//	e, err := t.Submit(ctx, troupe.Submission{Action: "mail.send", Parameters: letter})
//	e, err = t.Wait(ctx, e.ID)
//
// The same node can serve actions from packs (Python, Node.js, shell and any other program) and the HTTP API; see
// Config. Everything that the command line shows of a node it shows of such a program too.
package troupe

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/runtime"
)

// Names of the vocabulary, so that callers need no other package.
type (
	// Execution is one request to run an action, with everything that is known of it.
	Execution = messages.Execution
	// ExecutionID names one execution for ever.
	ExecutionID = messages.ExecutionID
	// Status is where an execution stands.
	Status = messages.Status
	// Error is why an execution did not complete. A handler that returns one has it stored as it is.
	Error = messages.Error
	// Task is what a handler is given.
	Task = messages.Task
	// Handler runs one execution. It must return soon after its context ends; a panic counts as its worker's death.
	Handler = messages.Handler
	// RetryPolicy is the back-off between retries.
	RetryPolicy = messages.RetryPolicy
	// Session is one session of a pool as it stands.
	Session = api.SessionView
	// Affinity says what becomes of a session's execution while the session's worker is not free.
	Affinity = messages.Affinity
	// RetryAnswer is whether a retry follows an execution.
	RetryAnswer = api.RetryView
	// RetryRules say which failures are retried.
	RetryRules = messages.RetryRules
	// Problem is an error that the caller of a method can do something about.
	Problem = messages.Problem
)

// The statuses.
const (
	Requested  = messages.Requested
	Scheduled  = messages.Scheduled
	Running    = messages.Running
	Cancelling = messages.Cancelling
	Completed  = messages.Completed
	Failed     = messages.Failed
	TimedOut   = messages.TimedOut
	Cancelled  = messages.Cancelled
	Abandoned  = messages.Abandoned
)

// The affinities.
const (
	Hint       = messages.AffinityHint       // it runs on another worker
	Strict     = messages.AffinityStrict     // it waits
	StrictFail = messages.AffinityStrictFail // it fails at once with session_busy, or session_lost where the worker is gone
)

// Retriable says of a handler's error that another run may not meet it: it is retried, where retries are left.
func Retriable(err error) error { return messages.Judged(err, true) }

// Final says of a handler's error that every other run would meet it too: it is never retried.
func Final(err error) error { return messages.Judged(err, false) }

// RunHelper must be the first call of main in a program that serves actions which run as processes: the node starts
// this very binary again as the guardian of its workers. In every other run of the program it returns at once.
func RunHelper() { process.RunHelper() }

// Action is one action whose code is in this program.
type Action struct {
	Name       string // two or more words joined by dots, as in "mail.send"
	Handler    Handler
	Timeout    time.Duration   // of one run; 0: 300 s
	MaxRetries int             // 0: none. Above 0 it is also consent to repeat after the worker was lost.
	Retry      RetryPolicy     // zero fields: 1 s, doubling to 300 s, spread by a fifth
	RetryRules RetryRules      // zero: every failure is retried unless it is final
	Idempotent bool            // may be run again when a crash leaves unknown whether it ran
	Parameters json.RawMessage // JSON Schema 2020-12 that parameters must match; empty: any object
}

// Config is where and how a node runs. Zero fields mean the default.
type Config struct {
	Data    string   // folder of the embedded store and of what workers need; required
	Store   string   // postgres:// address of a store that nodes share, together with Broker; empty: the embedded one
	Broker  string   // amqp:// or amqps:// address of the broker
	Prefix  string   // head of every queue's and exchange's name on it; default "troupe"
	Name    string   // of the node; default: the host's name
	Listen  string   // address of the HTTP API, such as "127.0.0.1:7070"; empty: none
	Packs   []string // folders with packs
	Workers int      // that run handlers of this program at a time; default 128
	Logger  hclog.Logger
	// PeersListen is where the other nodes of a shared store reach this one, as host:port on a loopback address; default: a free
	// port of 127.0.0.1. "off": nowhere.
	PeersListen string
	// ShutdownTimeout is how long Stop lets running work go on; default 30 s.
	ShutdownTimeout time.Duration
}

// Troupe is one node inside this program.
type Troupe struct {
	node *node.Keeper
}

// New checks the configuration and the actions and returns a node that has started nothing.
func New(cfg Config, actions ...Action) (*Troupe, error) {
	settings := node.Config{
		Data: cfg.Data, Name: cfg.Name, Listen: cfg.Listen, Packs: cfg.Packs, Logger: cfg.Logger, NoBuiltins: true,
		StoreURL: cfg.Store, BrokerURL: cfg.Broker, Broker: broker.Settings{Prefix: cfg.Prefix},
		Peers: peers.Settings{Listen: cfg.PeersListen}, ShutdownTimeout: cfg.ShutdownTimeout, Handlers: map[string]messages.Handler{},
		Workers: map[messages.Runtime]int{runtime.All().Handlers().Name: cfg.Workers},
	}
	for _, a := range actions {
		if a.Handler == nil {
			return nil, fmt.Errorf("action %q: it has no handler", a.Name)
		}
		settings.Handlers[a.Name] = a.Handler
		settings.Actions = append(settings.Actions, messages.Action{
			Ref: a.Name, Timeout: a.Timeout, MaxRetries: a.MaxRetries, RetriesConsented: a.MaxRetries > 0, Retry: a.Retry, RetryRules: a.RetryRules,
			Idempotent: a.Idempotent, Parameters: a.Parameters,
		})
	}
	n, err := node.NewKeeper(settings)
	if err != nil {
		return nil, err
	}
	return &Troupe{node: n}, nil
}

// Start brings the node up and gives back to it what an earlier run of the program left unfinished. While a shared store
// is away it waits, until ctx ends; what submits meanwhile gets a *Problem with the code store_unavailable.
func (t *Troupe) Start(ctx context.Context) error { return t.node.Start(ctx) }

// Stop ends the node in order: running work may finish within the shutdown timeout. The end of ctx cuts that short.
func (t *Troupe) Stop(ctx context.Context) error { return t.node.Stop(ctx) }

// Addr is the address of the HTTP API; empty without one.
func (t *Troupe) Addr() string { return t.node.Addr() }

// Submission is one request to run an action. Only Action is required.
type Submission struct {
	Action         string
	Parameters     any      // encoded as JSON: an object
	Session        string   // executions with the same key run on the same worker, one at a time, in order
	Affinity       Affinity // how strongly the session's worker is wanted; empty: the action's, and Strict where it has none
	Priority       *int     // 0 to 9, 9 first; nil: 5
	RunAt          time.Time
	IdempotencyKey string // the same key and request again: the same execution
	Timeout        time.Duration
	MaxRetries     *int
	Labels         map[string]string
}

func (s *Submission) request() (submit.Request, error) {
	r := submit.Request{
		ActionRef: s.Action, Session: s.Session, Affinity: string(s.Affinity), Priority: s.Priority, RunAt: s.RunAt, IdempotencyKey: s.IdempotencyKey,
		MaxRetries: s.MaxRetries, Labels: s.Labels,
	}
	if s.Timeout != 0 {
		seconds := s.Timeout.Seconds()
		r.TimeoutSeconds = &seconds
	}
	if s.Parameters == nil {
		return r, nil
	}
	raw, err := json.Marshal(s.Parameters)
	if err != nil {
		return r, fmt.Errorf("parameters of %s: %w", s.Action, err)
	}
	r.Parameters = raw
	return r, nil
}

// Submit stores one execution. Once it returns without an error the execution will get an outcome. After an error
// that is no *Problem, repeat the call with the same idempotency key.
func (t *Troupe) Submit(ctx context.Context, s Submission) (Execution, error) {
	list, err := t.SubmitAll(ctx, []Submission{s})
	if err != nil {
		return Execution{}, err
	}
	return list[0], nil
}

// SubmitAll stores up to 10,000 executions, all or none, and returns them in order.
func (t *Troupe) SubmitAll(ctx context.Context, list []Submission) ([]Execution, error) {
	requests := make([]submit.Request, len(list))
	for i := range list {
		r, err := list[i].checked()
		if err != nil {
			return nil, err
		}
		requests[i] = r
	}
	submitted, err := t.node.Backend().Submit(ctx, requests)
	if err != nil {
		return nil, err
	}
	executions := make([]Execution, len(submitted))
	for i := range submitted {
		executions[i] = submitted[i].Execution
	}
	return executions, nil
}

// Get returns one execution.
func (t *Troupe) Get(ctx context.Context, id ExecutionID) (Execution, error) {
	return t.node.Backend().Get(ctx, id)
}

// Wait returns the execution once it has its outcome, or as it stands when ctx ends.
func (t *Troupe) Wait(ctx context.Context, id ExecutionID) (Execution, error) {
	return t.node.Wait(ctx, id)
}

// RetryAnswer says whether a retry follows the execution: as which, when and for what; or why none does.
func (t *Troupe) RetryAnswer(ctx context.Context, id ExecutionID) (RetryAnswer, error) {
	e, err := t.node.Backend().Get(ctx, id)
	if err != nil {
		return RetryAnswer{}, err
	}
	return t.node.Backend().RetryAnswer(ctx, &e), nil
}

// Retry submits again what has ended without a result, as a new execution of its chain, and returns that. An execution has one
// retry: one that was retried before, by itself or by hand, gives the retry that it has.
func (t *Troupe) Retry(ctx context.Context, id ExecutionID) (Execution, error) {
	made, err := t.node.Backend().Retry(ctx, id, "", api.ProgramCaller)
	return made.Execution, err
}

// Call submits an execution and waits for its outcome, or until ctx ends, which is no error: then the execution is returned
// as it stands. A call to a session has a deadline beside: the run's timeout and 5 s. Past it the error is a *Problem with
// the code "timeout", and the execution goes on.
func (t *Troupe) Call(ctx context.Context, s Submission) (Execution, error) {
	e, err := t.Submit(ctx, s)
	if err != nil {
		return e, err
	}
	return call(ctx, &e, t.Wait)
}

// call waits for an execution that was just submitted.
func call(ctx context.Context, e *Execution, wait func(context.Context, ExecutionID) (Execution, error)) (Execution, error) {
	limit, bounded := submit.CallTime(e)
	if !bounded {
		return wait(ctx, e.ID)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	now, err := wait(limited, e.ID)
	if err == nil && !now.Status.Terminal() && limited.Err() != nil && ctx.Err() == nil {
		return now, submit.CallTimedOut(&now)
	}
	return now, err
}

// Session returns one session of a pool.
func (t *Troupe) Session(ctx context.Context, pool, name string) (Session, error) {
	return t.node.Backend().Session(ctx, pool, name)
}

// EndSession ends an idle session: its binding ends, and its worker drops its state. The session's next execution is told
// that the state is lost. While something of the session is placed or runs, the error is a *Problem with the code
// session_busy. A session that has no binding stays as it is.
func (t *Troupe) EndSession(ctx context.Context, pool, name string) (Session, error) {
	return t.node.Backend().EndSession(ctx, pool, name, api.ProgramCaller)
}

// Cancel asks an execution to stop and returns it as the wish left it: cancelled, cancelling, or ended before.
func (t *Troupe) Cancel(ctx context.Context, id ExecutionID) (Execution, error) {
	return t.node.Backend().Cancel(ctx, id, api.ProgramCaller)
}
