package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// NodeState is where an incarnation stands.
type NodeState string

// The states of an incarnation.
const (
	NodeActive   NodeState = "active"
	NodeDraining NodeState = "draining"
	NodeDead     NodeState = "dead"
)

// Node is one incarnation's row.
type Node struct {
	Incarnation messages.Incarnation `json:"incarnation"`
	Name        string               `json:"name"`
	Version     string               `json:"version"`
	State       NodeState            `json:"state"`
	Cordoned    bool                 `json:"cordoned"`
	StartedAt   time.Time            `json:"started_at"`
	BeatAt      time.Time            `json:"beat_at"`
	LeaseUntil  time.Time            `json:"lease_until,omitzero"`
	Address     string               `json:"address,omitempty"`
	// PeerAddress is where its peers reach it, as host:port; empty: nowhere.
	PeerAddress string `json:"peer_address,omitempty"`
	// PeerScope is where PeerAddress means this node: a loopback address does so on its own machine alone. Nodes of another
	// scope do not dial it. Empty: everywhere.
	PeerScope string `json:"peer_scope,omitempty"`
	// PeerProof is the version of the proof that it gives its peers, and asks of them; 0: none, it is of an older release.
	PeerProof int `json:"peer_proof,omitempty"`
	// SteadySince is since when the lease has been renewed without a gap (SteadyGap).
	SteadySince time.Time `json:"steady_since,omitzero"`
	// Present says that the store still sees the incarnation's own connection. A hint only: a frozen process keeps it.
	Present bool `json:"present,omitempty"`
}

// Pulse is the store's answer to a beat.
type Pulse struct {
	At    time.Time // the store's clock
	Lease time.Time // until when the lease holds now
	// Nodes are all incarnations that nobody has declared dead, the caller included.
	Nodes []Node
}

// SteadyGap is the share of its lease, in thousandths, that may pass between two renewals of a node that is steady: two and a
// half of the four beats of a lease by default. Others may have been kept from renewing for as long as the node was, by an outage
// or a step of the store's clock; one that lives had renewed up to a beat before, so within this share its lease has not run out.
const SteadyGap = 625

// Nodes is the part of the store that knows the incarnations.
type Nodes interface {
	// Join records a new incarnation as active, with a lease of the given length. A store that holds a lock of its own
	// (the embedded one) marks every other incarnation dead in the same transaction. It may be repeated. ErrNotFound: the
	// incarnation was declared dead, which is final.
	Join(ctx context.Context, n Node, lease time.Duration) error
	// Beat renews the incarnation's lease, one that had run out too. After more than SteadyGap of it without a renewal, and after
	// a step back of the store's clock by as much, it is steady from now on again.
	// ErrNotFound: the incarnation was declared dead.
	Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (Pulse, error)
	// DeclareDead marks dead, and their workers inactive, all other incarnations whose lease has run out, and returns
	// them. It has no effect unless the caller has renewed its own lease within SteadyGap of it, and has been steady for at
	// least its length: after an outage that others could not renew in, nobody is dead. The embedded store evaluates no lease and declares nobody. What
	// the dead led is nobody's from then on (Lead), which the other nodes are told (HintRouter).
	DeclareDead(ctx context.Context, by messages.Incarnation, lease time.Duration) ([]Node, error)
	// SetNode changes an incarnation's state; where it is not active, it marks its workers inactive and gives up the pools
	// that it leads, as Resign does, in the same transaction.
	SetNode(ctx context.Context, inc messages.Incarnation, state NodeState) error
	// CordonNode records operator intent.
	CordonNode(ctx context.Context, inc messages.Incarnation, cordoned bool) error
	// ListNodes returns every known incarnation, newest first.
	ListNodes(ctx context.Context) ([]Node, error)
	// CordonPool records operator intent about a pool on every node: it outlives the nodes, and the pool need not exist.
	CordonPool(ctx context.Context, pool string, cordoned bool) error
	// CordonedPools returns the cordoned pools, by name.
	CordonedPools(ctx context.Context) ([]string, error)
}

// Worker is one worker's row. State, Health and Grade are the lifecycle's words as text.
type Worker struct {
	Key          messages.WorkerKey  `json:"key"`
	ID           messages.WorkerID   `json:"id"`
	Generation   messages.Generation `json:"generation"`
	Runtime      messages.Runtime    `json:"runtime"`
	State        string              `json:"state"`
	Health       string              `json:"health"`
	Active       bool                `json:"active"`
	Cordoned     bool                `json:"cordoned"`
	Beat         time.Time           `json:"last_heartbeat,omitzero"`
	BeatEvery    time.Duration       `json:"heartbeat_interval"`
	Capabilities json.RawMessage     `json:"capabilities,omitempty"`
	Since        time.Time           `json:"since,omitzero"`
}

