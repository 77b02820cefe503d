package actors

import (
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestRegistryShowsTheTree(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	parent := &hearer{}
	parentOf(s, parent)
	top, err := s.Spawn(s, parent.child("top"))
	require.NoError(t, err)
	cell := &Cell{}
	done := make(chan *actor.PID, 1)
	s.Send(top, &spawnBelow{Child{Name: "one", Kind: "worker", Cell: cell, New: func() actor.Actor { return &hearer{} }}, done})
	child := <-done
	id := messages.NewExecutionID()
	cell.Update(func(s *Status) { s.State, s.Execution = "busy", id })
	info, live := s.Registry.Get("top/one")
	require.True(t, live)
	require.Equal(t, "top", info.Parent)
	require.Equal(t, "worker", info.Kind)
	require.Equal(t, "busy", info.State)
	require.Equal(t, id, info.Execution)
	require.False(t, info.Since.IsZero())
	all := s.Registry.Snapshot()
	require.Len(t, all, 2)
	require.Empty(t, all[0].Parent, "the guardian is nobody's business")
	require.NoError(t, s.StopAndWait(t.Context(), child))
	require.Equal(t, 1, s.Registry.Len())
	_, live = s.Registry.Get("top/one")
	require.False(t, live)
}

// An actor that is stuck is shown all the same: that is when people look.
func TestRegistryShowsAStuckActor(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	stuck, release := make(chan struct{}), make(chan struct{})
	h := &hearer{on: func(ctx actor.Context) {
		if _, ok := ctx.Message().(*explode); ok {
			close(stuck)
			<-release
		}
	}}
	pid, err := s.Spawn(s, h.child("stuck"))
	require.NoError(t, err)
	s.Send(pid, &explode{})
	<-stuck
	for range 5 {
		s.Send(pid, &counted{})
	}
	info, _ := s.Registry.Get("stuck")
	require.Equal(t, 5, info.MailboxDepth)
	live, waiting := s.Registry.Depth()
	require.Equal(t, 1, live)
	require.Equal(t, 5, waiting)
	close(release)
}

// Actors of one name come and go in many goroutines; each living one is shown, none is left over.
func TestRegistryRaces(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 50 {
				pid, err := s.Spawn(s, (&hearer{}).child(fmt.Sprint("name", i%2)))
				if err != nil {
					continue // the other has it
				}
				if _, live := s.Registry.Get(pid.Id); !live {
					t.Errorf("%s lives and is not shown", pid.Id)
				}
				s.Registry.Snapshot()
				if err := s.StopAndWait(t.Context(), pid); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, s.Registry.Len())
}

func TestRegistryIsBounded(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	for i := range failuresMax + 100 {
		r.failed(fmt.Sprint("actor", i), "broke")
		r.failed(fmt.Sprint("actor", i), "broke again")
		r.deadLetter(fmt.Sprint("kind", i))
	}
	require.Len(t, r.failures, failuresMax)
	require.Len(t, r.order, failuresMax)
	require.Len(t, r.DeadLetters(), 256)
	_, known := r.Failure("actor99")
	require.False(t, known, "the oldest go first")
	failure, known := r.Failure("actor100")
	require.True(t, known)
	require.Equal(t, "broke again", failure.Reason)
	require.Empty(t, failure.Stack)
}

func TestUnknownMessagesAreCounted(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	before := UnknownTotal()
	pid, err := s.Spawn(s, NewMonitor(MonitorConfig{System: s, Name: "m", Every: 1 << 40}))
	require.NoError(t, err)
	s.Send(pid, &counted{})
	soon(t, func() bool { return UnknownTotal() > before }, "what an actor does not know is counted")
}
