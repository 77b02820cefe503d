package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Backend is what the API asks of its node. Every method honours its context; errors that a caller caused are
// *Problem, everything else is the node's fault.
type Backend interface {
	// Submit checks, completes and stores the requests, all or none.
	Submit(ctx context.Context, requests []SubmitRequest) ([]store.Submitted, error)
	Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	List(ctx context.Context, f store.Filter) (store.Page, error)
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error)
	// Wait returns the execution once it is terminal, or as it stands when ctx ends.
	Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	// Cancel returns the execution as the cancel left it: cancelled, cancelling, or terminal before.
	Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error)
	// Retry stores a new execution of a terminal one's chain (reason manual_retry).
	Retry(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	// Output returns what the execution's process has written so far.
	Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error)
	// Follow calls each for every live happening of the execution, from its first, until it is terminal or ctx ends.
	Follow(ctx context.Context, id messages.ExecutionID, each func(Live) error) error
	// Why explains what a not yet running execution waits for.
	Why(ctx context.Context, id messages.ExecutionID) (Explanation, error)

	Workers(ctx context.Context, pool string) ([]WorkerView, error)
	Worker(ctx context.Context, id messages.WorkerID) (WorkerDetail, error)
	// ProbeWorker probes now and returns the result.
	ProbeWorker(ctx context.Context, id messages.WorkerID) (WorkerDetail, error)
	CordonWorker(ctx context.Context, id messages.WorkerID, cordoned bool) error
	KillWorker(ctx context.Context, id messages.WorkerID) error
	Pools(ctx context.Context) ([]PoolView, error)
	CordonPool(ctx context.Context, pool string, cordoned bool) error
	Nodes(ctx context.Context) ([]store.Node, error)
	CordonNode(ctx context.Context, id string, cordoned bool) error
	DrainNode(ctx context.Context, id string) error
	Sessions(ctx context.Context, pool, after string, boundOnly bool, limit int) ([]store.Session, error)
	Actions(ctx context.Context) ([]messages.Action, error)
	DeadLetters() store.DeadLetters
	RequeueDeadLetter(ctx context.Context, id int64) (messages.Execution, error)
	// Reload reads the packs again and returns what changed.
	Reload(ctx context.Context) (ReloadReport, error)

	// Ready says whether the node may be sent work, and what it waits for or lacks.
	Ready(ctx context.Context) Readiness
	// Redact removes the action's secret parameters.
	Redact(action string, parameters json.RawMessage) json.RawMessage
}

// SubmitRequest is one submission as a caller gives it.
type SubmitRequest struct {
	ActionRef      string            `json:"action_ref"`
	Parameters     json.RawMessage   `json:"parameters,omitempty"`
	Session        string            `json:"session,omitempty"`
	Affinity       string            `json:"affinity,omitempty"`
	Priority       *int              `json:"priority,omitempty"`
	RunAt          time.Time         `json:"run_at,omitzero"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	TimeoutSeconds *float64          `json:"timeout_seconds,omitempty"`
	MaxRetries     *int              `json:"max_retries,omitempty"`
	QueueDeadline  *float64          `json:"queue_deadline_seconds,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	CreatedBy      string            `json:"-"`
	Trace          string            `json:"-"`
}

// Problem is an error that the caller can do something about. Status is the HTTP status it maps to.
type Problem struct {
	Status  int
	Code    string
	Message string
	Details any
}

func (p *Problem) Error() string { return p.Code + ": " + p.Message }

// Live is one live happening of a running execution.
type Live struct {
	Kind     string          `json:"kind"` // status, stdout, stderr, progress, chunk, log
	At       time.Time       `json:"at"`
	Status   messages.Status `json:"status,omitzero"`
	Data     []byte          `json:"data,omitempty"`     // stdout, stderr
	Chunk    json.RawMessage `json:"chunk,omitempty"`    // chunk
	Fraction *float64        `json:"fraction,omitempty"` // progress
	Level    string          `json:"level,omitempty"`    // log
	Message  string          `json:"message,omitempty"`  // progress, log
}

// Explanation says why an execution is where it is.
type Explanation struct {
	Execution messages.ExecutionID `json:"execution"`
	Status    messages.Status      `json:"status,omitzero"` // not known while the store is away
	Reason    string               `json:"reason"`          // a closed set of words
	Message   string               `json:"message"`         // a sentence
	Until     time.Time            `json:"until,omitzero"`
}

// WorkerView is a worker as lists show it.
type WorkerView struct {
	ID         messages.WorkerID    `json:"id"`
	Pool       string               `json:"pool"`
	Node       string               `json:"node"`
	Runtime    messages.Runtime     `json:"runtime"`
	Generation messages.Generation  `json:"generation"`
	State      string               `json:"state"`
	Health     string               `json:"health"`
	Grade      string               `json:"grade"`
	Cordoned   bool                 `json:"cordoned"`
	Pid        int                  `json:"pid,omitempty"`
	Since      time.Time            `json:"since,omitzero"`
	Execution  messages.ExecutionID `json:"execution,omitzero"`
	Heartbeat  time.Time            `json:"last_heartbeat,omitzero"`
	Restarts   int                  `json:"restarts"`
	LastError  string               `json:"last_failure,omitempty"`
	Report     json.RawMessage      `json:"health_report,omitempty"` // capabilities.health
}

// WorkerDetail is one worker with its history, newest first.
type WorkerDetail struct {
	WorkerView
	History []store.WorkerEvent `json:"history"`
}

// PoolView is one pool on this node.
type PoolView struct {
	Name     string           `json:"name"`
	Runtime  messages.Runtime `json:"runtime"`
	Workers  int              `json:"workers"`
	Ready    int              `json:"ready"`
	Busy     int              `json:"busy"`
	Degraded int              `json:"degraded"`
	Starting int              `json:"starting"`
	Broken   bool             `json:"broken"`
	Cordoned bool             `json:"cordoned"`
	Waiting  int              `json:"waiting"` // requested executions
	Placed   int              `json:"placed"`  // scheduled
	Running  int              `json:"running"` // and cancelling
	Window   int              `json:"window"`
	Restarts int              `json:"restarts"`
	Reason   string           `json:"reason,omitempty"` // why it is broken
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready       bool     `json:"ready"`
	WaitsFor    []string `json:"waits_for,omitempty"`
	BrokenPools []string `json:"broken_pools,omitempty"`
	Draining    bool     `json:"draining,omitempty"`
	Notes       []string `json:"notes,omitempty"` // what a person may want to know, ready or not
}

// ReloadReport says what a reload of the packs changed.
type ReloadReport struct {
	Packs    []string `json:"packs"`
	Added    []string `json:"added,omitempty"`    // actions
	Removed  []string `json:"removed,omitempty"`  // actions
	Changed  []string `json:"changed,omitempty"`  // actions
	Replaced []string `json:"replaced,omitempty"` // pools whose workers are replaced one by one
}
