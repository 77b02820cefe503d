package timeline

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// The causes that are not words of the roster, or not of a pool's condition.
const (
	Unknown       = "unknown"        // nothing that was recorded explains it
	LostRun       = "lost_run"       // it ran, and the run was lost
	OnQueue       = "on_queue"       // it was placed, and its worker had not begun
	NotDue        = "not_due"        // its time had not come
	BackedOff     = "backed_off"     // it was taken back, and waited before it was placed again
	SessionOrder  = "session_order"  // an earlier execution of its session went first
	SessionWorker = "session_worker" // the pool had room, but not the worker of its session
	BeingPlaced   = "being_placed"   // the pool had room, and it was next
)

// The sources of a cause.
const (
	FromRow     = "row"     // the execution's row
	FromEvents  = "events"  // its events
	FromSession = "session" // an earlier execution of its session
	FromJournal = "journal"
	FromNow     = "now" // what the router says now, which is not in the journal yet
)

// Record is all that is known of one execution.
type Record struct {
	Now       time.Time
	Execution messages.Execution
	Events    []Event              // oldest first
	Chain     []messages.Execution // oldest first, with the execution
	// Before are the executions of its session that were inserted before it and had not ended when it was requested.
	Before []messages.Execution
	// Conditions are the journal's entries about its pool, of every node, oldest first: from the last ones before the request on.
	// Bindings are those that bound and unbound its session, Nodes those about the nodes of its workers, Servers those of these nodes and the pool's
	// routers about their servers.
	Conditions, Bindings, Nodes, Servers []messages.JournalEntry
	Gaps                                 []messages.JournalEntry // of the same nodes
	Transitions                          []Transition            // of its workers, oldest first
	// Known says until when the entries of an incarnation are complete. One that is not in it is known up to its last entry.
	Known map[messages.Incarnation]time.Time
	Names map[messages.Incarnation]string // of nodes
	// Beats says when a node last renewed its lease.
	Beats map[messages.Incarnation]time.Time
	// Present is what it waits for at Now; zero: it does not wait, or that is not known.
	Present Present

	// From and To are the part that is asked for, as far as the records of it were read whole; zero: from the request, to the end.
	From, To time.Time
	// EventsBegin says that earlier events were not read than the first one of Events.
	EventsBegin bool
	// Retries says how long the whole chain is.
	Retries Retries
	LeftOut []LeftOut
}

// Part says which part of a timeline is asked for. Its zero value asks for all of it, or for as much of the newest as the bounds allow.
type Part struct {
	From, To time.Time // From <= at < To
	Links    int       // the number of the first execution of the chain; 0: those around the execution
}

// Present is a reason for which something waits, with the same in a sentence.
type Present struct{ Reason, Message string }

// Event is an event of the execution.
type Event struct {
	At          time.Time
	Attempt     messages.Attempt
	Kind        string
	To          messages.Status
	Reason, By  string
	Worker      messages.WorkerID
	Incarnation messages.Incarnation
	Generation  messages.Generation
	RunAt       time.Time
	ScheduledAt time.Time
	StartedAt   time.Time
}

// Transition is one transition of a worker.
type Transition struct {
	Worker      messages.WorkerID
	Incarnation messages.Incarnation
	Generation  messages.Generation
	At          time.Time
	From, To    string
	Reason      string
	Lasted      time.Duration
}

// Timeline is the answer.
type Timeline struct {
	Execution messages.ExecutionID `json:"execution"`
	Status    messages.Status      `json:"status"`
	Whole     Window               `json:"whole" doc:"from the request to the end, or until now"`
	Window    Window               `json:"window" doc:"the part of it that this answer has whole: all lanes are of this time"`
	Wait      []Wait               `json:"wait" doc:"what it waited for: covers the time of the window from the request to the start exactly, without overlap"`
	Attempts  []Attempt            `json:"attempts" doc:"its placements, oldest first"`
	Late      []LateWrite          `json:"late_writes,omitempty" doc:"writes of placements that had been given up: they were rejected"`
	Runs      []Run                `json:"run" doc:"its runs, oldest first"`
	Chain     []Link               `json:"chain" doc:"its retry chain, oldest first: at most 50"`
	Retries   Retries              `json:"retries" doc:"the whole chain"`
	Worker    []State              `json:"worker" doc:"the states of its workers meanwhile"`
	Node      []State              `json:"node" doc:"the states of the nodes of its workers meanwhile: alive, late with its lease, silent (no heartbeat until it was declared dead), draining, stopped, fenced or dead"`
	Session   []State              `json:"session" doc:"the bindings of its session"`
	Servers   []State              `json:"servers" doc:"when the store or the broker was away, as the nodes saw it"`
	Gaps      []Gap                `json:"gaps" doc:"what the wait is unknown for, and why"`
	Truncated bool                 `json:"truncated,omitempty" doc:"something was left out because of a bound: left_out says what, and how to get it"`
	LeftOut   []LeftOut            `json:"left_out,omitempty"`
}

