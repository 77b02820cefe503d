package api

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// ExecutionList is one page. NextCursor is empty on the last page. A page may be short, or even empty, and have one.
type ExecutionList struct {
	Executions []form.ExecutionView `json:"executions"`
	NextCursor string               `json:"next_cursor,omitempty"`
	More       store.More           `json:"more" doc:"found: the page is full, and more may follow; unsearched: the node has looked at as many as it does for one page, and next_cursor looks further; end: nothing follows"`
	SearchedTo *SearchedView        `json:"searched_to,omitempty" doc:"how far the page has looked; missing at the end of the list"`
}

// SearchedView is how far a page has looked.
type SearchedView struct {
	At     time.Time `json:"at,omitzero" doc:"when the last execution that it looked at was requested"`
	Seq    int64     `json:"seq" doc:"the number of that execution, in the store's order"`
	Walked int       `json:"walked,omitempty" doc:"how many executions it looked at; missing: not counted"`
}

// OutputView is the output of an execution's process so far. If it is not UTF-8, the base64 fields have the bytes, and
// the text fields have replacement characters.
type OutputView struct {
	Execution       messages.ExecutionID `json:"execution"`
	Stdout          string               `json:"stdout"`
	Stderr          string               `json:"stderr"`
	StdoutBase64    []byte               `json:"stdout_base64,omitempty"`
	StderrBase64    []byte               `json:"stderr_base64,omitempty"`
	StdoutTruncated bool                 `json:"stdout_truncated,omitempty"`
	StderrTruncated bool                 `json:"stderr_truncated,omitempty"`
	Notice          string               `json:"notice,omitempty" doc:"what a reader must know of it: that what the run wrote is lost, because its worker did not end it"`
}

func viewOutput(id messages.ExecutionID, o messages.Output) OutputView {
	v := OutputView{Execution: id, StdoutTruncated: o.StdoutCut, StderrTruncated: o.ErrCut, Notice: o.Notice}
	v.Stdout, v.StdoutBase64 = textOrBytes(o.Stdout)
	v.Stderr, v.StderrBase64 = textOrBytes(o.Stderr)
	return v
}

func textOrBytes(b []byte) (string, []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return string(b), b
}

// ChainView is a retry chain, oldest first.
type ChainView struct {
	Executions []form.ExecutionView `json:"executions"`
}

// EventsView holds the events of an execution, oldest first.
type EventsView struct {
	Events []store.Event `json:"events"`
	Left   int           `json:"left,omitempty" doc:"how many others match"`
	More   bool          `json:"more,omitempty" doc:"there are others, which from and to select"`
}

// WorkerList is a page of workers, by id. Unreached are the nodes that did not answer.
type WorkerList struct {
	Workers    []view.Worker    `json:"workers"`
	NextCursor string           `json:"next_cursor,omitempty"`
	Unreached  []view.Unreached `json:"unreached,omitempty"`
}

// WorkerDetailView is one worker with its history, newest first.
type WorkerDetailView struct {
	view.Worker
	Inputs  []view.GradeInput `json:"grade_inputs,omitempty" doc:"what grades it, with the borders"`
	History []view.Transition `json:"history"`
}

func viewWorker(d view.WorkerDetail) WorkerDetailView {
	return WorkerDetailView{Worker: d.Worker, Inputs: d.Inputs, History: view.Transitions(d.History)}
}

// HealthView is the latest health of a worker.
type HealthView struct {
	Worker    messages.WorkerID `json:"worker"`
	State     string            `json:"state"`
	Health    string            `json:"health"`
	Grade     string            `json:"grade"`
	Causes    []string          `json:"grade_causes,omitempty"`
	Heartbeat time.Time         `json:"last_heartbeat,omitzero"`
	LastError string            `json:"last_failure,omitempty"`
	Report    json.RawMessage   `json:"health_report,omitempty"`
}

func viewHealth(d view.WorkerDetail) HealthView {
	return HealthView{
		Worker: d.ID, State: d.State, Health: d.Health, Grade: d.Grade, Causes: d.GradeCauses, Heartbeat: d.Heartbeat,
		LastError: d.LastError, Report: d.Report,
	}
}

// PoolList is every pool. Unreached are the nodes that did not answer.
type PoolList struct {
	Pools     []view.Pool      `json:"pools"`
	Unreached []view.Unreached `json:"unreached,omitempty"`
}

