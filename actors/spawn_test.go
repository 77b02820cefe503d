package actors

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

type (
	explode struct{}
	counted struct{}
)

// fragile panics where it is told to, and counts what it handles.
type fragile struct {
	at    any // panics when it gets a message of this type
	count *atomic.Int64
}

func (f *fragile) Receive(ctx actor.Context) {
	if fmt.Sprintf("%T", ctx.Message()) == fmt.Sprintf("%T", f.at) {
		panic("at " + fmt.Sprintf("%T", f.at))
	}
	if _, ok := ctx.Message().(*counted); ok && f.count != nil {
		f.count.Add(1)
	}
}

// Posts by name race with the spawn of the actor: nothing may panic in the sender, and what reaches the actor before it
// is wired must be handled.
func TestSendRacesWithSpawn(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const rounds, posts = 300, 150
	for round := range rounds {
		name := fmt.Sprintf("racer%d", round)
		var handled atomic.Int64
		var senders sync.WaitGroup
		begin := make(chan struct{})
		for range 3 {
			senders.Go(func() {
				pid := s.PID(name)
				<-begin
				for range posts {
					s.Send(pid, &counted{})
				}
			})
		}
		close(begin)
		pid, err := s.Spawn(s, Child{Name: name, Kind: "racer", New: func() actor.Actor {
			return &fragile{count: &handled}
		}})
		require.NoError(t, err)
		senders.Wait()
		before := handled.Load()
		s.Send(pid, &counted{})
		soon(t, func() bool { return handled.Load() > before }, "the actor must not be deaf")
		require.NoError(t, s.StopAndWait(t.Context(), pid))
	}
	require.Zero(t, s.Registry.Len())
}

// Wherever an actor panics it ends, its parent hears of it once, and its name is free again.
func TestPanicEndsTheActor(t *testing.T) {
	t.Parallel()
	for _, at := range []any{&actor.Started{}, &explode{}, &actor.Stopping{}, &actor.Stopped{}} {
		t.Run(fmt.Sprintf("%T", at), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			parent := &hearer{}
			parentOf(s, parent)
			top, err := s.Spawn(s, parent.child("parent"))
			require.NoError(t, err)
			for range 2 { // the second time under the same name
				before := len(of[*actor.Terminated](parent))
				done := make(chan *actor.PID, 1)
				s.Send(top, &spawnBelow{Child{Name: "fragile", Kind: "fragile", New: func() actor.Actor {
					return &fragile{at: at}
				}}, done})
				pid := <-done
				s.Send(pid, &explode{})
				if _, stays := at.(*explode); !stays {
					require.NoError(t, s.StopAndWait(t.Context(), pid))
				}
				soon(t, func() bool { return len(of[*actor.Terminated](parent)) > before }, "the parent must hear")
				_, live := s.Registry.Get(pid.Id)
				require.False(t, live)
				failure, known := s.Registry.Failure(pid.Id)
				require.True(t, known)
				require.Contains(t, failure.Reason, fmt.Sprintf("at %T", at))
			}
			require.NoError(t, s.StopAndWait(t.Context(), top))
			require.Zero(t, s.Registry.Len())
		})
	}
}

func TestAPanicKeepsItsStack(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	pid, err := s.Spawn(s, Child{Name: "f", Kind: "f", New: func() actor.Actor { return &fragile{at: &explode{}} }})
	require.NoError(t, err)
	s.Send(pid, &explode{})
	soon(t, func() bool { _, failed := s.Registry.Failure("f"); return failed }, "the failure must be known")
	failure, _ := s.Registry.Failure("f")
	require.Contains(t, failure.Stack, "(*fragile).Receive")
	require.WithinDuration(t, time.Now(), failure.At, time.Minute)
}

func TestAPanicBesideAnActorIsCarriedToIt(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, pid := hear(t, s, "worker")
	go func() {
		defer s.Carry(pid)
		panic("beside")
	}()
	soon(t, func() bool { _, live := s.Registry.Get("worker"); return !live }, "the actor must fail")
	failure, _ := s.Registry.Failure("worker")
	require.Contains(t, failure.Reason, "beside")
}

func TestNilIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	h, pid := hear(t, s, "h")
	s.Send(pid, nil)
	s.Send(nil, &counted{})
	s.Send(pid, &counted{})
	first[*counted](t, h)
	require.Equal(t, int64(1), s.Registry.DeadLetters()["nil"])
	require.Equal(t, int64(1), s.Registry.DeadLetters()["*actors.counted"])
}

// What is kept outlives the actor: not a message is lost while it is away.
func TestKeptMessagesOutliveTheActor(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	var kept atomic.Int64
	child := Child{
		Name: "keeper", Kind: "keeper", New: func() actor.Actor { return &fragile{at: &explode{}} },
		Keep: func(message any) (any, bool) {
			_, ours := message.(*counted)
			if ours {
				kept.Add(1)
			}
			return nil, ours
		},
	}
	pid, err := s.Spawn(s, child)
	require.NoError(t, err)
	for range 100 {
		s.Send(pid, &counted{})
	}
	require.NoError(t, s.StopAndWait(t.Context(), pid))
	for range 100 {
		s.Send(pid, &counted{})
	}
	_, err = s.Spawn(s, child)
	require.NoError(t, err)
	s.Send(pid, &counted{})
	require.Equal(t, int64(201), kept.Load())
}

func TestASiblingsNameIsRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	hear(t, s, "one")
	_, err := s.Spawn(s, (&hearer{}).child("one"))
	require.ErrorContains(t, err, "spawn hearer one")
}
