package operate

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
	"github.com/troupe-run/troupe/supervisor"
)

// Config is what an Operator works with. All of it is required, but for what has a zero value that says so.
type Config struct {
	Name        string        // of this node
	Retains     time.Duration // how long ended executions are kept; 0: for ever
	Recorded    time.Duration // how long keyframes and the journal are kept; 0: for ever
	Counted     time.Duration // how long counts by minute are kept; 0: for ever
	Hours       time.Duration // how long counts by the hour are kept; 0: for ever
	Transitions time.Duration // how long workers' transitions are kept; 0: for ever
	Incarnation messages.Incarnation
	Logger      hclog.Logger

	Store    Store
	Clock    *clock.Clock // the store's
	Pools    Pools
	Self     Self
	Servers  Servers
	Members  Members
	Record   Record
	Feeds    *actors.Feeds    // what the runs of this node write
	Outcomes *actors.Outcomes // who waits for the end of an execution
	Runs     *Runs            // the last runs of this node's workers

	// Readings are what this node's series have come to, in the order of their texts.
	Readings func(context.Context) []alerts.Reading
	// Mailboxes, where set, are the messages in the fullest mailbox of each pool's actors, and of the node's other actors.
	Mailboxes func() (of map[string]int, other int)
	// Journal, where set, records what an operator had done. It does not wait.
	Journal func(e messages.JournalEntry)
	// MarkPool adds to the view of a pool of this node what its last reload came to.
	MarkPool func(*view.Pool)
	// Serves reports whether this node serves an action.
	Serves func(action string) bool
	// Retries says whether a retry follows an execution, or why none does.
	Retries func(context.Context, *messages.Execution) view.Retry

	// BackOffMax, where set, is the longest back-off before an execution is placed again.
	BackOffMax func(*messages.Execution) time.Duration

	SessionTimeout time.Duration
	ProbeTimeout   time.Duration
	BeatEvery      time.Duration // between two beats of a node
	CountFor       time.Duration // how long a short list is counted; 0: two seconds
	Grades         Grades
}

// did records what somebody had done to something, with the reason that the context has.
func (c *Config) did(ctx context.Context, what, subject, by string) {
	if c.Journal != nil {
		c.Journal(messages.JournalEntry{Kind: messages.JournalOperator, Subject: subject, What: what, Reason: view.ReasonOf(ctx), Caller: by})
	}
}

// cordonWords are the words for a cordon and its end.
var cordonWords = map[bool]string{true: "cordon", false: "uncordon"}

// Grades are what the workers of other nodes are graded by, as their rows show them.
type Grades struct {
	Thresholds     health.Thresholds
	StalenessTimes float64 // of its own heartbeat interval, after which a worker is stale
}

// Record makes changes of one pool's executions, in order, and returns what became of each.
type Record func(ctx context.Context, pool string, items []actors.Item) ([]store.Result, error)

