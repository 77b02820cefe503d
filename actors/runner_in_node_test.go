package actors

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
)

// runHandler runs one handler to its end.
func runHandler(t *testing.T, h messages.Handler) *ended {
	t.Helper()
	var in inbox
	g := InNodeRunner(map[string]messages.Handler{"f": h})(backstage(), "w", 1)
	g.Begin(in.post)
	require.NoError(t, next[*begun](t, &in, 1).err)
	g.Run(aRun(nil))
	return next[*ended](t, &in, 1)
}

// odd panics whatever it is asked.
type odd struct{}

func (odd) Error() string                { panic("no words") }
func (odd) MarshalJSON() ([]byte, error) { panic("no JSON") }

func TestGoOutcomes(t *testing.T) {
	t.Parallel()
	again := true
	for name, c := range map[string]struct {
		handler messages.Handler
		status  messages.Status
		result  string
		code    messages.Code
		crashed bool
	}{
		"value": {func(context.Context, *messages.Task) (any, error) { return map[string]int{"n": 1}, nil }, messages.Completed, `{"n":1}`, "", false},
		"nil":   {func(context.Context, *messages.Task) (any, error) { return nil, nil }, messages.Completed, `null`, "", false},
		"raw":   {func(context.Context, *messages.Task) (any, error) { return json.RawMessage(`[1]`), nil }, messages.Completed, `[1]`, "", false},
		"raw, broken": {func(context.Context, *messages.Task) (any, error) { return json.RawMessage(`[1`), nil }, messages.Failed, ``,
			messages.CodeResultNotJSON, false},
		"no JSON":     {func(context.Context, *messages.Task) (any, error) { return make(chan int), nil }, messages.Failed, ``, messages.CodeResultNotJSON, false},
		"name twice":  {func(context.Context, *messages.Task) (any, error) { return json.RawMessage(`{"a":1,"a":2}`), nil }, messages.Failed, ``, messages.CodeResultNotJSON, false},
		"no UTF-8":    {func(context.Context, *messages.Task) (any, error) { return "\xff", nil }, messages.Failed, ``, messages.CodeResultNotJSON, false},
		"long number": {func(context.Context, *messages.Task) (any, error) { return json.Number(strings.Repeat("1", 1001)), nil }, messages.Failed, ``, messages.CodeResultNotJSON, false},
		"chunk":       {func(_ context.Context, t *messages.Task) (any, error) { return nil, t.Chunk(math.NaN()) }, messages.Failed, ``, messages.CodeResultNotJSON, false},
		"raw chunk": {func(_ context.Context, t *messages.Task) (any, error) {
			t.Reporter.Chunk(json.RawMessage(`[NaN]`))
			return nil, nil
		}, messages.Failed, ``, messages.CodeResultNotJSON, false},
		"an odd error": {func(context.Context, *messages.Task) (any, error) { return nil, odd{} }, messages.Failed, ``, messages.CodeActionError, false},
		"an odd value": {func(context.Context, *messages.Task) (any, error) { return odd{}, nil }, messages.Failed, ``, messages.CodeActionError, false},
		"a word of Troupe's": {func(context.Context, *messages.Task) (any, error) {
			return nil, &messages.Error{Code: messages.CodePoisoned, FailedBy: "rescue"}
		}, messages.Failed, ``,
			"action.poisoned", false},
		"too large": {func(context.Context, *messages.Task) (any, error) { return make([]byte, messages.ResultMax), nil }, messages.Failed, ``, messages.CodeResultTooLarge, false},
		"error":     {func(context.Context, *messages.Task) (any, error) { return 1, errors.New("no") }, messages.Failed, ``, messages.CodeActionError, false},
		"own error": {func(context.Context, *messages.Task) (any, error) {
			return nil, &messages.Error{Code: "mine", Message: "m", Retriable: &again}
		}, messages.Failed, ``, "mine", false},
		"panic":  {func(context.Context, *messages.Task) (any, error) { panic("boo") }, messages.Abandoned, ``, messages.CodeWorkerLost, true},
		"goexit": {func(context.Context, *messages.Task) (any, error) { runtime.Goexit(); return nil, nil }, messages.Abandoned, ``, messages.CodeWorkerLost, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := runHandler(t, c.handler)
			require.Equal(t, c.status, end.outcome.Status)
			require.Equal(t, c.crashed, end.crashed != "")
			if c.code != "" {
				require.Equal(t, c.code, end.outcome.Error.Code)
				return
			}
			require.JSONEq(t, c.result, string(end.outcome.Result))
		})
	}
}

func TestGoHandlerThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	var in inbox
	g := InNodeRunner(nil)(backstage(), "w", 1)
	g.Begin(in.post)
	g.Run(aRun(nil))
	require.Contains(t, next[*ended](t, &in, 1).unserved, "is registered in this binary")
}

func TestGoHandlerFollowsItsContext(t *testing.T) {
	t.Parallel()
	var in inbox
	started := make(chan struct{})
	g := InNodeRunner(map[string]messages.Handler{"f": func(ctx context.Context, _ *messages.Task) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}})(backstage(), "w", 1)
	g.Begin(in.post)
	r := aRun(nil)
	g.Run(r)
	<-started
	g.Step(process.StepCancel, r)
	require.Equal(t, errStopped.Error(), next[*ended](t, &in, 1).outcome.Error.Message)
	g.Step(process.StepTerminate, r)
	g.Step(process.StepKill, nil)
	require.Len(t, posted[*ended](&in), 1, "one end, whatever comes later")
}

