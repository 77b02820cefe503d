package messages

import (
	"encoding/json"
	"time"
)

// Limits on what a caller may submit and a worker may return, in bytes unless said otherwise.
const (
	ParametersMax  = 1 << 20     // 1 MiB
	ResultMax      = 8 << 20     // 8 MiB
	FrameMax       = 16 << 20    // 16 MiB
	OutputMax      = 1 << 20     // per stream and execution, by default
	BatchMax       = 10_000      // executions in one submit call
	PriorityMin    = Priority(0) // runs last
	PriorityMax    = Priority(9) // runs first
	PriorityNormal = Priority(5) // default
	SessionMax     = 256         // a session's name
	KeyMax         = 256         // an idempotency key
)

// Priority orders due executions of one pool: 9 first, 0 last.
type Priority int8

// Execution is one request to run an action, with everything the store knows of it. Times are in UTC and zero when
// the moment has not come.
type Execution struct {
	ID      ExecutionID
	Seq     int64 // the store's insertion order
	Action  string
	Version string // the pack's version it was submitted against
	Pool    string
	Status  Status
	Attempt Attempt

	Parameters json.RawMessage // filled by Get and Claim, left out of lists
	Session    string
	Affinity   Affinity
	Priority   Priority
	Labels     map[string]string
	CreatedBy  string
	Trace      string // W3C trace context: see TraceParent

	IdempotencyKey string
	// KeyOwner is whose the key is, where that is not who created the execution: of a retry by hand, who asked for it.
	KeyOwner    string
	RequestHash []byte // of the request under its idempotency key

	Timeout        time.Duration // run timeout, resolved at submit
	StallTimeout   time.Duration
	QueueDeadline  time.Time // zero: none
	WaitForWorker  bool      // on_no_worker: wait
	WorkerDeadline time.Time // end of waiting for any worker, set while WaitForWorker holds
	Idempotent     bool
	Notify         bool // its outcome is told on the executions exchange
	// Webhook is who else is told, by HTTP. Only a submission has it; what is read from the store says by Hooked that there is one.
	Webhook     *Webhook
	Hooked      bool
	MayRepeat   bool // max_retries was set by the action or the submit: consent to repeat after worker_lost
	MaxRetries  int
	RetryCount  int
	RetryReason string
	Original    ExecutionID // first of the chain; zero for the first itself
	RetriedAs   ExecutionID // the retry that follows; zero: none
	CrashCount  int         // workers that died while running it
	TakeBacks   int         // in a row, without a start

	Worker     WorkerKey
	WorkerID   WorkerID
	Generation Generation
	PlacedBy   Incarnation

	RequestedAt   time.Time
	RunAt         time.Time // not before; a retry's retry_at
	FirstPlacedAt time.Time
	ScheduledAt   time.Time
	ClaimBy       time.Time
	StartedAt     time.Time
	RunDeadline   time.Time
	FinishedAt    time.Time

	// What the session told the run: its epoch, whether its state was lost, whether the bound worker was hit. Until the run has ended,
	// SessionLost is what its placement supposes. It stays so if another than its worker ended the run.
	SessionEpoch int64
	SessionLost  bool
	SessionHit   bool

	Result json.RawMessage
	Error  *Error
}

// Due is since when the execution could begin, so where its wait begins: at its request, or later at its run_at, which a delay moves.
func (e *Execution) Due() time.Time {
	if e.RunAt.Before(e.RequestedAt) {
		return e.RequestedAt
	}
	return e.RunAt
}

// Placement names the execution's current placement.
func (e *Execution) Placement() Placement { return Placement{Execution: e.ID, Attempt: e.Attempt} }

// Candidate is what a router needs to know of a due execution to place it.
type Candidate struct {
	ID             ExecutionID
	Seq            int64
	Attempt        Attempt // of the last placement; 0: none
	Action         string
	Version        string
	Priority       Priority
	Session        string
	Affinity       Affinity
	Avoid          WorkerID // the worker that failed the execution this one retries
	WaitForWorker  bool
	WorkerDeadline time.Time
	TakeBacks      int
	Timeout        time.Duration
	Idempotent     bool
	// Behind marks a strict_fail that another execution of its session is before: it fails with session_busy.
	Behind bool
}
