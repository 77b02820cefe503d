package actors

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A ring gives what was put into it in order, whatever its size, and gives up the room that a burst took.
func TestARingKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		var want []any
		next, kept := 0, rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "kept")
		for range rapid.IntRange(0, 100).Draw(t, "bursts") {
			for range rapid.IntRange(0, 9).Draw(t, "puts") {
				next++
				if rapid.IntRange(0, 9).Draw(t, "front") == 0 {
					r.pushFront(next)
					want = append([]any{next}, want...)
				} else {
					r.push(next)
					want = append(want, next)
				}
			}
			for range rapid.IntRange(0, 9).Draw(t, "takes") {
				if len(want) == 0 {
					break
				}
				require.Equal(t, want[0], r.pop(kept))
				want = want[1:]
			}
			require.Equal(t, len(want), r.count)
			if r.count == 0 {
				require.LessOrEqual(t, len(r.places), kept)
			}
		}
		waiting := 0
		for _, v := range r.places {
			if v != nil {
				waiting++
			}
		}
		require.Equal(t, len(want), waiting, "what was taken is not held")
	})
}

// listener is an actor as its mailbox sees it.
type listener struct {
	mu       sync.Mutex
	heard    []any
	failures []any // the messages that failed it
	on       func(message any)
}

func (l *listener) InvokeSystemMessage(message any) { l.hear(message) }
func (l *listener) InvokeUserMessage(message any)   { l.hear(message) }

func (l *listener) hear(message any) {
	l.mu.Lock()
	l.heard = append(l.heard, message)
	l.mu.Unlock()
	if l.on != nil {
		l.on(message)
	}
}

func (l *listener) EscalateFailure(_, message any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, message)
}

// all is what was heard since the last call, once nothing waits any more.
func (l *listener) all() (heard, failures []any) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	heard, failures = l.heard, l.failures
	l.heard, l.failures = nil, nil
	return heard, failures
}

func newListener() (*listener, *mailbox) {
	l := &listener{}
	return l, &mailbox{dispatcher: newDispatcher(), invoker: l}
}

// rests ends a bubble in which a dispatcher has run: its goroutines end after a while.
func rests(t *testing.T, m *mailbox) {
	t.Helper()
	for range m.dispatcher.resting.Load() {
		m.dispatcher.work <- nil
	}
}

// What is posted before the start is handled after it: Started first, then the system messages, then the others.
func TestAMailboxKeepsWhatComesBeforeItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, m := newListener()
		m.postUser("one")
		m.postSystem("watch")
		m.postUser("two")
		started := &actor.Started{}
		m.postSystem(started)
		heard, _ := l.all()
		require.Empty(t, heard)
		require.Equal(t, 2, m.count())
		m.start()
		heard, _ = l.all()
		require.Equal(t, []any{started, "watch", "one", "two"}, heard)
		require.Zero(t, m.count())
		rests(t, m)
	})
}

// While a mailbox is suspended, system messages alone are handled, and they come before what else waits.
func TestASuspendedMailboxHandlesSystemMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, m := newListener()
		m.start()
		m.postSystem(&actor.SuspendMailbox{})
		m.postUser("one")
		m.postSystem("stop")
		heard, _ := l.all()
		require.Equal(t, []any{"stop"}, heard)
		require.Equal(t, 1, m.count())
		m.postSystem(&actor.ResumeMailbox{})
		heard, _ = l.all()
		require.Equal(t, []any{"one"}, heard)
		rests(t, m)
	})
}

// A message that fails the actor is reported, and what is behind it is handled.
func TestAMailboxOutlivesAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, m := newListener()
		l.on = func(message any) {
			if message == "bad" {
				panic("bad")
			}
		}
		for _, message := range []any{"one", "bad", "two", "bad"} {
			m.postUser(message)
		}
		m.start()
		heard, failures := l.all()
		require.Equal(t, []any{"one", "bad", "two", "bad"}, heard)
		require.Equal(t, []any{"bad", "bad"}, failures)
		m.postUser("three")
		heard, _ = l.all()
		require.Equal(t, []any{"three"}, heard)
		rests(t, m)
	})
}

// Many senders and a start at the same time: each message is handled once, those of one sender in order, and no two at once.
func TestAMailboxHandlesOneMessageAtATime(t *testing.T) {
	t.Parallel()
	type numbered struct{ sender, number int }
	const senders, messages = 8, 2000
	l, m := newListener()
	handled := map[int]int{} // by sender; the race detector finds two handlers at once
	done := make(chan struct{})
	total := 0
	l.on = func(message any) {
		n, ok := message.(numbered)
		if !ok {
			return
		}
		if handled[n.sender] != n.number {
			panic("out of order")
		}
		handled[n.sender]++
		if total++; total == senders*messages {
			close(done)
		}
	}
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for number := range messages {
				m.postUser(numbered{sender, number})
				if number%100 == 0 {
					m.postSystem("look")
				}
			}
		})
	}
	m.start()
	all.Wait()
	<-done
	require.Empty(t, l.failures)
}

func BenchmarkMailbox(b *testing.B) {
	l := &counting{done: make(chan struct{}), want: b.N}
	m := &mailbox{dispatcher: newDispatcher(), invoker: l}
	m.start()
	b.ReportAllocs()
	for range b.N {
		m.postUser(l)
	}
	<-l.done
}

type counting struct {
	want, count int
	done        chan struct{}
}

func (c *counting) InvokeSystemMessage(any)  {}
func (c *counting) EscalateFailure(any, any) {}
func (c *counting) InvokeUserMessage(any) {
	if c.count++; c.count == c.want {
		close(c.done)
	}
}
