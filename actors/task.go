package actors

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Handler runs one execution of a go action. It returns a value that becomes the result as JSON, or an error; an
// *messages.Error is stored as it is. It must return soon after ctx ends. A panic costs the worker and counts as its
// death.
type Handler func(ctx context.Context, t *Task) (any, error)

// Task is what a go handler is given.
type Task struct {
	ID         messages.ExecutionID
	Attempt    messages.Attempt
	Action     string
	Parameters json.RawMessage
	Session    string
	Epoch      int64 // of the session
	Lost       bool  // the session's state was lost before this run
	RetryCount int
	Trace      string // W3C traceparent

	board  *Board
	post   func(any)
	run    *goRun
	stalls bool // signs of progress matter
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
	t.add(Happening{Kind: "progress", At: time.Now(), Fraction: fraction, Message: message})
}

// Chunk streams a piece of the result, as JSON. It fails only where v cannot be encoded.
func (t *Task) Chunk(v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		t.add(Happening{Kind: "chunk", At: time.Now(), Chunk: data})
	}
	return err
}

// Log shows a line among the run's live events. Level is debug, info, warn or error.
func (t *Task) Log(level, message string) {
	t.add(Happening{Kind: "log", At: time.Now(), Level: level, Message: message})
}

// add shows an event of the run. What comes after the run's end, from a handler that was left behind or from a goroutine
// that it left, concerns nobody; one that meets the end closes the feed that it may have begun anew.
func (t *Task) add(h Happening) {
	if t.run.told.Load() {
		return
	}
	t.board.Add(t.ID, h)
	if t.run.told.Load() {
		t.board.Close(t.ID)
	} else if t.stalls {
		t.post(&sign{})
	}
}
