package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// Backend is what the API asks of its node. Every method honours its context; errors that a caller caused are
// *messages.Problem, everything else is the node's fault.
type Backend interface {
	// Submit checks, completes and stores the requests, all or none.
	Submit(ctx context.Context, requests []submit.Request) ([]store.Submitted, error)
	Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	List(ctx context.Context, f store.Filter) (store.Page, error)
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error)
	// Wait returns the execution once it is terminal, or as it stands when ctx ends.
	Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	// Cancel returns the execution as the cancel left it: cancelled, cancelling, or terminal before.
	Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error)
	// Retry stores a new execution of a terminal one's chain (reason manual_retry), under an idempotency key where one is
	// given. Where the execution has a retry already, that is the answer, as Existing, unless it has another key. By is who asks.
	Retry(ctx context.Context, id messages.ExecutionID, key, by string) (store.Submitted, error)
	// RetryAnswer says whether a retry follows the execution, when and as which, or why none does.
	RetryAnswer(ctx context.Context, e *messages.Execution) form.RetryView
	// Output returns what the execution's process has written so far.
	Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error)
	// Follow calls each for every live happening of the execution, from its first, until it is terminal or ctx ends.
	Follow(ctx context.Context, id messages.ExecutionID, each func(Live) error) error
	// Why explains what a not yet running execution waits for.
	Why(ctx context.Context, id messages.ExecutionID) (Explanation, error)

	// Workers returns the workers of all live nodes, or of the one that node names, and pools likewise.
	Workers(ctx context.Context, pool, node string) (Workers, error)
	// Worker and what follows act on a worker of any node. By is who asks, for the record.
	Worker(ctx context.Context, id messages.WorkerID) (WorkerDetail, error)
	// ProbeWorker probes now and returns the result.
	ProbeWorker(ctx context.Context, id messages.WorkerID, by string) (WorkerDetail, error)
	CordonWorker(ctx context.Context, id messages.WorkerID, cordoned bool, by string) error
	KillWorker(ctx context.Context, id messages.WorkerID, by string) error
	Pools(ctx context.Context, node string) (Pools, error)
	CordonPool(ctx context.Context, pool string, cordoned bool, by string) error
	Nodes(ctx context.Context) ([]NodeView, error)
	CordonNode(ctx context.Context, id string, cordoned bool, by string) error
	DrainNode(ctx context.Context, id, by string) error
	Sessions(ctx context.Context, pool, after string, boundOnly bool, limit int) ([]store.Session, error)
	Session(ctx context.Context, pool, name string) (form.SessionView, error)
	// EndSession ends an idle session's binding and returns the session without it. One that has none stays as it is.
	EndSession(ctx context.Context, pool, name, by string) (form.SessionView, error)
	Actions(ctx context.Context) ([]messages.Action, error)
	DeadLetters() store.DeadLetters
	// RequeueDeadLetter is Retry of the execution that the letter names.
	RequeueDeadLetter(ctx context.Context, id int64, by string) (store.Submitted, error)
	// Reload reads the packs again and returns what changed. By is who asks.
	Reload(ctx context.Context, by string) (ReloadReport, error)

	// Ready says whether the node may be sent work, and what it waits for or lacks.
	Ready(ctx context.Context) Readiness
	// Redact removes the action's secret parameters.
	Redact(action string, parameters json.RawMessage) json.RawMessage
}

// Live is one live happening of a running execution.
type Live struct {
	Kind     string          `json:"kind"` // status, stdout, stderr, progress, chunk, log, notice
	At       time.Time       `json:"at"`
	Status   messages.Status `json:"status,omitzero"`
	Data     []byte          `json:"data,omitempty"`     // stdout, stderr
	Chunk    json.RawMessage `json:"chunk,omitempty"`    // chunk
	Fraction *float64        `json:"fraction,omitempty"` // progress
	Level    string          `json:"level,omitempty"`    // log
	Message  string          `json:"message,omitempty"`  // progress, log; notice: of the node's own, about what it can see
}

// Explanation says why an execution is where it is.
type Explanation struct {
	Execution messages.ExecutionID `json:"execution"`
	Status    messages.Status      `json:"status,omitzero"` // not known while the store is away
	Reason    string               `json:"reason"`          // a closed set of words
	Message   string               `json:"message"`         // a sentence
	Until     time.Time            `json:"until,omitzero"`
	Retry     *form.RetryView      `json:"retry,omitempty"` // whether a retry follows
}

