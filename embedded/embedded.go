// Package embedded runs a Troupe node inside a Go program. The program registers actions with handlers, starts a node
// on an embedded store, and submits executions. Each execution gets exactly one outcome, also after crashes.
//
//	n, err := embedded.New(embedded.Config{Data: "data"},
//		troupe.Action{Name: "mail.send", Handler: send, MaxRetries: 3})
//	…
//	err = n.Start(ctx)
//	e, err := n.Submit(ctx, troupe.Submission{Action: "mail.send", Parameters: letter})
//	e, err = n.Wait(ctx, e.ID)
//
// The same node can serve actions from packs (Python, Node.js, shell and any other program) and the HTTP API; see
// Config. The command line works with such a node as with any other.
package embedded

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
)

// RunHelper is the first call of main in a program that serves actions which run as processes. The node starts the
// same binary again as the guardian of its workers. That begins before main, so RunHelper returns at once.
func RunHelper() { process.RunHelper() }

// Config configures a node. Zero fields mean the defaults.
type Config struct {
	Data     string   // folder of the embedded store and of the workers' files; required
	Store    string   // postgres:// address of a store that nodes share; empty: the embedded one
	Broker   string   // amqp:// or amqps:// address of a broker that they share too; empty: they hand work to each other directly
	Dispatch string   // how executions go to workers, "direct" or "broker" (docs/queues.md); default: "broker" with a Broker, else "direct"
	Prefix   string   // head of every queue's and exchange's name on it; default "troupe"
	Name     string   // of the node; default: the host's name
	Listen   string   // address of the HTTP API, such as "127.0.0.1:7070"; empty: none
	Packs    []string // folders with packs
	Workers  int      // how many handlers of this program run at a time; default 128
	Logger   hclog.Logger
	// Pools is what is set for single pools, by their names. A pool without a Dispatch has the node's.
	Pools node.PoolSettings
	// PeersListen is the address at which the other nodes of a shared store reach this one, as host:port on a loopback
	// address. The default is a free port of 127.0.0.1. With "off" it does not listen.
	PeersListen string
	// Webhooks says which addresses the node may call to tell of outcomes by HTTP, and by which secrets the calls are signed; default:
	// public addresses by https.
	Webhooks node.Webhooks
	// ShutdownTimeout is how long Stop waits for running work; default 30 s.
	ShutdownTimeout time.Duration
}

// Node is one node inside this program.
type Node struct {
	node *node.Keeper
	tune atomic.Pointer[func()] // ends what Start set for the whole process
}

// New checks the configuration and the actions and returns a node. It starts nothing.
func New(cfg Config, actions ...troupe.Action) (*Node, error) {
	settings := node.Config{
		Data: cfg.Data, Name: cfg.Name, Listen: cfg.Listen, Packs: cfg.Packs, Logger: cfg.Logger, NoBuiltins: true,
		StoreURL: cfg.Store, BrokerURL: cfg.Broker, Broker: broker.Settings{Prefix: cfg.Prefix}, Dispatching: node.Dispatching{Dispatch: cfg.Dispatch, Pools: cfg.Pools},
		Webhooks: cfg.Webhooks, Peers: peers.Settings{Listen: cfg.PeersListen}, Worker: node.Worker{ShutdownTimeout: cfg.ShutdownTimeout}, Handlers: map[string]messages.Handler{},
		Workers: map[messages.Runtime]int{runtime.All().Handlers().Name: cfg.Workers},
	}
	for _, a := range actions {
		if a.Handler == nil {
			return nil, fmt.Errorf("action %q: it has no handler", a.Name)
		}
		hook, err := webhookOf(&a)
		if err != nil {
			return nil, err
		}
		settings.Handlers[a.Name] = a.Handler
		settings.Actions = append(settings.Actions, messages.Action{
			Ref: a.Name, Timeout: a.Timeout, MaxRetries: a.MaxRetries, RetriesConsented: a.MaxRetries > 0, Retry: a.Retry, RetryRules: a.RetryRules,
			Idempotent: a.Idempotent, Parameters: a.Parameters, Webhook: hook,
		})
	}
	keeper, err := node.NewKeeper(settings)
	if err != nil {
		return nil, err
	}
	return &Node{node: keeper}, nil
}

// webhookOf is who is told of an action's outcomes by HTTP; nil: it does not say.
func webhookOf(a *troupe.Action) (*messages.Webhook, error) {
	if a.Webhook == nil {
		return nil, nil
	}
	made, problem := a.Webhook.Read()
	if problem != nil {
		return nil, fmt.Errorf("action %q: %s", a.Name, problem.Message)
	}
	return made, nil
}

