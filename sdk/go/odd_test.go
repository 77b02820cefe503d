package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rude is an error, and a value, whose methods panic.
type rude struct{}

func (rude) Error() string                { panic("no text") }
func (rude) As(any) bool                  { panic("no as") }
func (rude) Is(error) bool                { panic("no is") }
func (rude) MarshalJSON() ([]byte, error) { panic("no JSON") }

type loop struct{ Next *loop }

func ringed() *loop {
	l := &loop{}
	l.Next = l
	return l
}

func returns(value any, err error) Handler {
	return func(context.Context, *Run) (any, error) { return value, err }
}

// Whatever a handler returns or does, its run is answered, and the program runs on.
func TestEveryEndIsAnswered(t *testing.T) {
	t.Parallel()
	no := false
	bad := func(message string) Error {
		return Error{Code: "result_not_json", Message: "the result is not JSON: " + message, Retriable: &no}
	}
	odd := map[string]Handler{
		"t.rude": returns(nil, rude{}), "t.wrapped": returns(nil, fmt.Errorf("with: %w", errors.Join(nil, errors.New("x")))),
		"t.details": returns(nil, &Error{Code: "mine", Message: "x", Details: rude{}}), "t.nan": returns(nil, &Error{Code: "mine", Message: "x", Details: math.NaN()}),
		"t.large":  returns(nil, &Error{Code: "mine", Message: "x", Details: strings.Repeat("d", 20_000_000)}),
		"t.result": returns(map[string]any{"a/b": []any{1, math.Inf(1)}}, nil), "t.field": returns(struct {
			F struct {
				N float64 `json:"n"`
			}
		}{F: struct {
			N float64 `json:"n"`
		}{math.NaN()}}, nil),
		"t.ring": returns(ringed(), nil), "t.method": returns(rude{}, nil),
		"t.goexit":  func(context.Context, *Run) (any, error) { runtime.Goexit(); return nil, nil },
		"t.piece":   func(_ context.Context, r *Run) (any, error) { return nil, r.Chunk(strings.Repeat("c", 17_000_000)) },
		"t.nopiece": func(_ context.Context, r *Run) (any, error) { return nil, r.Chunk([]float64{math.NaN()}) },
	}
	n := serve(t, odd)
	for action, want := range map[string]Error{
		"t.details": {Code: "mine", Message: "x"}, "t.nan": {Code: "mine", Message: "x"}, "t.large": {Code: "mine", Message: "x"},
		"t.result": bad("/a~1b/1 is +Inf"), "t.field": bad("/F/n is NaN"), "t.method": bad("panic: no JSON"),
		"t.goexit":  {Code: "action_error", Message: "the handler ended its goroutine"},
		"t.piece":   {Code: "result_too_large", Message: "the chunk has 17000002 bytes, the limit is 16776192", Retriable: &no},
		"t.nopiece": {Code: "result_not_json", Message: "the chunk is not JSON: /0 is NaN", Retriable: &no},
	} {
		require.Equal(t, want, *n.ask("execute", execution(action, nil)).Error, action)
	}
	require.Contains(t, n.ask("execute", execution("t.rude", nil)).Error.Message, "cannot be described")
	require.Contains(t, n.ask("execute", execution("t.wrapped", nil)).Error.Message, "with: x")
	require.Contains(t, n.ask("execute", execution("t.ring", nil)).Error.Message, "a part of itself")
	require.Equal(t, "result", n.ask("ping", nil).Event)
}

func TestProgressTakesAnyNumber(t *testing.T) {
	t.Parallel()
	n := serve(t, map[string]Handler{"t.nan": func(_ context.Context, r *Run) (any, error) {
		return 1, r.Progress(math.NaN(), strings.Repeat("é", 1<<20))
	}})
	id := n.send("execute", execution("t.nan", nil))
	e := n.read()
	require.Equal(t, "progress", e.Event)
	require.Len(t, e.Message, textMax)
	require.Equal(t, event{Event: "result", ID: id, Data: json.RawMessage("1")}, n.read())
}

// A panic in a goroutine that Run.Go started is told on its run, also behind the end, and nothing else of it is.
func TestALatePanicIsItsRuns(t *testing.T) {
	t.Parallel()
	ended, said := make(chan struct{}), make(chan error, 1)
	n := serve(t, map[string]Handler{"t.late": func(_ context.Context, r *Run) (any, error) {
		r.Go(func() {
			<-ended
			said <- r.Log("info", "late")
			panic("late")
		})
		return "fine", nil
	}})
	n.ask("hello", map[string]any{"protocol": 1, "faults": true})
	require.Equal(t, "result", n.ask("execute", execution("t.late", nil)).Event)
	close(ended)
	e := n.read()
	require.ErrorIs(t, <-said, ErrEnded)
	require.Equal(t, []any{"fault", uint64(0), "panic: late"}, []any{e.Event, e.ID, e.Error.Message})
	require.Equal(t, "result", n.ask("ping", nil).Event)
}

// To a node that takes no faults it is a line of the program's log.
func TestAnOldNodeGetsALine(t *testing.T) {
	t.Parallel()
	n := serve(t, map[string]Handler{"t.late": func(_ context.Context, r *Run) (any, error) { r.Go(func() { panic("late") }); return 1, nil }})
	n.send("execute", execution("t.late", nil))
	for range 2 {
		if e := n.read(); e.Event != "result" {
			require.Equal(t, event{Event: "log", Level: "error", Message: "execution 0199: panic: late"}, e)
		}
	}
}

// A frame that cannot be decoded is an error of its request.
func TestARequestThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	n := serve(t, handlers)
	for _, body := range []string{`{"id":7,"command":3}`, `{"id":7,"command":"execute","args":{"x":nope}}`, `{"id":7,"command":"restore","args":` + strings.Repeat("[", 20_000)} {
		_, err := n.requests.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		require.NoError(t, err)
		e := n.read()
		require.Equal(t, []any{"error", uint64(7), "invalid_request"}, []any{e.Event, e.ID, e.Error.Code})
	}
	require.Equal(t, "result", n.ask("ping", nil).Event)
	_, err := n.requests.Write([]byte("\x00\x00\x00\x03[1]"))
	require.NoError(t, err)
	require.ErrorContains(t, n.ended(), "a frame is not a request")
}
