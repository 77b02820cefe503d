package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is the other end of a served worker's pipes.
type node struct {
	t        *testing.T
	requests *io.PipeWriter
	events   *bufio.Reader
	done     chan error
	cancel   context.CancelFunc // ends Serve's context
	last     uint64
}

// event is what a worker sends.
type event struct {
	Event    string
	ID       uint64
	Data     json.RawMessage
	Error    *Error
	Close    bool
	Fraction float64
	Message  string
	Level    string
}

func serve(t *testing.T, handlers map[string]Handler) *node {
	t.Helper()
	in, requests := io.Pipe()
	events, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{t: t, requests: requests, events: bufio.NewReader(events), done: make(chan error, 1), cancel: cancel}
	go func() {
		n.done <- ServePipes(ctx, handlers, in, out)
	}()
	t.Cleanup(func() {
		cancel()
		events.Close() // a write in flight ends, so the served loop does
		requests.Close()
	})
	return n
}

func (n *node) send(command string, args any) uint64 {
	n.t.Helper()
	n.last++
	body, err := json.Marshal(map[string]any{"id": n.last, "command": command, "args": args})
	require.NoError(n.t, err)
	_, err = n.requests.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	require.NoError(n.t, err)
	return n.last
}

func (n *node) read() event {
	n.t.Helper()
	var head [4]byte
	_, err := io.ReadFull(n.events, head[:])
	require.NoError(n.t, err)
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err = io.ReadFull(n.events, body)
	require.NoError(n.t, err)
	var e event
	require.NoError(n.t, json.Unmarshal(body, &e))
	return e
}

func (n *node) ask(command string, args any) event {
	n.t.Helper()
	id := n.send(command, args)
	e := n.read()
	require.Equal(n.t, id, e.ID)
	return e
}

func (n *node) ended() error {
	n.t.Helper()
	select {
	case err := <-n.done:
		return err
	case <-time.After(10 * time.Second):
		require.Fail(n.t, "Serve did not return")
		return nil
	}
}

func execution(action string, parameters any) map[string]any {
	return map[string]any{"execution": "0199", "attempt": 2, "action": action, "parameters": parameters, "deadline_ms": 60_000}
}

