package view

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Session is the current state of a session.
type Session struct {
	store.Session
	// Affinity says where the session's next execution is placed: bound (on its worker), session_expired (on any
	// worker, because the binding was idle too long), or no_affinity (on any worker, because there is no binding, or
	// the node of its worker has ended). Without a snapshot the state is lost, where it is not bound.
	Affinity string `json:"affinity,omitempty"`
	// Execution is the execution that is placed or runs in the session; zero: the session is idle.
	Execution messages.ExecutionID `json:"execution,omitzero"`
}

// What Session.Affinity says.
const (
	AffinityBound   = "bound"
	AffinityExpired = "session_expired"
	NoAffinity      = "no_affinity"
)

// SessionState is what is stored of a session's state.
type SessionState struct {
	Pool    string            `json:"pool"`
	Session string            `json:"session"`
	Epoch   int64             `json:"epoch,omitempty" doc:"of the stored state; missing: none is stored"`
	State   json.RawMessage   `json:"state,omitempty"`
	Tries   int               `json:"tries,omitempty" doc:"how many times in a row it was given back to a worker that ended before it had answered"`
	TriedOn messages.WorkerID `json:"tried_on,omitempty"`
	TriedAt time.Time         `json:"tried_at,omitzero"`
	Aside   *store.AsideState `json:"aside,omitempty" doc:"the state that was set aside, with the state itself"`
}

// SessionDetail is a session with what waits in it and what happened to it.
type SessionDetail struct {
	Session
	WorkerID    messages.WorkerID       `json:"worker_id,omitempty" doc:"the worker that it is bound to; absent: it is bound to none, or its node is not known any more"`
	Queue       []SessionWork           `json:"queue" doc:"its executions that have not ended, the oldest first: up to 200"`
	QueueMore   bool                    `json:"queue_more,omitempty" doc:"more have not ended"`
	QueueSearch bool                    `json:"queue_unsearched,omitempty" doc:"as many executions as may be were looked at, and older ones may not have ended"`
	Journal     []messages.JournalEntry `json:"journal" doc:"its bindings, their ends with the reasons, and its snapshots, the newest first: up to 100"`
	JournalMore bool                    `json:"journal_more,omitempty" doc:"there are older entries: GET /journal has them"`
}

// SessionWork is an execution of a session that has not ended.
type SessionWork struct {
	Execution   messages.ExecutionID `json:"execution"`
	Action      string               `json:"action_ref"`
	Status      messages.Status      `json:"status"`
	Affinity    messages.Affinity    `json:"affinity,omitempty"`
	Priority    messages.Priority    `json:"priority"`
	Attempt     messages.Attempt     `json:"attempt"`
	Worker      messages.WorkerID    `json:"worker,omitempty"`
	RequestedAt time.Time            `json:"requested_at"`
	RunAt       time.Time            `json:"run_at,omitzero" doc:"when it is due"`
}
