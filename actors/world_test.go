package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// dreamer is an actor that does what its world brings back.
type dreamer struct {
	system *System
	worlds chan *RealWorld
	world  *RealWorld
}

func (d *dreamer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.world = NewWorld(d.system, ctx.Self())
		d.worlds <- d.world
	case *actor.Stopping:
		d.world.End()
	case *Resume:
		d.world.Resume(m)
	case func():
		m()
	}
}

// dream starts the actor, in the same place each time.
func dream(t *testing.T, s *System, name string) (*actor.PID, *RealWorld) {
	t.Helper()
	d := &dreamer{system: s, worlds: make(chan *RealWorld, 1)}
	pid, err := s.Spawn(s, Child{Name: name, New: func() actor.Actor { return d }})
	require.NoError(t, err)
	return pid, <-d.worlds
}

func TestWorldBringsBackWhatWaitedOrRanBeside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // the library's window of dead letters ends
		s := newSystem(t)
		pid, w := dream(t, s, "dreamer")
		var order []string
		say := func(word string) func() { return func() { order = append(order, word) } }
		start := w.Now()
		s.Send(pid, func() {
			w.After(0, say("behind"))
			w.After(time.Second, say("later"))
			stopped := w.After(time.Second, say("never"))
			require.True(t, stopped.Stop())
			w.Beside(time.Second, func(ctx context.Context) func() {
				deadline, _ := ctx.Deadline()
				require.Equal(t, start.Add(time.Second), deadline)
				time.Sleep(time.Millisecond)
				return say("beside")
			})
			w.Beside(time.Second, func(context.Context) func() { return nil })
		})
		s.Send(pid, say("next"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"next", "behind", "beside", "later"}, order)
		require.False(t, w.After(0, say("over")).Stop())
		require.Less(t, w.Random(), 1.0)
		require.NoError(t, s.StopAndWait(t.Context(), pid))
	})
}

// What comes back for an actor that has ended is not for the one that was started in its place, and work that still runs is told
// to end.
func TestWorldOfTheActorBeforeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) })
		s := newSystem(t)
		pid, before := dream(t, s, "dreamer")
		ended := make(chan struct{})
		before.Beside(time.Hour, func(ctx context.Context) func() {
			<-ctx.Done()
			close(ended)
			return func() { t.Error("it is not for the next") }
		})
		require.NoError(t, s.StopAndWait(t.Context(), pid))
		<-ended
		again, w := dream(t, s, "dreamer")
		before.After(0, func() { t.Error("it is not for the next") })
		came := false
		w.After(0, func() { came = true })
		synctest.Wait()
		require.True(t, came)
		require.NoError(t, s.StopAndWait(t.Context(), again))
	})
}
