package messages

import (
	"encoding/json"
	"fmt"
	"time"
)

// Runtime is the name of how a worker runs an action. The package runtime says what each is.
type Runtime string

// Affinity is how strongly an execution asks for its session's worker. Empty: none, or strict where a session is given.
type Affinity string

// The session modes.
const (
	AffinityNone       Affinity = ""
	AffinityHint       Affinity = "hint"        // prefer the bound worker; another if it is not free
	AffinityStrict     Affinity = "strict"      // wait for the bound worker
	AffinityStrictFail Affinity = "strict_fail" // fail at once with session_busy or session_lost
)

// ParseAffinity reads a mode's name; the empty text is AffinityNone.
func ParseAffinity(s string) (Affinity, error) {
	switch a := Affinity(s); a {
	case AffinityNone, AffinityHint, AffinityStrict, AffinityStrictFail:
		return a, nil
	}
	return "", fmt.Errorf("unknown affinity %q: want hint, strict or strict_fail", clip(s))
}

// RetryShape is how the delay grows from retry to retry. Empty: exponential, or as configured.
type RetryShape string

// The shapes. n counts from 0, the first retry.
const (
	ShapeFixed        RetryShape = "fixed"        // base each time
	ShapeLinear       RetryShape = "linear"       // base × (n + 1)
	ShapeExponential  RetryShape = "exponential"  // base × multiplierⁿ
	ShapeFibonacci    RetryShape = "fibonacci"    // base × 1, 1, 2, 3, 5, 8 …
	ShapeDecorrelated RetryShape = "decorrelated" // anything from base to three times the delay before; without jitter of its own
)

// RetryShapes lists every shape.
func RetryShapes() []RetryShape {
	return []RetryShape{ShapeFixed, ShapeLinear, ShapeExponential, ShapeFibonacci, ShapeDecorrelated}
}

// RetryRules say which failures are retried. Entries of the lists are error codes, classes, exit statuses ("3") and types of
// exceptions.
type RetryRules struct {
	On           []string `json:"on,omitempty"`           // only these; empty: whatever is not final
	NeverOn      []string `json:"never_on,omitempty"`     // never these
	Unclassified string   `json:"unclassified,omitempty"` // what no rule knows: retry or final; empty: as configured
}

// RetryPolicy is the back-off between retries. Zero fields mean the configured defaults.
type RetryPolicy struct {
	Shape      RetryShape    `json:"shape,omitempty"`
	Base       time.Duration `json:"base,omitempty"`       // delay before the first retry
	Multiplier float64       `json:"multiplier,omitempty"` // growth per retry of shape exponential, ≥ 1
	Max        time.Duration `json:"max,omitempty"`        // upper limit of a delay, jitter included
	Jitter     float64       `json:"jitter,omitempty"`     // share of random spread, 0 to 1; negative: none
}

// Action is a named thing that can be run, as its pack defines it, defaults applied.
type Action struct {
	Ref         string  `json:"ref"` // pack.name
	Pack        string  `json:"pack"`
	Version     string  `json:"version"` // the pack's
	Description string  `json:"description,omitempty"`
	Runtime     Runtime `json:"runtime"`
	Pool        string  `json:"pool"`
	// Root is the pack's folder on this node, absolute; entrypoints and commands are opened inside it.
	Root       string   `json:"-"`
	Entrypoint string   `json:"entrypoint,omitempty"` // python, node: file:function; go: the handler's name
	Command    []string `json:"command,omitempty"`    // shell, process: argv

	Timeout       time.Duration `json:"timeout,omitempty"`        // 0: executor.default_timeout
	StallTimeout  time.Duration `json:"stall_timeout,omitempty"`  // 0: off
	QueueDeadline time.Duration `json:"queue_deadline,omitempty"` // 0: none
	MaxRetries    int           `json:"max_retries"`
	// RetriesConsented says that the action itself set max_retries, which is consent to repeat after worker_lost.
	RetriesConsented bool            `json:"retries_consented,omitempty"`
	Idempotent       bool            `json:"idempotent,omitempty"`
	Affinity         Affinity        `json:"affinity,omitempty"`
	WaitForWorker    bool            `json:"wait_for_worker,omitempty"` // on_no_worker: wait
	Parameters       json.RawMessage `json:"parameters,omitempty"`      // JSON Schema 2020-12
	Secrets          []string        `json:"secrets,omitempty"`         // parameters never logged or shown
	Retry            RetryPolicy     `json:"retry,omitzero"`
	RetryRules       RetryRules      `json:"retry_rules,omitzero"`
	// Silent actions' outcomes are not told on the executions exchange (notify: false).
	Silent bool `json:"silent,omitempty"`
	// Webhook is told of outcomes by HTTP, where the submission says nothing else. Nil: the node's.
	Webhook *Webhook `json:"webhook,omitempty"`
}
