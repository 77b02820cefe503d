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
	// Bindings are those about its session, Nodes those about the nodes of its workers, Servers those of these nodes and the pool's
	// routers about their servers.
	Conditions, Bindings, Nodes, Servers []messages.JournalEntry
	Gaps                                 []messages.JournalEntry // of the same nodes
	Transitions                          []Transition            // of its workers, oldest first
	// Known says until when the entries of an incarnation are complete. One that is not in it is known up to its last entry.
	Known map[messages.Incarnation]time.Time
	// Read is the time up to which the journal was read, where a bound ended that; zero: all of it.
	Read  time.Time
	Names map[messages.Incarnation]string // of nodes
	// Present is what it waits for at Now; zero: it does not wait, or that is not known.
	Present Present
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
	Worker     messages.WorkerID
	Generation messages.Generation
	At         time.Time
	From, To   string
	Reason     string
	Lasted     time.Duration
}

// Timeline is the answer.
type Timeline struct {
	Execution messages.ExecutionID `json:"execution"`
	Status    messages.Status      `json:"status"`
	Window    Window               `json:"window" doc:"from the request to the end, or until now"`
	Wait      []Wait               `json:"wait" doc:"what it waited for: covers the time from the request to the start exactly, without overlap"`
	Attempts  []Attempt            `json:"attempts" doc:"its placements, oldest first"`
	Runs      []Run                `json:"run" doc:"its runs, oldest first"`
	Chain     []Link               `json:"chain" doc:"its retry chain, oldest first"`
	Worker    []State              `json:"worker" doc:"the states of its workers meanwhile"`
	Node      []State              `json:"node" doc:"what the journal says of the nodes of its workers"`
	Session   []State              `json:"session" doc:"the bindings of its session"`
	Servers   []State              `json:"servers" doc:"when the store or the broker was away, as the nodes saw it"`
	Gaps      []Gap                `json:"gaps" doc:"what the wait is unknown for, and why"`
	Truncated bool                 `json:"truncated,omitempty" doc:"the journal of the window was longer than what was read of it"`
}

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
	From   time.Time `json:"from"`
	To     time.Time `json:"to,omitzero"`
	Of     string    `json:"of" doc:"the worker, node, session or server"`
	What   string    `json:"what"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty" doc:"the node that recorded it"`
}

// Gap is a range without records.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Why  string    `json:"why"`
}
