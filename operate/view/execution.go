package view

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Live is one live event of a running execution.
type Live struct {
	Kind     string          `json:"kind"` // status, stdout, stderr, progress, chunk, log, notice
	At       time.Time       `json:"at"`
	Status   messages.Status `json:"status,omitzero"`
	Data     []byte          `json:"data,omitempty"`     // stdout, stderr
	Chunk    json.RawMessage `json:"chunk,omitempty"`    // chunk
	Fraction *float64        `json:"fraction,omitempty"` // progress
	Level    string          `json:"level,omitempty"`    // log
	Message  string          `json:"message,omitempty"`  // progress, log; notice: from the node, about what it can show
}

// Explanation says why an execution is in its state.
type Explanation struct {
	Execution messages.ExecutionID `json:"execution"`
	Status    messages.Status      `json:"status,omitzero"` // empty while the store is unavailable
	Reason    string               `json:"reason"`          // a closed set of words
	Message   string               `json:"message"`         // a sentence
	WhatToDo  string               `json:"what_to_do,omitempty" doc:"what a person does about the reason"`
	Until     time.Time            `json:"until,omitzero"`
	Retry     *Retry               `json:"retry,omitempty"` // whether a retry follows
	Line      *Line                `json:"line,omitempty" doc:"its place in line, where it waits in one that the router knows"`
}

// Line is a place in line.
type Line struct {
	Ahead   int    `json:"ahead" doc:"how many others are before it"`
	AtLeast bool   `json:"at_least,omitempty" doc:"there may be more: the router has not loaded all that waits, or looked at a part of it"`
	Of      string `json:"of" doc:"pool: for its next free worker; worker: for that of its session; session: behind others of it; any_worker: for the first worker of the pool"`
}

// PastLine says where an execution stood in line at a time of the past.
type PastLine struct {
	Execution messages.ExecutionID `json:"execution"`
	At        time.Time            `json:"at"`
	Cause     string               `json:"cause,omitempty" doc:"what it waited for then, as its timeline says; absent: it did not wait"`
	Evidence  string               `json:"evidence,omitempty" doc:"the record that shows the cause"`
	Line      *Line                `json:"line,omitempty" doc:"its place in line, by the rows of the others; absent: it stood in none that they know"`
	Since     time.Time            `json:"since,omitzero" doc:"what was requested before is not looked at; absent: all was"`
}

// Retry says whether an execution has or gets a retry: its id, time and reason, or why there is none.
type Retry struct {
	As      messages.ExecutionID `json:"as,omitzero"`
	At      time.Time            `json:"at,omitzero"`       // due time
	Reason  string               `json:"reason,omitempty"`  // a class of failures, or manual_retry
	WhyNot  string               `json:"why_not,omitempty"` // why there is none
	Left    int                  `json:"left,omitempty"`    // remaining retries after another failure
	Message string               `json:"message"`           // the same for people
}