// WorkerEvent is one stored transition of a worker.
type WorkerEvent struct {
	Key        messages.WorkerKey  `json:"key"`
	Generation messages.Generation `json:"generation"`
	At         time.Time           `json:"at"`
	From       string              `json:"from"`
	To         string              `json:"to"`
	Reason     string              `json:"reason"`
	Lasted     time.Duration       `json:"lasted"` // in the state it left
	Metadata   json.RawMessage     `json:"metadata,omitempty"`
}

// Workers is the part of the store that knows the workers.
type Workers interface {
	// SaveWorkers inserts or replaces rows by key. Rows of idle go workers may come in thousands. Where nodes share the
	// store, a Beat that is set is written as the store's own now: their clocks may differ.
	SaveWorkers(ctx context.Context, workers []Worker) error
	// Heartbeat writes the beat of all the incarnation's active workers to now, in one statement, and the capabilities of
	// those given. While the incarnation drains its workers are inactive, and those that have not ended beat all the same;
	// those of one that is dead do not.
	Heartbeat(ctx context.Context, inc messages.Incarnation, capabilities map[messages.WorkerKey]json.RawMessage) error
	// RecordTransitions appends worker events and brings the rows' state, health and generation up to date.
	RecordTransitions(ctx context.Context, events []WorkerEvent, healths []string) error
	// CordonWorker records operator intent.
	CordonWorker(ctx context.Context, key messages.WorkerKey, cordoned bool) error
	// ListWorkers returns the rows of live incarnations, by id; pool "" means all.
	ListWorkers(ctx context.Context, pool string) ([]Worker, error)
	// EndedWorkers returns the workers that a dead incarnation had, by id: their keys, ids, runtimes and the states that they
	// were last known in. It returns none of one that is not dead.
	EndedWorkers(ctx context.Context, inc messages.Incarnation) ([]Worker, error)
	// WorkerEvents returns the newest events of one worker, newest first.
	WorkerEvents(ctx context.Context, key messages.WorkerKey, limit int) ([]WorkerEvent, error)
}

// Session is one session's row. Worker is zero while it is unbound.
type Session struct {
	Pool    string             `json:"pool"`
	Session string             `json:"session"`
	Epoch   int64              `json:"epoch"`
	Worker  messages.WorkerKey `json:"worker,omitzero"`
	// StartedEpoch is the epoch of the first run that was claimed to use the session's state; 0: none has been. A session
	// that nothing has run in has nothing to lose.
	StartedEpoch int64 `json:"started_epoch,omitempty"`
	// FinishedEpoch is the epoch of the session's last finished execution; a run is told that state was lost while
	// its own epoch is above it and no current snapshot was restored.
	FinishedEpoch int64 `json:"finished_epoch"`
	// Runs counts the finished executions whose outcome Leaves the state as they made it.
	Runs          int64     `json:"runs"`
	BoundAt       time.Time `json:"bound_at,omitzero"`
	TouchedAt     time.Time `json:"touched_at,omitzero"`
	SnapshotEpoch int64     `json:"snapshot_epoch,omitempty"` // 0: no snapshot
	// SnapshotRuns is how many of Runs the snapshot holds: fewer, and it is older than what finished last.
	SnapshotRuns int64 `json:"snapshot_runs,omitempty"`
}

// Leaves reports whether a run with this outcome left its session's state with the worker. One that took its worker along
// left none: its own outcome tells of what it did not do, and the session goes on from before it.
func Leaves(s messages.Status) bool {
	return s == messages.Completed || s == messages.Failed || s == messages.Cancelled
}

// SessionRef names one binding.
type SessionRef struct {
	Pool, Session string
	Epoch         int64
	// Runs, for SaveSnapshot alone, is how many runs the state holds of those that Leaves counts in this epoch.
	Runs int64
}

// Binding is one binding with the worker that it binds to.
type Binding struct {
	Pool, Session string
	Epoch         int64
	Worker        messages.WorkerKey
}