// Start starts the node and continues the executions that an earlier run of the program left unfinished. While a shared
// store is unavailable it waits, until ctx ends. Submissions meanwhile fail with a *Problem with the code
// store_unavailable.
//
// Until Stop, the process's garbage collector has the target that the troupe binary sets for a node (GOGC=300), unless the program has
// set its own, by GOGC or by debug.SetGCPercent.
func (n *Node) Start(ctx context.Context) error {
	end := node.Tune()
	n.tune.Store(&end)
	err := n.node.Start(ctx)
	if err != nil {
		end()
	}
	return err
}

// Stop drains and stops the node: running work may finish within the shutdown timeout. Stop does not wait longer than
// ctx.
func (n *Node) Stop(ctx context.Context) error {
	if end := n.tune.Load(); end != nil {
		defer (*end)()
	}
	return n.node.Stop(ctx)
}

// Addr returns the address of the HTTP API, or nothing if there is no API.
func (n *Node) Addr() string { return n.node.Addr() }

// Submit stores one execution. After it returns without an error, the execution gets an outcome. After an error that is
// no *Problem, repeat the call with the same idempotency key.
func (n *Node) Submit(ctx context.Context, s troupe.Submission) (troupe.Execution, error) {
	list, err := n.SubmitAll(ctx, []troupe.Submission{s})
	if err != nil {
		return troupe.Execution{}, err
	}
	return list[0], nil
}

// SubmitAll stores up to 10,000 executions, all or none, and returns them in order.
func (n *Node) SubmitAll(ctx context.Context, list []troupe.Submission) ([]troupe.Execution, error) {
	requests := make([]submit.Request, len(list))
	for i := range list {
		r, err := list[i].Request()
		if err != nil {
			return nil, err
		}
		requests[i] = r
	}
	submitted, err := n.node.Backend().Submit(ctx, requests)
	if err != nil {
		return nil, store.AsProblem(err)
	}
	executions := make([]troupe.Execution, len(submitted))
	for i := range submitted {
		executions[i] = submitted[i].Execution
	}
	return executions, nil
}

// Get returns one execution.
func (n *Node) Get(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	return n.node.Backend().Get(ctx, id)
}

// Wait returns the execution once it has its outcome, or its current state when ctx ends.
func (n *Node) Wait(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	return n.node.Wait(ctx, id)
}

// RetryAnswer says whether the execution has or gets a retry: its id, time and reason, or why there is none.
func (n *Node) RetryAnswer(ctx context.Context, id troupe.ExecutionID) (troupe.RetryAnswer, error) {
	e, err := n.node.Backend().Get(ctx, id)
	if err != nil {
		return troupe.RetryAnswer{}, err
	}
	return n.node.Backend().RetryAnswer(ctx, &e), nil
}

// Retry submits an execution that ended without a result again, as a new execution of its chain, and returns the new
// one. An execution has one retry. If it was retried before, automatically or by Retry, that retry is returned.
func (n *Node) Retry(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	made, err := n.node.Backend().Retry(ctx, id, "", api.ProgramCaller)
	return made.Execution, err
}

// Call submits an execution and waits for its outcome. An execution that is retried leads to the last of its chain. When ctx ends first, it returns the execution's current state
// and no error. A call to a session also has a deadline of the run's timeout plus 5 s. After it, the error is a
// *Problem with the code "timeout", and the execution goes on.
func (n *Node) Call(ctx context.Context, s troupe.Submission) (troupe.Execution, error) {
	r, err := s.Request()
	if err != nil {
		return troupe.Execution{}, err
	}
	e, wait, leave, err := n.node.Submit(ctx, r)
	if err != nil {
		return e, store.AsProblem(err)
	}
	defer leave()
	return troupe.Await(ctx, &e, func(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
		if id != e.ID {
			return n.Wait(ctx, id) // a retry of it
		}
		return wait(ctx)
	})
}

// Session returns one session of a pool.
func (n *Node) Session(ctx context.Context, pool, name string) (troupe.Session, error) {
	return n.node.Backend().Session(ctx, pool, name)
}

// EndSession ends an idle session: its binding ends, and its worker drops its state. The session's next execution
// learns that the state is lost. While an execution of the session is placed or runs, the error is a *Problem with the
// code session_busy. A session without a binding does not change.
func (n *Node) EndSession(ctx context.Context, pool, name string) (troupe.Session, error) {
	return n.node.Backend().EndSession(ctx, pool, name, api.ProgramCaller)
}

// Cancel requests that an execution stops, and returns it in its new state: cancelled, cancelling, or ended before.
func (n *Node) Cancel(ctx context.Context, id troupe.ExecutionID) (troupe.Execution, error) {
	return n.node.Backend().Cancel(ctx, id, api.ProgramCaller)
}
