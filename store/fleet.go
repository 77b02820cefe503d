package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// NodeState is the state of an incarnation.
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
	// PeerAddress is the host:port at which peers reach the node; empty: none.
	PeerAddress string `json:"peer_address,omitempty"`
	// PeerScope says where PeerAddress is valid. A loopback address is valid only on the node's own machine. Nodes of
	// another scope do not dial it. Empty: everywhere.
	PeerScope string `json:"peer_scope,omitempty"`
	// PeerProof is the version of the proof that the node gives its peers and asks of them; 0: none, an older release.
	PeerProof int `json:"peer_proof,omitempty"`
	// SteadySince is the time since which the lease was renewed without a pause above SteadyGap.
	SteadySince time.Time `json:"steady_since,omitzero"`
	// Present says that the store still sees the incarnation's own connection. It is only a hint: a frozen process keeps
	// its connection.
	Present bool `json:"present,omitempty"`
	// PresentSince is since when, by its last renewal, that connection has been the same one; zero: the store does not see it, or
	// the node is of an older release.
	PresentSince time.Time `json:"present_since,omitzero"`
	// Ended says how it ended, where it is dead and that is known.
	Ended NodeEnd `json:"ended,omitempty"`
}

// NodeEnd is how an incarnation ended.
type NodeEnd string

// The ends of an incarnation.
const (
	EndStopped  NodeEnd = "stopped"  // it left in order
	EndLease    NodeEnd = "lease"    // its lease ran out
	EndRefused  NodeEnd = "refused"  // the store had ended its connection, and its address for peers refused every other one
	EndReplaced NodeEnd = "replaced" // the store had ended its connection, and a later node has its address for peers
)

// Sentence says in words how it ended; empty: that is not known.
func (e NodeEnd) Sentence() string {
	switch e {
	case EndStopped:
		return "it stopped in order"
	case EndLease:
		return "its lease ran out"
	case EndRefused:
		return "its process ended: the store had lost its connection, and its address for peers refused others"
	case EndReplaced:
		return "its process ended: the store had lost its connection, and a later node has its address for peers"
	}
	return ""
}

// Gone names an incarnation that DeclareGone declares dead, if BeatAt is still its last renewal.
type Gone struct {
	Incarnation messages.Incarnation
	BeatAt      time.Time
	Ended       NodeEnd
}

// Pulse is the store's answer to a beat.
type Pulse struct {
	At    time.Time // the store's clock
	Lease time.Time // when the lease ends
	// Nodes are all incarnations not declared dead, with the caller.
	Nodes []Node
}

// SteadyGap is the greatest pause between two renewals of a steady node, in thousandths of its lease: by default two
// and a half of the four beats in a lease. In an outage or a step of the store's clock, other nodes may fail to renew
// for as long as this node does. A live node renewed at most one beat before, so after a pause within SteadyGap its
// lease has not run out.
const SteadyGap = 625

// SilentShare is the share of its own lease, in thousandths, for which a node had not renewed when the caller did, before DeclareGone
// takes it for dead: more than a beat, so that one that only lost its connection has renewed over another. SettleShare is the share of
// the caller's lease that has passed since: a store that had kept the caller's renewal waiting has taken the other's by then.
const (
	SilentShare = 375
	SettleShare = 62
)