// WorkerView is a worker as lists show it.
type WorkerView struct {
	ID         messages.WorkerID   `json:"id"`
	Pool       string              `json:"pool"`
	Node       string              `json:"node"`
	Runtime    messages.Runtime    `json:"runtime"`
	Generation messages.Generation `json:"generation"`
	State      string              `json:"state"`
	Health     string              `json:"health"`
	Grade      string              `json:"grade"` // with the age of its heartbeat
	// GradeCauses are what keeps the grade from healthy, and heartbeat_future as a warning.
	GradeCauses []string             `json:"grade_causes,omitempty"`
	Cordoned    bool                 `json:"cordoned"`
	Pid         int                  `json:"pid,omitempty"`
	Since       time.Time            `json:"since,omitzero"`
	Execution   messages.ExecutionID `json:"execution,omitzero"`
	Heartbeat   time.Time            `json:"last_heartbeat,omitzero"`
	Restarts    int                  `json:"restarts"`
	LastError   string               `json:"last_failure,omitempty"`
	Report      json.RawMessage      `json:"health_report,omitempty"` // capabilities.health
	// Stale says that its node did not answer: this is its row in the store, as old as SeenAt.
	Stale  bool      `json:"stale,omitempty"`
	SeenAt time.Time `json:"seen_at,omitzero"`
}

// Unreached is a node that did not answer. What is shown of it comes from the store, and may be old.
type Unreached struct {
	Node        string               `json:"node"`
	Incarnation messages.Incarnation `json:"incarnation"`
	BeatAt      time.Time            `json:"beat_at,omitzero"`
	Why         string               `json:"why"`
}

// Workers are those of several nodes, and the nodes that did not answer.
type Workers struct {
	Workers   []WorkerView
	Unreached []Unreached
}

// Pools are the sums over several nodes, and the nodes that did not answer.
type Pools struct {
	Pools     []PoolView
	Unreached []Unreached
}

// NodeView is one incarnation, and how the node that was asked stands with it.
type NodeView struct {
	store.Node
	// Reach is self, or a word of how the two stand: see docs/clustering.md. Empty for a dead one.
	Reach string `json:"reach,omitempty"`
	Why   string `json:"why,omitempty"`
	// StoreSeen is whether it renews its lease, as it said when it was asked last.
	StoreSeen *bool `json:"store_seen,omitempty"`
}

// WorkerDetail is one worker with its history, newest first.
type WorkerDetail struct {
	WorkerView
	History []store.WorkerEvent `json:"history"`
}

// PoolView is one pool, summed over the nodes that serve it, or on one of them.
type PoolView struct {
	Name     string           `json:"name"`
	Runtime  messages.Runtime `json:"runtime"`
	Nodes    int              `json:"nodes"`
	Workers  int              `json:"workers"`
	Stale    int              `json:"stale,omitempty"` // of them, without a fresh heartbeat, or whose node did not answer
	Ready    int              `json:"ready"`
	Busy     int              `json:"busy"`
	Degraded int              `json:"degraded"`
	Starting int              `json:"starting"`
	Broken   bool             `json:"broken"`
	OldCode  bool             `json:"old_code,omitempty" doc:"it runs the code from before a reload, because the new one did not start"`
	Cordoned bool             `json:"cordoned"`
	Waiting  int              `json:"waiting"` // requested executions
	More     bool             `json:"waiting_more,omitempty" doc:"more than waiting says: it is counted up to 100,000 for each priority"`
	Placed   int              `json:"placed"`  // scheduled
	Running  int              `json:"running"` // and cancelling
	Window   int              `json:"window"`  // the largest
	Restarts int              `json:"restarts"`
	Reason   string           `json:"reason,omitempty"` // why it is broken, or what is wrong with some node's share
	Routing  Routing          `json:"routing"`
}

// Routing is who places a pool's executions, as the node that was asked knows it.
type Routing struct {
	Mode      string    `json:"mode" doc:"alone, leading or following: what this node is to the pool"`
	Router    string    `json:"router,omitempty" doc:"the node that leads the pool in the cluster"`
	Epoch     int64     `json:"epoch,omitempty" doc:"the term of that node"`
	Since     time.Time `json:"since,omitzero" doc:"since when this node is in its mode"`
	Followers int       `json:"followers,omitempty" doc:"other nodes whose workers this one places on"`
	Why       string    `json:"why,omitempty" doc:"why this node places on its own workers although another leads"`
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
	// Broken are the pools that were broken before, or do not change, and whose workers still fail to start.
	Broken []ReloadFailure `json:"broken,omitempty"`
}

// ReloadFailure is why a worker of a pool did not start.
type ReloadFailure struct {
	Pool      string   `json:"pool"`
	Packs     []string `json:"packs" doc:"whose code it is: the pack of the action that could not be loaded, or those that have changed"`
	Error     string   `json:"error"`
	Traceback string   `json:"traceback,omitempty"`
}

// String is the failure in a line.
func (f ReloadFailure) String() string {
	return fmt.Sprintf("pack %s: a worker of pool %s does not start: %s", strings.Join(f.Packs, ", "), f.Pool, f.Error)
}

// ReloadFailures are the details of the problem reload_failed.
type ReloadFailures struct {
	Pools []ReloadFailure `json:"pools"`
}