// A handler that does not return is left behind and counted, until it returns; what it shows then concerns nobody.
func TestGoHandlerThatWouldNotEnd(t *testing.T) {
	t.Parallel()
	var in inbox
	var leaked atomic.Int64
	cfg := backstage()
	cfg.Leaked = func(_ string, change int) { leaked.Add(int64(change)) }
	release := make(chan struct{})
	g := InNodeRunner(map[string]messages.Handler{"f": func(_ context.Context, task *messages.Task) (any, error) {
		task.Progress(0.5, "half")
		<-release
		task.Progress(0.9, "late")
		return 1, nil
	}})(cfg, "w", 1)
	g.Begin(in.post)
	r := aRun(nil)
	g.Run(r)
	g.Step(process.StepCancel, r)
	require.Empty(t, posted[*ended](&in))
	g.Step(process.StepTerminate, r)
	g.Step(process.StepKill, r)
	end := next[*ended](t, &in, 1)
	require.Equal(t, exitLeaked, end.crashed)
	require.Equal(t, exitLeaked, end.outcome.Error.Exit)
	require.Equal(t, int64(1), leaked.Load())
	cfg.Feeds.Close(r.Execution.ID)
	close(release)
	soon(t, func() bool { return leaked.Load() == 0 }, "it has ended after all")
	require.Len(t, posted[*ended](&in), 1)
	require.Empty(t, cfg.Feeds.feeds, "an event behind the end makes no feed")
}

func TestGoTask(t *testing.T) {
	t.Parallel()
	cfg := backstage()
	var in inbox
	var seen messages.Task
	g := InNodeRunner(map[string]messages.Handler{"f": func(_ context.Context, task *messages.Task) (any, error) {
		seen = *task
		task.Log("info", "hello")
		require.NoError(t, task.Chunk(map[string]int{"n": 1}))
		require.Error(t, task.Chunk(make(chan int)))
		var v struct{ N int }
		err := task.Bind(&v)
		return v.N, err
	}})(cfg, "w", 1)
	g.Begin(in.post)
	r := aRun(func(e *messages.Execution, _ *messages.Action) {
		e.Parameters, e.Session, e.SessionEpoch, e.StallTimeout = json.RawMessage(`{"N":7}`), "s", 3, time.Minute
	})
	g.Run(r)
	require.Equal(t, `7`, string(next[*ended](t, &in, 1).outcome.Result))
	require.Equal(t, "s", seen.Session)
	require.Equal(t, int64(3), seen.Epoch)
	require.Len(t, posted[*sign](&in), 2)
	cfg.Feeds.mu.Lock()
	defer cfg.Feeds.mu.Unlock()
	require.Len(t, cfg.Feeds.feeds[r.Execution.ID].events, 2)
}

// Values of parameters that the action keeps secret are masked in what a handler says of a failure, and in its signs.
func TestSecretParametersOfGoHandlersAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	for name, handler := range map[string]messages.Handler{
		"an error": func(context.Context, *messages.Task) (any, error) { return nil, errors.New("at " + secret) },
		"an error of its own": func(context.Context, *messages.Task) (any, error) {
			return nil, &messages.Error{Code: secret, Message: secret, Details: json.RawMessage(`{"at":"` + secret + `"}`)}
		},
		"a panic": func(context.Context, *messages.Task) (any, error) { panic(secret) },
		"signs": func(_ context.Context, t *messages.Task) (any, error) {
			t.Log("info", secret)
			t.Progress(0.5, secret)
			return nil, errors.New("[redacted]")
		},
	} {
		var in inbox
		cfg := backstage()
		g := InNodeRunner(map[string]messages.Handler{"f": handler})(cfg, "w", 1)
		g.Begin(in.post)
		r := aRun(func(e *messages.Execution, a *messages.Action) {
			a.Secrets, e.Parameters = []string{"key"}, json.RawMessage(`{"key":"`+secret+`"}`)
		})
		g.Run(r)
		e := next[*ended](t, &in, 1).outcome.Error
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		require.NotContains(t, string(raw), secret, name)
		require.Contains(t, string(raw), "[redacted]", name)
		cfg.Feeds.mu.Lock()
		if f := cfg.Feeds.feeds[r.Execution.ID]; f != nil {
			for _, said := range f.events {
				require.Equal(t, "[redacted]", said.Message)
			}
		}
		cfg.Feeds.mu.Unlock()
	}
}

// What a handler says of its error is bounded, as what a program says is.
func TestErrorsOfGoHandlersAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<20)
	for name, handler := range map[string]messages.Handler{
		"an error": func(context.Context, *messages.Task) (any, error) { return nil, errors.New(long) },
		"an error of its own": func(context.Context, *messages.Task) (any, error) {
			return nil, &messages.Error{Code: messages.Code(long), Message: long, Details: make(json.RawMessage, messages.ErrorDetailsMax+1), Stderr: long}
		},
		"a panic": func(context.Context, *messages.Task) (any, error) { panic(long) },
	} {
		e := runHandler(t, handler).outcome.Error
		require.LessOrEqual(t, len(e.Message), messages.ErrorMessageMax, name)
		require.True(t, utf8.ValidString(e.Message), name)
		require.LessOrEqual(t, len(e.Code), messages.CodeMax, name)
		require.Less(t, len(e.Details)+len(e.Stderr), 20<<10, name)
	}
}
