package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds in bytes. A larger result or piece fails its execution.
const (
	resultMax = 8 << 20
	chunkMax  = frameMax - 1024
)

// Session is an execution's session. State belongs to the handlers and lives while the session stays with this worker.
// Lost says that an earlier state is lost. Hit says that this is the session's own worker.
type Session struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"` // grows each time the session moves
	Lost  bool   `json:"lost"`
	Hit   bool   `json:"hit"`
	State any    `json:"-"`
}

// Run is one execution, as its handler sees it. Its methods are safe for concurrent use.
type Run struct {
	Execution  string          `json:"execution"`
	Attempt    int             `json:"attempt"`
	Action     string          `json:"action"`
	Parameters json.RawMessage `json:"parameters"`
	Session    *Session        `json:"session"` // nil: the execution has none
	DeadlineMS int64           `json:"deadline_ms"`
	RetryCount int             `json:"retry_count"`
	Trace      string          `json:"trace"`       // W3C traceparent; empty: none
	TraceState string          `json:"trace_state"` // W3C tracestate; empty: none

	server *server
	id     uint64
	close  bool
	ended  atomic.Bool
}

// ErrEnded is what the methods of a Run return that has ended.
var ErrEnded = errors.New("the run has ended")

// Progress reports how far the run is: a fraction from 0 to 1, or NaN for none, and a short text.
func (r *Run) Progress(fraction float64, message string) error {
	var part any
	if !math.IsNaN(fraction) {
		part = min(1, max(0, fraction))
	}
	return r.emit(map[string]any{"event": "progress", "id": r.id, "fraction": part, "message": clip(message, textMax)})
}

// Chunk streams a piece of the result. A piece that is not JSON, or too large, is an *Error: a handler that returns it fails for good.
func (r *Run) Chunk(data any) error {
	text, err := encode(data)
	switch {
	case err != nil:
		return notJSON("the chunk", data, err)
	case len(text) > chunkMax:
		return tooLarge("the chunk", len(text), chunkMax)
	}
	return r.emit(map[string]any{"event": "chunk", "id": r.id, "data": json.RawMessage(text)})
}

// Log writes a log line of the run; level is debug, info, warn or error.
func (r *Run) Log(level, message string) error {
	return r.emit(map[string]any{"event": "log", "id": r.id, "level": level, "message": clip(message, textMax)})
}

func (r *Run) emit(event map[string]any) error {
	if r.ended.Load() {
		return ErrEnded
	}
	return r.server.emit(event)
}

// Go calls f in a goroutine of its own. If f panics, the process lives on, and the panic is told on this run, also after its end. A panic
// in any other goroutine that the handler starts ends the process.
func (r *Run) Go(f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				_ = r.server.fault(r, panicked(p))
			}
		}()
		f()
	}()
}

// CloseWorker requests that this worker is replaced after the run. Call it from the handler's own goroutine.
func (r *Run) CloseWorker() { r.close = true }

// execute starts the run in its own goroutine, so that ping and cancel are answered meanwhile.
func (s *server) execute(ctx context.Context, r request) error {
	run := &Run{server: s, id: r.ID}
	if err := json.Unmarshal(r.Args, run); err != nil {
		return s.fail(r.ID, &Error{Code: "invalid_request", Message: "execute: " + err.Error()}, false)
	}
	handler := s.find(run.Action)
	if handler == nil {
		return s.fail(r.ID, &Error{Code: "action_not_found", Message: fmt.Sprintf("this program does not serve action %q", run.Action)}, false)
	}
	run.Session = s.enter(run.Session)
	deadline := time.Now().Add(time.Duration(run.DeadlineMS) * time.Millisecond)
	if run.DeadlineMS <= 0 {
		deadline = time.Now().Add(math.MaxInt64) // no deadline
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	s.mu.Lock()
	s.runs, s.cancel = r.ID, cancel
	s.mu.Unlock()
	go s.run(ctx, cancel, handler, run)
	return nil
}

// run calls the handler and answers. The loop's next read finds an error of the pipe.
func (s *server) run(ctx context.Context, cancel context.CancelFunc, handler Handler, run *Run) {
	defer cancel()
	value, err := call(ctx, handler, run)
	run.ended.Store(true)
	cancelled := errors.Is(ctx.Err(), context.Canceled)
	s.mu.Lock()
	s.runs, s.cancel = 0, nil
	s.mu.Unlock()
	if err != nil {
		_ = s.fail(run.id, describe(err, cancelled), run.close)
		return
	}
	data, err := encode(value)
	switch {
	case err != nil:
		_ = s.fail(run.id, notJSON("the result", value, err), run.close)
	case len(data) > resultMax:
		_ = s.fail(run.id, tooLarge("the result", len(data), resultMax), run.close)
	default:
		_ = s.answer(run.id, json.RawMessage(data), run.close)
	}
}

// call runs the handler. A panic becomes an error of the execution with the stack in its details, and so does a handler that ends its
// goroutine: it runs in one of its own.
func call(ctx context.Context, handler Handler, run *Run) (value any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = &Error{Code: "action_error", Message: "the handler ended its goroutine"}
		defer func() {
			if p := recover(); p != nil {
				err = panicked(p)
			}
		}()
		value, err = handler(ctx, run)
	}()
	<-done
	return value, err
}

func panicked(p any) *Error {
	return &Error{Code: "action_error", Message: fmt.Sprintf("panic: %v", p), Details: map[string]string{"stack": clip(string(debug.Stack()), textMax)}}
}

func describe(err error, cancelled bool) *Error {
	own, _ := guarded(func() (*Error, error) {
		var e *Error
		errors.As(err, &e)
		return e, nil
	})
	if own != nil {
		return own
	}
	if ended, _ := guarded(func() (bool, error) { return errors.Is(err, context.Canceled), nil }); cancelled && ended {
		return &Error{Code: "cancelled", Message: "the execution was cancelled"}
	}
	e := &Error{Code: "action_error", Message: textOf(err), Types: typesOf(err)}
	if len(e.Types) > 0 {
		e.Type = e.Types[0]
	}
	return e
}

// enter returns the held session, or a new one if its epoch is newer. With a stale epoch it returns a session that is
// not kept.
func (s *server) enter(told *Session) *Session {
	if told == nil {
		return nil
	}
	held := s.sessions[told.ID]
	if held == nil || held.Epoch < told.Epoch {
		s.sessions[told.ID] = told
		return told
	}
	if held.Epoch > told.Epoch {
		return told
	}
	held.Lost, held.Hit = told.Lost, told.Hit
	return held
}

func (s *server) find(ref string) Handler {
	if h := s.handlers[ref]; h != nil {
		return h
	}
	_, name, _ := strings.Cut(ref, ".")
	return s.handlers[name]
}