var handlers = map[string]Handler{
	"t.echo": func(_ context.Context, r *Run) (any, error) { return r.Parameters, nil },
	"panics": func(context.Context, *Run) (any, error) { panic("ouch") },
	"fails":  func(context.Context, *Run) (any, error) { return nil, errors.New("no such thing") },
	"own": func(context.Context, *Run) (any, error) {
		return nil, &Error{Code: "busy", Message: "later", Details: []int{1}}
	},
	"typed": func(context.Context, *Run) (any, error) {
		return nil, fmt.Errorf("open: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist})
	},
	"again": func(context.Context, *Run) (any, error) {
		return nil, Retriable(&Error{Code: "busy", Message: "later"})
	},
	"never": func(context.Context, *Run) (any, error) {
		return nil, fmt.Errorf("run: %w", Final(errors.New("no such city")))
	},
	"channel": func(context.Context, *Run) (any, error) { return make(chan int), nil },
	"large":   func(context.Context, *Run) (any, error) { return string(bytes.Repeat([]byte("x"), 9<<20)), nil },
	"waits": func(ctx context.Context, r *Run) (any, error) {
		if err := r.Progress(2, "waiting"); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"tells": func(_ context.Context, r *Run) (any, error) {
		r.CloseWorker()
		return nil, errors.Join(r.Chunk(map[string]int{"n": 1}), r.Log("warn", "careful"))
	},
	"count": func(_ context.Context, r *Run) (any, error) {
		n, _ := r.Session.State.(int)
		r.Session.State = n + 1
		return []any{n + 1, r.Session.Lost}, nil
	},
}

func TestHello(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	e := n.ask("hello", map[string]any{"protocol": 1, "actions": []any{map[string]any{"ref": "t.echo"}, map[string]any{"ref": "t.fails"}}})
	require.Equal(t, "result", e.Event)
	require.Contains(t, string(e.Data), `"sdk":"go"`)
	e = n.ask("hello", map[string]any{"protocol": 1, "actions": []any{map[string]any{"ref": "t.gone"}}})
	require.Contains(t, e.Error.Message, `"t.gone"`)
	require.Equal(t, "load_error", n.ask("hello", map[string]any{"protocol": 2}).Error.Code)
	require.Equal(t, "unknown_command", n.ask("dance", nil).Error.Code)
	require.Equal(t, "invalid_request", n.ask("cancel", []int{}).Error.Code)
}

func TestExecute(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	n := serve(t, handlers)
	require.JSONEq(t, `{"a":[1]}`, string(n.ask("execute", execution("t.echo", map[string]any{"a": []int{1}})).Data))
	for action, want := range map[string]Error{
		"t.fails":   {Code: "action_error", Message: "no such thing"},
		"t.own":     {Code: "busy", Message: "later", Details: []any{1.0}},
		"t.typed":   {Code: "action_error", Message: "open: open x: file does not exist", Type: "fs.PathError", Types: []string{"fs.PathError"}},
		"t.again":   {Code: "busy", Message: "later", Retriable: &yes},
		"t.never":   {Code: "action_error", Message: "no such city", Retriable: &no},
		"t.gone":    {Code: "action_not_found", Message: `this program does not serve action "t.gone"`},
		"t.channel": {Code: "result_not_json", Message: "the result is not JSON: it is a chan int", Retriable: &no},
		"t.large":   {Code: "result_too_large", Message: "the result has 9437186 bytes, the limit is 8388608", Retriable: &no},
	} {
		require.Equal(t, want, *n.ask("execute", execution(action, nil)).Error, action)
	}
	e := n.ask("execute", execution("t.panics", nil))
	require.Equal(t, "panic: ouch", e.Error.Message)
	require.Contains(t, e.Error.Details, "stack")
}

func TestWhatARunTells(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	id := n.send("execute", execution("t.tells", nil))
	require.Equal(t, event{Event: "chunk", ID: id, Data: json.RawMessage(`{"n":1}`)}, n.read())
	require.Equal(t, event{Event: "log", ID: id, Level: "warn", Message: "careful"}, n.read())
	require.Equal(t, event{Event: "result", ID: id, Data: json.RawMessage("null"), Close: true}, n.read())
}

func TestPingAndCancelWhileBusy(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	run := n.send("execute", execution("t.waits", nil))
	require.Equal(t, event{Event: "progress", ID: run, Fraction: 1, Message: "waiting"}, n.read())
	require.Equal(t, "result", n.ask("ping", nil).Event)
	require.Equal(t, "result", n.ask("cancel", map[string]any{"request": run + 100}).Event) // another run
	cancel := n.send("cancel", map[string]any{"request": run})
	answers := map[uint64]event{}
	for range 2 {
		e := n.read()
		answers[e.ID] = e
	}
	require.Equal(t, "cancelled", answers[run].Error.Code)
	require.Equal(t, "result", answers[cancel].Event)
}

func TestTheDeadlineEndsARun(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	args := execution("t.waits", nil)
	args["deadline_ms"] = 20
	n.send("execute", args)
	require.Equal(t, "progress", n.read().Event)
	require.Equal(t, Error{Code: "action_error", Message: "context deadline exceeded", Type: "context.deadlineExceededError", Types: []string{"context.deadlineExceededError"}}, *n.read().Error)
}

func TestSessionsKeepStateByEpoch(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	count := func(epoch int, lost bool) string {
		args := execution("t.count", nil)
		args["session"] = map[string]any{"id": "alice", "epoch": epoch, "lost": lost}
		return string(n.ask("execute", args).Data)
	}
	require.Equal(t, "[1,false]", count(1, false))
	require.Equal(t, "[2,false]", count(1, false))
	require.Equal(t, "[1,true]", count(2, true))
	require.Equal(t, "[1,false]", count(1, false), "a stale epoch must not see what came later")
	n.ask("end_session", map[string]any{"session": "alice", "epoch": 1})
	require.Equal(t, "[2,false]", count(2, false))
	n.ask("end_session", map[string]any{"session": "alice", "epoch": 2})
	require.Equal(t, "[1,false]", count(2, false))
}

func TestServeEnds(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	n.ask("shutdown", nil)
	require.NoError(t, n.ended())

	n = serve(t, handlers)
	require.NoError(t, n.requests.Close())
	require.NoError(t, n.ended())

	n = serve(t, handlers)
	n.cancel()
	require.NoError(t, n.ended())

	n = serve(t, handlers)
	_, err := n.requests.Write([]byte{0, 0, 0, 0})
	require.NoError(t, err)
	require.ErrorContains(t, n.ended(), "a frame of 0 bytes")
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x00\x00\x20{\"id\":1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 4 && binary.BigEndian.Uint32(data) > 1<<20 && binary.BigEndian.Uint32(data) <= frameMax {
			return // only costs memory
		}
		r, err := readRequest(bytes.NewReader(data))
		if err == nil {
			size := int(binary.BigEndian.Uint32(data))
			require.True(t, json.Valid(data[4:4+size]))
			return
		}
		require.Equal(t, request{}, r)
	})
}