// Nodes is the part of the store that holds the incarnations.
type Nodes interface {
	// Join records a new incarnation as active, with a lease of the given length. A store with an exclusive lock (the
	// embedded one) marks every other incarnation dead in the same transaction. Join may be repeated. ErrNotFound: the
	// incarnation was declared dead, which is final.
	Join(ctx context.Context, n Node, lease time.Duration) error
	// Beat renews the incarnation's lease, also an expired one. If the pause since the last renewal exceeds SteadyGap of
	// the lease, or the store's clock steps back by as much, SteadySince becomes now. ErrNotFound: the incarnation was
	// declared dead.
	Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (Pulse, error)
	// DeclareDead marks all other incarnations with an expired lease dead, and their workers inactive, and returns them.
	// It has no effect unless the caller renewed its own lease within SteadyGap of it and has been steady for at least the
	// lease's length: after an outage in which others could not renew, no node is declared dead. The embedded store
	// evaluates no lease and declares none. The pools that a dead node led have no leader from then on (Lead); the other
	// nodes are told (HintRouter).
	DeclareDead(ctx context.Context, by messages.Incarnation, lease time.Duration) ([]Node, error)
	// DeclareGone marks dead, as DeclareDead does and under its conditions, those of the given incarnations whose process has ended
	// although their leases have not run out: active ones that have not renewed since BeatAt nor for as long as SilentShare and
	// SettleShare say, and that the store saw at that renewal and sees no more. The caller must have been seen without a break for its
	// lease, and be seen now: a restart of the store ends everybody's connections. The caller knows that nothing runs at their
	// addresses.
	DeclareGone(ctx context.Context, by messages.Incarnation, lease time.Duration, gone []Gone) ([]Node, error)
	// SetNode changes an incarnation's state. If the state is not active, the same transaction marks its workers inactive
	// and gives up the pools that it leads, as Resign does.
	SetNode(ctx context.Context, inc messages.Incarnation, state NodeState) error
	// CordonNode records that an operator cordons the node, or ends that.
	CordonNode(ctx context.Context, inc messages.Incarnation, cordoned bool) error
	// ListNodes returns every known incarnation, newest first.
	ListNodes(ctx context.Context) ([]Node, error)
	// CordonPool records that an operator cordons a pool on every node, or ends that. The record outlives the nodes, and
	// the pool need not exist.
	CordonPool(ctx context.Context, pool string, cordoned bool) error
	// CordonedPools returns the cordoned pools, by name.
	CordonedPools(ctx context.Context) ([]string, error)
}

// Worker is one worker's row. State, Health and Grade are the lifecycle's names as text.
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
	Lasted     time.Duration       `json:"lasted"` // time in the state that it left
	Metadata   json.RawMessage     `json:"metadata,omitempty"`
}

// Workers is the part of the store that holds the workers.
type Workers interface {
	// SaveWorkers inserts or replaces rows by key. Thousands of rows of idle go workers may come in one call. Where nodes
	// share the store, it writes its own clock for a Beat that is set: the nodes' clocks may differ. Workers of a node that
	// is not active are stored as inactive, so that a row that comes while the node starts to drain does not stand out.
	SaveWorkers(ctx context.Context, workers []Worker) error
	// Heartbeat sets the beat of all the incarnation's active workers to now, in one statement, and writes the given
	// capabilities. While the incarnation drains, its workers are inactive, and those that have not ended beat all the
	// same. Workers of a dead incarnation do not.
	Heartbeat(ctx context.Context, inc messages.Incarnation, capabilities map[messages.WorkerKey]json.RawMessage) error
	// RecordTransitions appends worker events and updates the rows' state, health and generation.
	RecordTransitions(ctx context.Context, events []WorkerEvent, healths []string) error
	// CordonWorker records that an operator cordons the worker, or ends that.
	CordonWorker(ctx context.Context, key messages.WorkerKey, cordoned bool) error
	// ListWorkers returns the rows of live incarnations, by id; pool "" means all.
	ListWorkers(ctx context.Context, pool string) ([]Worker, error)
	// EndedWorkers returns the workers of a dead incarnation, by id: their keys, ids, runtimes and last known states. It
	// returns none if the incarnation is not dead.
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
	// StartedEpoch is the epoch of the first run that was claimed with the session's state; 0: none. A session without
	// such a run has no state to lose.
	StartedEpoch int64 `json:"started_epoch,omitempty"`
	// FinishedEpoch is the epoch of the session's last finished execution. A run is told that state was lost if its own
	// epoch is above it and no current snapshot was restored.
	FinishedEpoch int64 `json:"finished_epoch"`
	// Runs counts the finished executions that left state with the worker (LeavesState).
	Runs          int64     `json:"runs"`
	BoundAt       time.Time `json:"bound_at,omitzero"`
	TouchedAt     time.Time `json:"touched_at,omitzero"`
	SnapshotEpoch int64     `json:"snapshot_epoch,omitempty"` // 0: no snapshot
	// SnapshotRuns is the number of Runs that the snapshot includes. If it is below Runs, the snapshot is older than the
	// last run.
	SnapshotRuns int64 `json:"snapshot_runs,omitempty"`
}

