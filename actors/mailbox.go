package actors

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox is the unbounded queue of one actor's messages. The library has one too, of eight parts with room for ten messages: 370 bytes of
// an actor that waits, where this one takes 140. And what is posted to that one before the actor is wired panics in the sender and leaves
// the actor deaf for ever, because the library publishes a new actor's name before that. This one keeps such posts until start.
//
// System messages come before all others. While the mailbox is suspended, only they are handled.
type mailbox struct {
	dispatcher *dispatcher
	invoker    actor.MessageInvoker // set before start

	mu        sync.Mutex
	system    ring
	user      ring
	started   bool
	running   bool // it is run by a goroutine, or is about to be
	suspended bool
}

// postUser queues a message.
func (m *mailbox) postUser(message any) {
	m.mu.Lock()
	m.user.push(message)
	wakes := m.wakes()
	m.mu.Unlock()
	if wakes {
		m.dispatcher.schedule(m)
	}
}

// postSystem queues a system message. Started comes from the spawner, and is the first whatever was posted by name before it.
func (m *mailbox) postSystem(message any) {
	_, first := message.(*actor.Started)
	m.mu.Lock()
	if first {
		m.system.pushFront(message)
	} else {
		m.system.push(message)
	}
	wakes := m.wakes()
	m.mu.Unlock()
	if wakes {
		m.dispatcher.schedule(m)
	}
}

// start begins to handle what has been posted, and what will be.
func (m *mailbox) start() {
	m.mu.Lock()
	m.started = true
	wakes := m.wakes()
	m.mu.Unlock()
	if wakes {
		m.dispatcher.schedule(m)
	}
}

// wakes reports whether the mailbox has to be run from now on, and is not yet. It runs under mu.
func (m *mailbox) wakes() bool {
	if m.running || !m.started || !m.waits() {
		return false
	}
	m.running = true
	return true
}

// waits reports whether there is something to handle. It runs under mu.
func (m *mailbox) waits() bool { return m.system.count > 0 || m.user.count > 0 && !m.suspended }

// count is how many messages wait, without system messages.
func (m *mailbox) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.count
}

// next takes out what is to be handled next; false: nothing is, and the mailbox is not run any more.
func (m *mailbox) next() (message any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.system.count > 0:
		return m.system.pop(0), true, true
	case m.waits():
		return m.user.pop(ringKept), false, true
	}
	m.running = false
	return nil, false, false
}

func (m *mailbox) suspend(suspended bool) {
	m.mu.Lock()
	m.suspended = suspended
	m.mu.Unlock()
}

// run implements work: it has the actor handle what waits, until nothing does.
func (m *mailbox) run() {
	for m.handle() {
	}
}

// handle has the actor handle what waits. True: a message has failed the actor, and what waits behind it is to be handled.
func (m *mailbox) handle() (failed bool) {
	var message any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
			failed = true
		}
	}()
	for handled := 1; ; handled++ {
		var system, ok bool
		switch message, system, ok = m.next(); {
		case !ok:
			return false
		case system:
			m.invokeSystem(message)
		default:
			m.invoker.InvokeUserMessage(message)
		}
		if handled%throughput == 0 {
			runtime.Gosched()
		}
	}
}

func (m *mailbox) invokeSystem(message any) {
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspend(true)
	case *actor.ResumeMailbox:
		m.suspend(false)
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}

// ring is a queue that grows with what waits in it.
type ring struct {
	places []any // as many as a power of two, or none
	head   int   // the first
	count  int
}

const (
	ringMin = 2
	// ringKept is the room that stays for an actor's messages when none waits any more. What a burst needed beyond that goes: a pool of
	// 10,000 workers hears from all of them at its start, and not again. For system messages, which are rare, none stays.
	ringKept = 4096
)

func (r *ring) push(v any) {
	r.grow()
	r.places[(r.head+r.count)&(len(r.places)-1)] = v
	r.count++
}

func (r *ring) pushFront(v any) {
	r.grow()
	r.head = (r.head - 1) & (len(r.places) - 1)
	r.places[r.head] = v
	r.count++
}

// grow makes room for one more.
func (r *ring) grow() {
	if r.count < len(r.places) {
		return
	}
	places := make([]any, max(2*len(r.places), ringMin))
	n := copy(places, r.places[r.head:])
	copy(places[n:], r.places[:r.head])
	r.places, r.head = places, 0
}

// pop takes out the first; there is one. With the last one the ring gives up its room, unless that is within what is to be kept.
func (r *ring) pop(kept int) any {
	v := r.places[r.head]
	r.places[r.head] = nil
	r.head = (r.head + 1) & (len(r.places) - 1)
	if r.count--; r.count == 0 && len(r.places) > kept {
		*r = ring{}
	}
	return v
}
