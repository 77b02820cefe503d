package view

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Worker is a worker in lists.
type Worker struct {
	ID         messages.WorkerID   `json:"id"`
	Pool       string              `json:"pool"`
	Node       string              `json:"node"`
	Runtime    messages.Runtime    `json:"runtime"`
	Generation messages.Generation `json:"generation"`
	State      string              `json:"state"`
	Health     string              `json:"health"`
	Grade      string              `json:"grade"` // includes the age of its heartbeat
	// GradeCauses are the reasons why the grade is not healthy, and heartbeat_future as a warning.
	GradeCauses []string             `json:"grade_causes,omitempty"`
	Cordoned    bool                 `json:"cordoned"`
	Pid         int                  `json:"pid,omitempty"`
	Since       time.Time            `json:"since,omitzero"`
	Execution   messages.ExecutionID `json:"execution,omitzero"`
	Heartbeat   time.Time            `json:"last_heartbeat,omitzero"`
	Restarts    int                  `json:"restarts"`
	LastError   string               `json:"last_failure,omitempty"`
	Report      json.RawMessage      `json:"health_report,omitempty"` // capabilities.health
	// Stale says that its node did not answer. The view is then the worker's row in the store, from SeenAt.
	Stale  bool      `json:"stale,omitempty"`
	SeenAt time.Time `json:"seen_at,omitzero"`
}

// Same reports whether two views say the same.
func (w *Worker) Same(o *Worker) bool {
	return w.ID == o.ID && w.Pool == o.Pool && w.Node == o.Node && w.Runtime == o.Runtime && w.Generation == o.Generation &&
		w.State == o.State && w.Health == o.Health && w.Grade == o.Grade && slices.Equal(w.GradeCauses, o.GradeCauses) && w.Cordoned == o.Cordoned &&
		w.Pid == o.Pid && w.Since.Equal(o.Since) && w.Execution == o.Execution && w.Heartbeat.Equal(o.Heartbeat) && w.Restarts == o.Restarts &&
		w.LastError == o.LastError && bytes.Equal(w.Report, o.Report) && w.Stale == o.Stale && w.SeenAt.Equal(o.SeenAt)
}

// WorkerDetail is one worker with its history, newest first.
type WorkerDetail struct {
	Worker
	Inputs  []GradeInput        `json:"grade_inputs,omitempty"`
	History []store.WorkerEvent `json:"history"`
}

// GradeInput is one thing that grades a worker, with its borders.
type GradeInput struct {
	Name      string   `json:"name" doc:"as grade_causes has it"`
	Value     *float64 `json:"value,omitempty" doc:"of heartbeat_stale, its age in seconds; absent: it has none"`
	Degraded  float64  `json:"degraded_from,omitempty" doc:"the value from which the worker is degraded; absent: none"`
	Unhealthy float64  `json:"unhealthy_from,omitempty" doc:"the value from which it is unhealthy, of heartbeat_stale above which"`
	Grade     string   `json:"grade" doc:"by this alone"`
	Ignored   bool     `json:"ignored,omitempty" doc:"it does not count: health.enabled is off"`
}

// Workers holds the workers of several nodes, and the nodes that did not answer.
type Workers struct {
	Workers   []Worker
	Unreached []Unreached
}

// Unreached is a node that did not answer. Its part of the answer comes from the store, and may be old.
type Unreached struct {
	Node        string               `json:"node"`
	Incarnation messages.Incarnation `json:"incarnation"`
	BeatAt      time.Time            `json:"beat_at,omitzero"`
	Why         string               `json:"why"`
}

// Transition is one step of a worker's lifecycle.
type Transition struct {
	At         time.Time           `json:"at"`
	Generation messages.Generation `json:"generation"`
	From       string              `json:"from"`
	To         string              `json:"to"`
	Reason     string              `json:"reason"`
	LastedMS   float64             `json:"lasted_ms"` // time in the old state
	Metadata   json.RawMessage     `json:"metadata,omitempty"`
}

// Transitions are the steps that a worker's events tell of, in their order.
func Transitions(events []store.WorkerEvent) []Transition {
	views := make([]Transition, len(events))
	for i, e := range events {
		views[i] = Transition{
			At: e.At, Generation: e.Generation, From: e.From, To: e.To, Reason: e.Reason,
			LastedMS: float64(e.Lasted.Microseconds()) / 1000, Metadata: e.Metadata,
		}
	}
	return views
}

// Run is an execution that a worker ran.
type Run struct {
	Execution  messages.ExecutionID `json:"execution"`
	Action     string               `json:"action_ref"`
	Session    string               `json:"session,omitempty"`
	Status     messages.Status      `json:"status"`
	Code       messages.Code        `json:"code,omitempty" doc:"of its error"`
	Attempt    messages.Attempt     `json:"attempt"`
	StartedAt  time.Time            `json:"started_at"`
	FinishedAt time.Time            `json:"finished_at,omitzero" doc:"missing: it runs"`
}

// WorkerRuns are the last runs of a worker, newest first.
type WorkerRuns struct {
	Worker     messages.WorkerID `json:"worker"`
	Source     string            `json:"source" doc:"memory: its node remembers them, up to 64 since it started; list: they were found among the executions"`
	Runs       []Run             `json:"runs"`
	Unsearched bool              `json:"unsearched,omitempty" doc:"of list: as many executions as may be were looked at, and there may be more runs"`
}

// Where runs come from.
const (
	RunsMemory = "memory"
	RunsList   = "list"
)
