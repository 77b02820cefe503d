package view

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Live is one live happening of a running execution.
type Live struct {
	Kind     string          `json:"kind"` // status, stdout, stderr, progress, chunk, log, notice
	At       time.Time       `json:"at"`
	Status   messages.Status `json:"status,omitzero"`
	Data     []byte          `json:"data,omitempty"`     // stdout, stderr
	Chunk    json.RawMessage `json:"chunk,omitempty"`    // chunk
	Fraction *float64        `json:"fraction,omitempty"` // progress
	Level    string          `json:"level,omitempty"`    // log
	Message  string          `json:"message,omitempty"`  // progress, log; notice: of the node's own, about what it can see
}

// Explanation says why an execution is where it is.
type Explanation struct {
	Execution messages.ExecutionID `json:"execution"`
	Status    messages.Status      `json:"status,omitzero"` // not known while the store is away
	Reason    string               `json:"reason"`          // a closed set of words
	Message   string               `json:"message"`         // a sentence
	Until     time.Time            `json:"until,omitzero"`
	Retry     *Retry               `json:"retry,omitempty"` // whether a retry follows
}

// Retry says whether a retry follows an execution: as which, when and for what; or why none does.
type Retry struct {
	As      messages.ExecutionID `json:"as,omitzero"`
	At      time.Time            `json:"at,omitzero"`       // when it is due
	Reason  string               `json:"reason,omitempty"`  // what it is made for: a class of failures, or manual_retry
	WhyNot  string               `json:"why_not,omitempty"` // why none follows
	Left    int                  `json:"left,omitempty"`    // retries that a failure would still have
	Message string               `json:"message"`           // the same for people
}