// Store is what is asked of the store, and the rows that a command changes by itself. A store.Store is one.
type Store interface {
	Now(ctx context.Context) (time.Time, error)
	Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	List(ctx context.Context, f store.Filter) (store.Page, error)
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error)
	EventsBetween(ctx context.Context, q store.EventQuery) (store.EventPage, error)
	Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error)
	Live(ctx context.Context, pool string) ([]messages.Execution, error)
	Depths(ctx context.Context) ([]store.Depth, error)
	ListNodes(ctx context.Context) ([]store.Node, error)
	CordonNode(ctx context.Context, inc messages.Incarnation, cordoned bool) error
	ListWorkers(ctx context.Context, pool string) ([]store.Worker, error)
	WorkerEvents(ctx context.Context, key messages.WorkerKey, limit int) ([]store.WorkerEvent, error)
	CordonWorker(ctx context.Context, key messages.WorkerKey, cordoned bool) error
	CordonPool(ctx context.Context, pool string, cordoned bool) error
	CordonedPools(ctx context.Context) ([]string, error)
	GetSession(ctx context.Context, pool, session string) (store.Session, error)
	ListSessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error)
	Unbind(ctx context.Context, bindings []store.Binding) (int, error)
	Snapshot(ctx context.Context, pool, session string) (state json.RawMessage, epoch int64, err error)
	StateTrouble(ctx context.Context, pool, session string) (store.StateTrouble, error)
	AsideStates(ctx context.Context, limit int) ([]store.AsideState, error)
	DropState(ctx context.Context, pool, session string) (bool, error)
	Routers(ctx context.Context) ([]store.Router, error)
	ReadJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error)
	DeadLettersOf(ctx context.Context, id messages.ExecutionID, limit int) ([]store.DeadLetter, error)
	ReadWorkerJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error)
	ReadKeyframes(ctx context.Context, q store.KeyframeQuery) ([]store.Keyframe, error)
	WorkerEventsBetween(ctx context.Context, q store.WorkerEventQuery) (store.WorkerEventPage, error)
	ReadRollups(ctx context.Context, q store.RollupQuery) (store.RollupPage, error)
	RollupFolds(ctx context.Context, q store.FoldQuery) ([]store.Fold, error)
	ReadRollupHours(ctx context.Context, q store.RollupQuery) (store.RollupPage, error)
	CountRequested(ctx context.Context, q store.CountQuery) (store.Counted, error)
	CountPurged(ctx context.Context, from, to time.Time) (store.PurgedCount, error)
}

// Pools are this node's own pools.
type Pools interface {
	Has(pool string) bool
	// Tell sends a message to a pool, and reports whether there is one of the name.
	Tell(pool string, message any) bool
	TellAll(message any)
	// Describe asks a pool for its view. DescribeAll asks all at once, and leaves out those that do not answer in time.
	Describe(ctx context.Context, pool string) (supervisor.Description, error)
	DescribeAll(ctx context.Context) map[string]supervisor.Description
	// Why asks what an execution waits for.
	Why(ctx context.Context, pool string, of supervisor.WhyWaiting) (supervisor.WhyAnswer, error)
	// Probe has a worker probed, and returns when that has ended, whatever it showed.
	Probe(ctx context.Context, pool string, slot messages.Slot) error
	// Inspect asks the actor of a worker for its lifecycle.
	Inspect(ctx context.Context, actor string) (actors.Inspection, error)
}

// Self is this node, as it stands now.
type Self interface {
	// Row is its row in the store, as far as it is known without the store.
	Row() store.Node
	// Label is its name in the ids of its workers.
	Label() string
	// Open reports whether its tree runs.
	Open() bool
	// Gate refuses calls that need the store while that is away; nil: it is not.
	Gate() *messages.Problem
	// Drain has the node stopped in order.
	Drain(by string) error
}

// Servers are the store's and the broker's servers, as this node sees them.
type Servers interface {
	// Waits lists those that the node waits for, with the reason.
	Waits() []string
	// Halted is why nothing can be placed on a pool's workers now; roster.Ready: it can.
	Halted(pool string) roster.Reason
	// Suspect has the store asked soon whether it answers.
	Suspect()
}

// Members is what membership knows of this incarnation and of the others.
type Members interface {
	// Over ends with this incarnation.
	Over() context.Context
	// Leased reports whether the store holds its nodes to their leases. A store that one node alone uses does not.
	Leased() bool
	// Unrenewed says why the lease is not renewed; empty: it is, or none is needed.
	Unrenewed() string
	// Others counts the other incarnations that live.
	Others() int
	// NameOf is the name of the node that a living incarnation is a boot of; empty: it is not known.
	NameOf(messages.Incarnation) string
}

// Network is the way to the other nodes. peers.Network is one.
type Network interface {
	Peers() []peers.Peer
	Ask(ctx context.Context, to messages.Incarnation, about messages.Placement, body wire.Body) (wire.Body, error)
	AskLong(ctx context.Context, limit time.Duration, to messages.Incarnation, about messages.Placement, body wire.Body) (wire.Body, error)
}