// LeavesState reports whether a run with this outcome left its session's state with the worker. A run that ended with its
// worker left none: its outcome says so, and the session continues with the state from before it.
func LeavesState(s messages.Status) bool {
	return s == messages.Completed || s == messages.Failed || s == messages.Cancelled
}

// SessionRef names one binding.
type SessionRef struct {
	Pool, Session string
	Epoch         int64
	// Runs, for SaveSnapshot alone, is the number of runs of this epoch that the state includes, counted as LeavesState does.
	Runs int64
}

// Binding is one binding and its worker.
type Binding struct {
	Pool, Session string
	Epoch         int64
	Worker        messages.WorkerKey
}

// BoundQuery asks for bound sessions of one pool, ordered by their workers' incarnations and slots, then by name.
type BoundQuery struct {
	Pool string
	// Worker, where set, limits the answer to this worker's sessions. Its node may be dead.
	Worker messages.WorkerKey
	// Ended asks for the sessions that are bound to workers of incarnations declared dead, instead of the others.
	Ended bool
	// After is the last session of the page before; zero: none.
	After Session
	Limit int // 1 to BoundMax; 0: BoundMax
}

// BoundMax bounds a page of bound sessions.
const BoundMax = 2000

// Sessions is the part of the store that holds the sessions. Only Place binds one.
type Sessions interface {
	// BoundSessions returns a page of the sessions that are bound to workers of incarnations not declared dead, or of those that are.
	// Its cost does not depend on how many sessions are unbound or bound to other incarnations.
	BoundSessions(ctx context.Context, q BoundQuery) ([]Session, error)
	// GetSession returns one session, or ErrNotFound.
	GetSession(ctx context.Context, pool, session string) (Session, error)
	// ListSessions returns a page ordered by (pool, session) after the given position: the name of a session in a list of one pool, else
	// its pool and name joined by a slash, which no pool's name contains. A list by names is ordered by the names' bytes, and reads
	// some ranges of an index in each pool.
	ListSessions(ctx context.Context, f SessionFilter, after string, limit int) ([]Session, error)
	// Unbind ends those of the bindings that have not changed, and returns how many. The rows stay, unbound. The worker is
	// part of a binding: a router that lost the race for a session tried the same epoch as the winner.
	Unbind(ctx context.Context, bindings []Binding) (int, error)
	// SaveSnapshot stores a session's state with its epoch and the runs that it includes. It has no effect if the session
	// is in another epoch or a newer state is stored. It never records more runs than have finished.
	SaveSnapshot(ctx context.Context, ref SessionRef, state json.RawMessage) error
	// Snapshot returns the stored state and its epoch, or ErrNotFound.
	Snapshot(ctx context.Context, pool, session string) (state json.RawMessage, epoch int64, err error)

	// TryState notes that a stored state is about to be given back to a worker, and returns how many times in a row that happened without an
	// answer, this time included. Above StateTriesMax it has set the state aside, and nobody is given it. A repeated call of one placement
	// counts once.
	TryState(ctx context.Context, t StateTry) (tries int, err error)
	// StateAnswered notes that the worker has answered, or that Troupe itself ended the try.
	StateAnswered(ctx context.Context, pool, session string) error
	// StateTrouble returns what is known of trouble with a session's state; its zero value: none.
	StateTrouble(ctx context.Context, pool, session string) (StateTrouble, error)
	// AsideStates returns states that were set aside, the newest first, without the states themselves.
	AsideStates(ctx context.Context, limit int) ([]AsideState, error)
	// DropState deletes a session's stored state, and the one that was set aside. It reports whether there was any.
	DropState(ctx context.Context, pool, session string) (bool, error)
}

