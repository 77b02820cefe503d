// Package worker serves Troupe's worker protocol from a Go program (runtime: process). It owns the two pipes, the
// sessions' states and the running execution. It never starts processes and never writes to standard output. A
// program's main calls Serve. docs/protocol.md is the contract.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Version is this SDK's version, sent to the node in the answer to hello.
const Version = "0.1.0"

// Handler runs one execution. Its context ends when the execution is cancelled or at its deadline. The result is any
// value that encodes to JSON. An *Error gives the execution's error a code.
type Handler func(ctx context.Context, run *Run) (any, error)

// Error is an execution's error with its own code. If Retriable is nil, Troupe decides whether to retry.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type,omitempty"` // type of the original error; an action's retry.on and never_on may name it
	// Types are the types in the chain of the original error, the outermost first; retry.on and never_on may name any.
	Types       []string `json:"types,omitempty"`
	Retriable   *bool    `json:"retriable,omitempty"`
	WorkerFault bool     `json:"worker_fault,omitempty"` // counts against this worker's health
	Details     any      `json:"details,omitempty"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Retriable marks an error that another run may not have: the execution is retried while it has retries left.
func Retriable(err error) *Error { return withRetriable(err, true) }

// Final marks an error that every other run would have too: the execution is never retried.
func Final(err error) *Error { return withRetriable(err, false) }

func withRetriable(err error, retriable bool) *Error {
	e := *describe(err, false)
	e.Retriable = &retriable
	return &e
}

// Serve answers the node on descriptors 3 and 4. It returns nil when the node asks for shutdown or closes the request
// pipe, or when ctx ends; the program should then exit 0. A broken protocol or pipe is an error. The keys of handlers
// are full names of actions (mypack.greet) or names inside the pack (greet).
func Serve(ctx context.Context, handlers map[string]Handler) error {
	for _, fd := range []int{3, 4} {
		syscall.CloseOnExec(fd) // a child with these pipes would hide this program's end from the node
	}
	// Non-blocking, so that the runtime's poller reads it and Close ends a blocked read.
	if err := syscall.SetNonblock(3, true); err != nil {
		return fmt.Errorf("open descriptor 3: %w: this program is to be started by a node or by troupe worker check", err)
	}
	return ServePipes(ctx, handlers, os.NewFile(3, "requests"), os.NewFile(4, "events"))
}

// ServePipes is Serve on the given pipes. It closes in, which must end a blocked Read.
func ServePipes(ctx context.Context, handlers map[string]Handler, in io.ReadCloser, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = in.Close() })() // its error does not matter
	defer stop()
	s := &server{handlers: handlers, out: out, sessions: map[string]*Session{}}
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		r, err := readRequest(reader)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		var bad *undecodable
		if err == nil {
			err = s.handle(ctx, r)
		} else if errors.As(err, &bad) && bad.id != 0 { // an error of that request, and not of the stream
			err = s.fail(bad.id, &Error{Code: "invalid_request", Message: bad.Error()}, false)
		}
		if err != nil || r.Command == "shutdown" {
			return err
		}
	}
}

// server has the state that the requests share. mu guards the running execution, its end and the writer.
type server struct {
	handlers map[string]Handler
	sessions map[string]*Session // by id; only the loop uses it
	faults   atomic.Bool         // the node takes fault events

	mu     sync.Mutex
	out    io.Writer
	cancel context.CancelFunc // of the running execute
	runs   uint64             // its id; 0: none
}

type request struct {
	ID      uint64          `json:"id"`
	Command string          `json:"command"`
	Args    json.RawMessage `json:"args"`
}

// arguments are the arguments of every command except execute, and without hello's list.
type arguments struct {
	Request  uint64   `json:"request"`
	Session  string   `json:"session"`
	Epoch    int64    `json:"epoch"`
	Protocol int      `json:"protocol"`
	Actions  []action `json:"actions"`
	Faults   bool     `json:"faults"`
}

type action struct {
	Ref string `json:"ref"`
}

func (s *server) handle(ctx context.Context, r request) error {
	if r.Command == "execute" {
		return s.execute(ctx, r)
	}
	var args arguments
	if len(r.Args) > 0 {
		if err := json.Unmarshal(r.Args, &args); err != nil {
			return s.fail(r.ID, &Error{Code: "invalid_request", Message: r.Command + ": " + err.Error()}, false)
		}
	}
	switch r.Command {
	case "hello":
		return s.hello(r.ID, args)
	case "cancel":
		s.stop(args.Request)
	case "end_session":
		if held := s.sessions[args.Session]; held != nil && held.Epoch <= args.Epoch {
			delete(s.sessions, args.Session)
		}
	case "ping", "health_check", "shutdown":
	default:
		return s.fail(r.ID, &Error{Code: "unknown_command", Message: fmt.Sprintf("unknown command %q", r.Command)}, false)
	}
	return s.answer(r.ID, struct{}{}, false)
}

func (s *server) hello(id uint64, args arguments) error {
	if args.Protocol != 1 {
		return s.fail(id, &Error{Code: "load_error", Message: fmt.Sprintf("the node speaks protocol %d and this SDK 1", args.Protocol)}, false)
	}
	s.faults.Store(args.Faults)
	for _, a := range args.Actions {
		if s.find(a.Ref) == nil {
			return s.fail(id, &Error{Code: "load_error", Message: fmt.Sprintf("this program does not serve action %q", a.Ref)}, false)
		}
	}
	return s.answer(id, map[string]any{
		"protocol": 1, "sdk": "go", "version": Version, "pid": os.Getpid(),
		"capabilities": map[string]bool{"ping_while_busy": true, "cancel": true, "sessions": true, "health_check": true},
	}, false)
}

// stop cancels the running execute if its id is this one.
func (s *server) stop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == id && s.cancel != nil {
		s.cancel()
	}
}
