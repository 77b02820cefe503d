package actors

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// entry is one live actor: what it is, its mailbox, and what it has handled. To the library it is both the actor and the mailbox, so
// that a waiting actor is one piece of memory. As the actor it keeps a panic of the actor's end from stopping the stop, and remembers
// where others came from.
type entry struct {
	inner    actor.Actor
	registry *Registry
	kind     string
	started  int64 // Unix nanoseconds
	cell     *Cell
	keep     Keep // nil: it keeps nothing
	handled  atomic.Uint64
	stack    atomic.Pointer[stack]
	mailbox  mailbox
}

// PostUserMessage implements actor.Mailbox. Nil is dropped and counted.
func (e *entry) PostUserMessage(message any) {
	if message == nil {
		e.registry.deadLetter("nil")
		return
	}
	if e.keep != nil {
		if signal, kept := e.keep(message); kept {
			if signal == nil {
				return
			}
			message = signal
		}
	}
	e.mailbox.postUser(message)
}

// PostSystemMessage implements actor.Mailbox.
func (e *entry) PostSystemMessage(message any) { e.mailbox.postSystem(message) }

// RegisterHandlers implements actor.Mailbox. Nothing is handled before it.
func (e *entry) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	e.mailbox.invoker = invoker
	if ctx, ok := invoker.(actor.Context); ok {
		e.registry.add(ctx.Self().Id, e)
	}
}

// Start implements actor.Mailbox.
func (e *entry) Start() { e.mailbox.start() }

// UserMessageCount implements actor.Mailbox.
func (e *entry) UserMessageCount() int { return e.mailbox.count() }

// parent is the id of the actor's parent; empty: it has none but the guardian, which is nobody's business.
func (e *entry) parent() string {
	ctx, ok := e.mailbox.invoker.(actor.Context)
	if !ok {
		return ""
	}
	id := ctx.Parent().GetId()
	if strings.HasPrefix(id, "guardian") {
		return ""
	}
	return id
}

// since is when the actor was started.
func (e *entry) since() time.Time { return time.Unix(0, e.started) }

// Receive implements actor.Actor.
func (e *entry) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Stopping:
		e.end(ctx)
	case *actor.Stopped:
		e.end(ctx)
		e.registry.remove(ctx.Self().Id, e)
	case *actor.Restarting:
		// Never sent: nothing is restarted in place.
	case *Crash:
		defer e.note()
		panic(ctx.Message().(*Crash).Reason)
	default:
		e.handled.Add(1)
		defer e.note()
		e.inner.Receive(ctx)
	}
}

// end runs the actor's own end. A panic there would leave it half stopped for ever, so it is only recorded.
func (e *entry) end(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			e.registry.failed(ctx.Self().Id, fmt.Sprintf("panic while stopping: %v", r))
		}
	}()
	e.inner.Receive(ctx)
}

// note keeps the program counters of a panic that passes, to be resolved only when somebody looks.
func (e *entry) note() {
	if r := recover(); r != nil {
		var pcs [32]uintptr
		n := runtime.Callers(3, pcs[:])
		e.stack.Store(&stack{pcs: append([]uintptr(nil), pcs[:n]...)})
		panic(r)
	}
}

type stack struct{ pcs []uintptr }

func (s *stack) String() string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(s.pcs)
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&b, "%s:%d\n", frame.Function, frame.Line)
		if !more {
			return b.String()
		}
	}
}