// BoundQuery asks for bound sessions of one pool, ordered by their workers' incarnations and slots, then by name.
type BoundQuery struct {
	Pool string
	// Worker, where set, asks for what is bound to it alone, whether its node lives or not.
	Worker messages.WorkerKey
	// After is the last session of the page before; its zero value: none.
	After Session
	Limit int // 1 to BoundMax; 0: that
}

// BoundMax bounds a page of bound sessions.
const BoundMax = 2000

// Sessions is the part of the store that holds the sessions. Bindings are made by Place alone.
type Sessions interface {
	// BoundSessions returns a page of the sessions that are bound to workers of incarnations nobody has declared dead. How
	// many sessions are bound to nobody, or to the dead, costs it nothing.
	BoundSessions(ctx context.Context, q BoundQuery) ([]Session, error)
	// GetSession returns one session, or ErrNotFound.
	GetSession(ctx context.Context, pool, session string) (Session, error)
	// ListSessions returns a page ordered by (pool, session) behind the given position; bound only where asked.
	ListSessions(ctx context.Context, pool, after string, boundOnly bool, limit int) ([]Session, error)
	// Unbind ends bindings that still are the given ones; the rows stay, unbound. It returns how many. The worker is part of
	// a binding: a router that lost the race for a session tried the same epoch as the one that won it.
	Unbind(ctx context.Context, bindings []Binding) (int, error)
	// SaveSnapshot keeps a session's state as of an epoch and the runs in it. It has no effect where the session has gone
	// on to another epoch, or a newer state is kept. It never claims more runs than have finished.
	SaveSnapshot(ctx context.Context, ref SessionRef, state json.RawMessage) error
	// Snapshot returns the kept state and its epoch, or ErrNotFound.
	Snapshot(ctx context.Context, pool, session string) (state json.RawMessage, epoch int64, err error)
}

// DeadLetter is the forensic record of a message that came back through the dead-letter exchange or could not be
// understood.
type DeadLetter struct {
	ID         int64                `json:"id"`
	At         time.Time            `json:"at"`
	Execution  messages.ExecutionID `json:"execution,omitzero"`
	Attempt    messages.Attempt     `json:"attempt,omitempty"`
	Action     string               `json:"action,omitempty"`
	Worker     messages.WorkerID    `json:"worker,omitempty"`
	Queue      string               `json:"queue,omitempty"`
	Reason     string               `json:"reason"` // expired, rejected, maxlen, delivery_limit, unknown, malformed, refused
	DiedAt     time.Time            `json:"died_at,omitzero"`
	Headers    json.RawMessage      `json:"headers,omitempty"`
	Body       []byte               `json:"body,omitempty"` // up to LetterBodyMax of it; lists leave it out
	BodySize   int64                `json:"body_size,omitempty"`
	BodyCut    bool                 `json:"body_cut,omitempty"`    // the body had more than is kept
	BodySHA256 string               `json:"body_sha256,omitempty"` // of all of a body that was cut, in hex
	Resolution string               `json:"resolution"`            // failed, stale, missing, quarantined, requeued, discarded
	// Key, where set, names the death, so that a message that is handled twice leaves one record. It is not read back.
	Key string `json:"-"`
}

// DeadLetterCount is one row of the dead-letter statistics.
type DeadLetterCount struct {
	Worker messages.WorkerID `json:"worker"`
	Action string            `json:"action"`
	Reason string            `json:"reason"`
	Hour   time.Time         `json:"hour"`
	Count  int               `json:"count"`
}

// DeadLetters is the part of the store that keeps dead letters.
type DeadLetters interface {
	// SaveDeadLetter keeps the record, with an event of the execution where that is known, and returns its id. A Key that
	// is there already keeps the record under it as it is, and returns that one's id. Of the body no more is kept than CutBody
	// leaves.
	SaveDeadLetter(ctx context.Context, d DeadLetter) (int64, error)
	// ListDeadLetters returns a page without bodies, newest first, below the given id (0: from the newest).
	ListDeadLetters(ctx context.Context, before int64, limit int) ([]DeadLetter, error)
	// GetDeadLetter returns one record, with as much of its body as CutBody leaves.
	GetDeadLetter(ctx context.Context, id int64) (DeadLetter, error)
	// ResolveDeadLetter records what a person did with it: requeued or discarded.
	ResolveDeadLetter(ctx context.Context, id int64, resolution string) error
	DeadLetterStats(ctx context.Context, since time.Time) ([]DeadLetterCount, error)
}
