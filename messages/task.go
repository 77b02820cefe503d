package messages

import (
	"context"
	"encoding/json"
)

// Handler runs one execution of a go action. It returns a value that becomes the result as JSON, or an error; an *Error is stored as
// it is. It must return soon after ctx ends. A panic costs the worker and counts as its death.
type Handler func(ctx context.Context, t *Task) (any, error)

// Task is what a go handler is given.
type Task struct {
	ID         ExecutionID
	Attempt    Attempt
	Action     string
	Parameters json.RawMessage
	Session    string
	Epoch      int64 // of the session
	Lost       bool  // the session's state was lost before this run
	RetryCount int
	Trace      string // W3C traceparent
	TraceState string // W3C tracestate

	// Reporter takes what the handler shows of its run. nil, as in a handler's own test: it is dropped.
	Reporter Reporter
}

// Reporter takes live events of a run.
type Reporter interface {
	Progress(fraction float64, message string)
	Chunk(data json.RawMessage)
	Log(level, message string)
}

// Bind reads the parameters into v.
func (t *Task) Bind(v any) error {
	if len(t.Parameters) == 0 {
		return nil
	}
	return json.Unmarshal(t.Parameters, v)
}

// Progress shows how far the run is: a share from 0 to 1, or a negative number for none, and a message.
func (t *Task) Progress(fraction float64, message string) {
	if t.Reporter != nil {
		t.Reporter.Progress(fraction, message)
	}
}

// Chunk streams a piece of the result, as JSON. It fails only where v is no JSON that can be stored, with the error that a result of that
// kind has.
func (t *Task) Chunk(v any) error {
	data, err := EncodeJSON(v)
	if err != nil {
		return NotJSON("chunk", err)
	}
	if t.Reporter != nil {
		t.Reporter.Chunk(data)
	}
	return nil
}

// Log shows a line among the run's live events. Level is debug, info, warn or error.
func (t *Task) Log(level, message string) {
	if t.Reporter != nil {
		t.Reporter.Log(level, message)
	}
}