// Retries says how many executions a chain has.
type Retries struct {
	N       int  `json:"n" doc:"executions of the chain"`
	AtLeast bool `json:"at_least,omitempty" doc:"there may be more"`
	Deleted int  `json:"deleted,omitempty" doc:"of the first ones, that retention has deleted"`
}

// LeftOut is something that a bound kept out of the answer.
type LeftOut struct {
	What    string    `json:"what" doc:"events, retries, conditions, session, before, workers, transitions, node, servers or gaps"`
	N       int       `json:"n,omitempty" doc:"how many; absent: they were not counted"`
	AtLeast bool      `json:"at_least,omitempty" doc:"there may be more than n"`
	From    time.Time `json:"from,omitzero" doc:"the time that they are of"`
	To      time.Time `json:"to,omitzero"`
	Of      string    `json:"of,omitempty" doc:"of transitions, the worker"`
	Next    string    `json:"next,omitempty" doc:"the query of this call that has them; absent: nothing has them"`
}

// What a bound can keep out.
const (
	LeftEvents      = "events"      // of the execution
	LeftRetries     = "retries"     // executions of its chain
	LeftConditions  = "conditions"  // the journal's entries about its pool
	LeftSession     = "session"     // those about its session
	LeftBefore      = "before"      // executions of its session before it
	LeftWorkers     = "workers"     // of its placements
	LeftTransitions = "transitions" // of a worker
	LeftNode        = "node"        // the journal's entries about a node
	LeftServers     = "servers"     // those about the servers
	LeftGaps        = "gaps"        // those about entries that are missing
)

// Window is a range of time.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Wait is an interval of the wait with its cause.
type Wait struct {
	From     time.Time            `json:"from"`
	To       time.Time            `json:"to"`
	Cause    string               `json:"cause"`
	Source   string               `json:"source,omitempty" doc:"row, events, session, journal or now; empty: unknown"`
	Evidence string               `json:"evidence"`
	Link     messages.ExecutionID `json:"link,omitzero" doc:"the execution that it waited for"`
}

// Attempt is one placement.
type Attempt struct {
	Attempt     messages.Attempt     `json:"attempt"`
	Worker      messages.WorkerID    `json:"worker,omitempty"`
	Incarnation messages.Incarnation `json:"incarnation,omitzero"`
	Generation  messages.Generation  `json:"generation,omitempty"`
	ScheduledAt time.Time            `json:"scheduled_at,omitzero" doc:"absent: it began as it was placed, or that was not recorded"`
	ClaimBy     time.Time            `json:"claim_by,omitzero"`
	StartedAt   time.Time            `json:"started_at,omitzero"`
	EndedAt     time.Time            `json:"ended_at,omitzero"`
	Ended       string               `json:"ended,omitempty" doc:"taken_back, rescued, or the status in which the execution ended; absent: it goes on"`
	Reason      string               `json:"reason,omitempty"`
	By          string               `json:"by,omitempty"`
}

// Run is one run.
type Run struct {
	From    time.Time        `json:"from"`
	To      time.Time        `json:"to"`
	Attempt messages.Attempt `json:"attempt"`
	Outcome string           `json:"outcome,omitempty" doc:"lost, or the status in which it ended; absent: it goes on"`
	Code    string           `json:"code,omitempty"`
}

// LateWrite is a write that came after its placement had ended, and changed nothing.
type LateWrite struct {
	At      time.Time        `json:"at"`
	Attempt messages.Attempt `json:"attempt"`
	Reason  string           `json:"reason,omitempty" doc:"the change that it wanted, such as finish"`
}

// Link is one execution of the retry chain.
type Link struct {
	ID      messages.ExecutionID `json:"id"`
	N       int                  `json:"n" doc:"counts from 1"`
	Version string               `json:"version,omitempty"`
	From    time.Time            `json:"from"`
	To      time.Time            `json:"to,omitzero"`
	Status  messages.Status      `json:"status"`
	Reason  string               `json:"reason,omitempty" doc:"why it was retried: of the retry"`
	DelayMS float64              `json:"delay_ms,omitempty" doc:"from the request of the retry until it was due"`
}

// State is a state of something, or an event: then it has no To.
type State struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero"`
	Of   string    `json:"of" doc:"the worker, node, session or server"`
	What string    `json:"what"`

	Generation messages.Generation `json:"generation,omitempty" doc:"of a worker"`
	Epoch      int64               `json:"epoch,omitempty" doc:"of a session"`

	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty" doc:"the node that recorded it"`
}

// Gap is a range without records.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Why  string    `json:"why"`
}