// StateTriesMax is how many times in a row a stored state is given back to workers that end before they have answered.
const StateTriesMax = 3

// StateTry is a stored state that is about to be given back.
type StateTry struct {
	Pool, Session string
	Epoch, Runs   int64 // of the state
	SessionEpoch  int64 // in which it is given back
	Worker        messages.WorkerID
	By            messages.Placement
}

// Name names the placement for which it is tried.
func (t *StateTry) Name() string { return fmt.Sprintf("%s/%d", t.By.Execution, t.By.Attempt) }

// StateTrouble is trouble with a session's stored state.
type StateTrouble struct {
	Tries   int // without an answer, in a row
	TriedOn messages.WorkerID
	TriedAt time.Time
	Aside   *AsideState // with its state; nil: none was set aside
}

// AsideState is a stored state that was set aside, because each worker that it was given back to ended.
type AsideState struct {
	Pool         string            `json:"pool"`
	Session      string            `json:"session"`
	Epoch        int64             `json:"epoch"`
	Runs         int64             `json:"runs"`
	SessionEpoch int64             `json:"session_epoch"`
	Tries        int               `json:"tries"`
	Worker       messages.WorkerID `json:"worker"`
	At           time.Time         `json:"at"`
	State        json.RawMessage   `json:"state,omitempty"`
}

// DeadLetter is the record of a message that came back through the dead-letter exchange or could not be read.
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
	Body       []byte               `json:"body,omitempty"` // at most DeadLetterBodyMax of it; lists omit it
	BodySize   int64                `json:"body_size,omitempty"`
	BodyCut    bool                 `json:"body_cut,omitempty"`    // the stored body is shorter than the original
	BodySHA256 string               `json:"body_sha256,omitempty"` // hash of the whole body if it was cut, in hex
	Resolution string               `json:"resolution"`            // failed, stale, missing, quarantined, requeued, discarded
	// Key, where set, names the death: a message that is handled twice leaves one record. It is not read back.
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
	// SaveDeadLetter stores the record, with an event of the execution if that is known, and returns its id. If the Key
	// exists, it keeps the stored record as it is and returns that id. The body is cut by CutBody.
	SaveDeadLetter(ctx context.Context, d DeadLetter) (int64, error)
	// ListDeadLetters returns a page without bodies, newest first, below the given id (0: from the newest).
	ListDeadLetters(ctx context.Context, before int64, limit int) ([]DeadLetter, error)
	// DeadLettersOf returns those that name an execution, whether that is stored or not, without bodies, newest first.
	DeadLettersOf(ctx context.Context, id messages.ExecutionID, limit int) ([]DeadLetter, error)
	// GetDeadLetter returns one record. Its body was cut by CutBody.
	GetDeadLetter(ctx context.Context, id int64) (DeadLetter, error)
	// ResolveDeadLetter records what a person did with it: requeued or discarded.
	ResolveDeadLetter(ctx context.Context, id int64, resolution string) error
	// WalkDeadLetters returns dead letters above one number and up to another, oldest first.
	WalkDeadLetters(ctx context.Context, after, last int64, limit int) ([]Letter, error)
	// FindDeadLetters returns those of some numbers, at most OperationIDsMax, in no order. Unknown ones are left out.
	FindDeadLetters(ctx context.Context, ids []int64) ([]Letter, error)
	// ResolveDeadLetters records what a person did with several, at most OperationIDsMax, and returns the numbers of those that changed.
	// Unknown ones, and those that have one of the resolutions of unless, do not change.
	ResolveDeadLetters(ctx context.Context, ids []int64, resolution string, unless ...string) ([]int64, error)
	DeadLetterStats(ctx context.Context, since time.Time) ([]DeadLetterCount, error)
}
