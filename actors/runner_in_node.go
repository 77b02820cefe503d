package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/mask"
)

// errStopped is the cause that ends a handler's context.
var errStopped = errors.New("the run is being stopped")

// inNodeRunner runs handlers of this binary. Code in the same process cannot be killed: a handler that does not return
// after its grace is left behind, counted, and its worker replaced.
type inNodeRunner struct {
	cfg      *WorkerConfig
	handlers map[string]messages.Handler
	post     func(any)
}

// InNodeRunner returns a maker of runners for go actions; handlers are found by the action's entrypoint.
func InNodeRunner(handlers map[string]messages.Handler) func(*WorkerConfig, messages.WorkerID, messages.Generation) Runner {
	return func(c *WorkerConfig, _ messages.WorkerID, _ messages.Generation) Runner {
		return &inNodeRunner{cfg: c, handlers: handlers}
	}
}

// handlerRun is a handler's run. Its state says who tells its end: the handler, or the one who stopped waiting for it.
type handlerRun struct {
	cancel  context.CancelCauseFunc
	told    atomic.Bool
	leaked  atomic.Bool
	refused atomic.Pointer[messages.Error] // of the first chunk that cannot be kept: the run fails with that, whatever it returns

	id     messages.ExecutionID
	feeds  *Feeds
	post   func(any)
	stalls bool      // signs of progress matter
	masks  *mask.Set // secrets among its parameters
}

func (g *inNodeRunner) Begin(post func(any)) {
	g.post = post
	post(&begun{})
}

func (g *inNodeRunner) Run(r *Run) {
	handler, ok := g.handlers[r.Action.Entrypoint]
	if !ok {
		g.post(&ended{placement: r.Placement(), unserved: fmt.Sprintf("%s%s: no handler %q is registered in this binary", NotServed, r.Action.Ref, r.Action.Entrypoint)})
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	run := &handlerRun{cancel: cancel, id: r.Execution.ID, feeds: g.cfg.Feeds, post: g.post, stalls: r.Execution.StallTimeout > 0,
		masks: runMasks(pack.SecretValues(r.Action, r.Execution.Parameters))}
	r.handle = run
	if r.stop != notStopped {
		cancel(errStopped)
	}
	go g.call(ctx, run, handler, r)
}

// call runs the handler and tells its end, unless nobody waits any more.
func (g *inNodeRunner) call(ctx context.Context, run *handlerRun, handler messages.Handler, r *Run) {
	e := r.Execution
	end := &ended{placement: e.Placement(), lost: e.SessionLost, crashed: "handler ended its goroutine"}
	defer func() {
		stack := ""
		if p := recover(); p != nil {
			said := run.masks.Text(fmt.Sprint(p))
			end.crashed, stack = "handler panicked: "+said, run.masks.Cut(panicStack())
			g.cfg.Logger.Error("handler panicked", append(e.LogFields(), "action", e.Action, "panic", said, "stack", stack)...)
		}
		if end.crashed != "" {
			end.outcome = lost(end.crashed, "panic", stack)
		}
		run.cancel(nil)
		if run.told.CompareAndSwap(false, true) {
			g.post(end)
		} else if run.leaked.Load() && g.cfg.Leaked != nil {
			g.cfg.Leaked(g.cfg.PoolName, -1)
		}
	}()
	began := time.Now()
	value, err := handler(ctx, taskOf(r, run))
	end.ran = max(time.Since(began), 1)
	end.outcome, end.crashed = handlerOutcome(value, err, run.masks), ""
	if refused := run.refused.Load(); refused != nil && err == nil {
		end.outcome = failed(refused)
	}
}

// stackMax is how much of a panic's stack is kept, in bytes.
const stackMax = 16 << 10

// panicStack is the stack of the panic that is being recovered from, from its cause on.
func panicStack() string {
	stack := string(debug.Stack())
	if i := strings.Index(stack, "\npanic("); i >= 0 {
		stack = stack[i+1:]
	}
	return stack[:min(len(stack), stackMax)]
}

func taskOf(r *Run, run *handlerRun) *messages.Task {
	e := r.Execution
	return &messages.Task{
		ID: e.ID, Attempt: e.Attempt, Action: e.Action, Parameters: e.Parameters, Session: e.Session,
		Epoch: e.SessionEpoch, Lost: e.SessionLost, RetryCount: e.RetryCount, Trace: messages.TraceParent(r.Trace), TraceState: messages.TraceState(r.Trace), Reporter: run,
	}
}

// handlerOutcome reads what the handler gave back. A method of that which panics, such as an error's Error, is a failure of the run and no
// crash.
func handlerOutcome(value any, err error, masks *mask.Set) (o messages.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = failed(&messages.Error{Code: messages.CodeActionError, Message: masks.Text(fmt.Sprintf("what the handler returned cannot be described: %v", p))})
		}
	}()
	if err != nil {
		var own *messages.Error
		if errors.As(err, &own) {
			return failed(process.MaskedError(masks, own).Said().Detailed())
		}
		return failed(&messages.Error{Code: messages.CodeActionError, Message: masks.Text(err.Error()), Type: messages.ErrorType(err), Types: messages.ErrorTypes(err)})
	}
	result, err := messages.EncodeJSON(value)
	if err != nil {
		return failed(process.MaskedError(masks, messages.NotJSON("result", err)))
	}
	return completed(result)
}

// Step ends the handler's context; at the next step the handler has had its grace and is left behind.
func (g *inNodeRunner) Step(step process.Step, r *Run) {
	if r == nil {
		return
	}
	run, ok := r.handle.(*handlerRun)
	if !ok {
		return
	}
	run.cancel(errStopped)
	if step == process.StepCancel || !run.told.CompareAndSwap(false, true) {
		return
	}
	run.leaked.Store(true)
	if g.cfg.Leaked != nil {
		g.cfg.Leaked(g.cfg.PoolName, 1)
	}
	g.post(&ended{
		placement: r.Placement(), lost: r.Execution.SessionLost, crashed: exitLeaked,
		outcome: lost("the handler did not return after its context ended", exitLeaked, ""),
	})
}

func (g *inNodeRunner) Probe(id uint64, _ bool)             { g.post(&probed{id: id}) }
func (g *inNodeRunner) EndSession(string, int64)            {}
func (g *inNodeRunner) Snapshot(string, int64, uint64) bool { return false }
func (g *inNodeRunner) Traits() Traits                      { return Traits{Cancels: true} }
func (g *inNodeRunner) Pid() int                            { return 0 }
