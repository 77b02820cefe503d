package actors

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox is an unbounded mailbox that may be posted to before its actor is wired: the library publishes a new
// actor's name before it registers the mailbox's handlers, and a post in between would panic in the sender and leave
// the actor deaf for ever. Posts that early are kept and handed on by Start.
type mailbox struct {
	inner    actor.Mailbox
	entry    *entry
	registry *Registry
	started  atomic.Bool

	mu          sync.Mutex
	earlySystem []any
	earlyUser   []any
}

func newMailbox(e *entry, r *Registry) actor.Mailbox {
	m := &mailbox{inner: actor.Unbounded()(), entry: e, registry: r}
	e.mailbox = m.inner
	return m
}

// PostUserMessage queues a message. The library spins for ever on nil, so nil is dropped and counted.
func (m *mailbox) PostUserMessage(message any) {
	if message == nil {
		m.registry.deadLetter("nil")
		return
	}
	if m.entry.keep != nil {
		if signal, kept := m.entry.keep(message); kept {
			if signal == nil {
				return
			}
			message = signal
		}
	}
	if m.started.Load() || !m.keep(&m.earlyUser, message) {
		m.inner.PostUserMessage(message)
	}
}

// PostSystemMessage queues a system message. Started comes from the spawner itself, after RegisterHandlers and
// before Start, and must stay the first.
func (m *mailbox) PostSystemMessage(message any) {
	if _, first := message.(*actor.Started); first {
		m.inner.PostSystemMessage(message)
		return
	}
	if m.started.Load() || !m.keep(&m.earlySystem, message) {
		m.inner.PostSystemMessage(message)
	}
}

// keep stores an early message; false: the mailbox has been started meanwhile.
func (m *mailbox) keep(queue *[]any, message any) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.Load() {
		return false
	}
	*queue = append(*queue, message)
	return true
}

func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.inner.RegisterHandlers(invoker, dispatcher)
	if ctx, ok := invoker.(actor.Context); ok {
		m.registry.add(ctx.Self(), ctx.Parent(), m.entry)
	}
}

func (m *mailbox) Start() {
	m.inner.Start()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.earlySystem {
		m.inner.PostSystemMessage(message)
	}
	for _, message := range m.earlyUser {
		m.inner.PostUserMessage(message)
	}
	m.earlySystem, m.earlyUser = nil, nil
	m.started.Store(true)
}

func (m *mailbox) UserMessageCount() int { return m.inner.UserMessageCount() }
