package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The library counts dead letters in windows of a second, one goroutine each.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1"))
}

// newSystem is an actor system whose actors are stopped with the test.
func newSystem(t *testing.T) *System {
	t.Helper()
	s := NewSystem(hclog.NewNullLogger())
	t.Cleanup(func() { stopAll(t, s) })
	return s
}

// stopAll stops every actor at the top.
func stopAll(t *testing.T, s *System) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, info := range s.Registry.Snapshot() {
		if info.Parent == "" {
			require.NoError(t, s.StopAndWait(ctx, s.PID(info.ID)))
		}
	}
}

// soon waits for a condition that must come about.
func soon(t *testing.T, holds func() bool, what string) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, 2*time.Millisecond, what)
}

// hearer is an actor that keeps what it gets; children are spawned below it.
type hearer struct {
	mu    sync.Mutex
	heard []any
	on    func(actor.Context) // called first, where set
}

func (h *hearer) Receive(ctx actor.Context) {
	if h.on != nil {
		h.on(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, ctx.Message())
}

func (h *hearer) all() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]any(nil), h.heard...)
}

// of returns what the hearer got of one type, in order.
func of[T any](h *hearer) []T {
	var got []T
	for _, m := range h.all() {
		if v, ok := m.(T); ok {
			got = append(got, v)
		}
	}
	return got
}

// first waits for a message of one type.
func first[T any](t *testing.T, h *hearer) T {
	t.Helper()
	soon(t, func() bool { return len(of[T](h)) > 0 }, "a message of the type must come")
	return of[T](h)[0]
}

func (h *hearer) child(name string) Child {
	return Child{Name: name, Kind: "hearer", New: func() actor.Actor { return h }}
}

// hear spawns a hearer at the top.
func hear(t *testing.T, s *System, name string) (*hearer, *actor.PID) {
	t.Helper()
	h := &hearer{}
	pid, err := s.Spawn(s, h.child(name))
	require.NoError(t, err)
	return h, pid
}

// spawnBelow spawns a child below a hearer.
type spawnBelow struct {
	child Child
	done  chan *actor.PID
}

// parentOf makes the hearer spawn what it is asked for.
func parentOf(s *System, h *hearer) {
	h.on = func(ctx actor.Context) {
		if m, ok := ctx.Message().(*spawnBelow); ok {
			pid, err := s.Spawn(ctx, m.child)
			if err != nil {
				panic(err)
			}
			m.done <- pid
		}
	}
}