// NodeList is every known incarnation, newest first.
type NodeList struct {
	Nodes []view.Node `json:"nodes"`
}

// ReachList says which live node reaches which other, and which nodes did not say it.
type ReachList struct {
	Nodes     []view.Sights    `json:"nodes"`
	Unreached []view.Unreached `json:"unreached,omitempty"`
}

// SessionList is a page of sessions, by pool and name.
type SessionList struct {
	Sessions   []store.Session `json:"sessions"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// ActionView is an action as the API shows it: durations in seconds.
type ActionView struct {
	Ref                  string            `json:"ref"`
	Pack                 string            `json:"pack"`
	Version              string            `json:"version"`
	Description          string            `json:"description,omitempty"`
	Runtime              messages.Runtime  `json:"runtime"`
	Pool                 string            `json:"pool"`
	Entrypoint           string            `json:"entrypoint,omitempty"`
	Command              []string          `json:"command,omitempty"`
	TimeoutSeconds       float64           `json:"timeout_seconds,omitempty"` // absent: executor.default_timeout
	StallTimeoutSeconds  float64           `json:"stall_timeout_seconds,omitempty"`
	QueueDeadlineSeconds float64           `json:"queue_deadline_seconds,omitempty"`
	MaxRetries           int               `json:"max_retries"`
	Idempotent           bool              `json:"idempotent"`
	Affinity             messages.Affinity `json:"affinity,omitempty"`
	OnNoWorker           string            `json:"on_no_worker"` // fail, wait
	Parameters           json.RawMessage   `json:"parameters,omitempty"`
	Secrets              []string          `json:"secrets,omitempty"` // names of parameters
}

func viewAction(a *messages.Action) ActionView {
	v := ActionView{
		Ref: a.Ref, Pack: a.Pack, Version: a.Version, Description: a.Description, Runtime: a.Runtime, Pool: a.Pool,
		Entrypoint: a.Entrypoint, Command: a.Command, TimeoutSeconds: a.Timeout.Seconds(),
		StallTimeoutSeconds: a.StallTimeout.Seconds(), QueueDeadlineSeconds: a.QueueDeadline.Seconds(),
		MaxRetries: a.MaxRetries, Idempotent: a.Idempotent, Affinity: a.Affinity, OnNoWorker: "fail",
		Parameters: a.Parameters, Secrets: a.Secrets,
	}
	if a.WaitForWorker {
		v.OnNoWorker = "wait"
	}
	return v
}

// ActionList is every action that this node serves, by ref.
type ActionList struct {
	Actions []ActionView `json:"actions"`
}

// DeadLetterView is a dead letter, and whether its execution is still there.
type DeadLetterView struct {
	store.DeadLetter
	Gone bool `json:"execution_gone,omitempty" doc:"the store does not have its execution: the 404 of GET /api/v1/executions/{id} says what is still known of it"`
	// Of one dead letter, not in lists.
	Means    string `json:"means,omitempty" doc:"what it means; not in lists"`
	WhatToDo string `json:"what_to_do,omitempty" doc:"what a person does about it; not in lists"`
}

// DeadLetterList is a page of dead letters, newest first.
type DeadLetterList struct {
	DeadLetters []DeadLetterView `json:"dead_letters"`
	NextCursor  string           `json:"next_cursor,omitempty"`
	More        store.More       `json:"more" doc:"found: the page is full, and more may follow; unsearched: the node has looked at as many as it does for one page, and next_cursor looks further; end: nothing follows"`
	SearchedTo  *LetterSearched  `json:"searched_to,omitempty" doc:"how far the page has looked; missing at the end of the list"`
}

// LetterSearched is how far a page of dead letters has looked.
type LetterSearched struct {
	At     time.Time `json:"at" doc:"of the last one that it looked at"`
	ID     int64     `json:"id"`
	Walked int       `json:"walked" doc:"how many it looked at"`
}

// DeadLetterStats counts dead letters by worker, action, reason and hour.
type DeadLetterStats struct {
	Since  time.Time               `json:"since"`
	Total  int                     `json:"total"`
	Counts []store.DeadLetterCount `json:"counts"`
}

// CordonView is the result of a cordon.
type CordonView struct {
	Kind     string `json:"kind"` // worker, pool, node
	Name     string `json:"name"`
	Cordoned bool   `json:"cordoned"`
}

// DoneView confirms a request that was accepted.
type DoneView struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Done string `json:"done"` // kill, drain
}
