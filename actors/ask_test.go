package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

type numberQuestion = Question[int, int]

// oracle answers with the double, keeps silent on 0, answers twice on 7, and dies of 13.
type oracle struct{}

var errOdd = errors.New("odd")

func (oracle) Receive(ctx actor.Context) {
	q, ok := ctx.Message().(*numberQuestion)
	if !ok {
		return
	}
	switch {
	case q.Ask == 0:
	case q.Ask == 13:
		panic("thirteen")
	case q.Ask == 7:
		q.Reply(14, nil)
		q.Reply(15, nil)
	case q.Ask%2 == 1:
		q.Reply(0, errOdd)
	default:
		q.Reply(2*q.Ask, nil)
	}
}

func newOracle(t *testing.T, s *System) *actor.PID {
	t.Helper()
	pid, err := s.Spawn(s, Child{Name: "oracle", Kind: "oracle", New: func() actor.Actor { return oracle{} }})
	require.NoError(t, err)
	return pid
}

func TestAsk(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	pid := newOracle(t, s)
	for ask, want := range map[int]int{2: 4, 8: 16, 7: 14} {
		got, err := Ask[int, int](t.Context(), s, pid, ask)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := Ask[int, int](t.Context(), s, pid, 5)
	require.ErrorIs(t, err, errOdd)
}

func TestAskGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Ask[int, int](ctx, s, newOracle(t, s), 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "ask oracle")
}

func TestAskOfNobody(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, err := Ask[int, int](t.Context(), s, s.PID("nobody"), 2)
	require.ErrorIs(t, err, ErrGone)
	_, err = Ask[int, int](t.Context(), s, nil, 2)
	require.ErrorIs(t, err, ErrGone)
}

// An actor that ends takes the questions of its mailbox along; who asked must not wait for ever.
func TestAskOfOneThatEnds(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var asked sync.WaitGroup
	for n := range 1000 { // one may end just as it is asked
		pid, err := s.Spawn(s, Child{Name: fmt.Sprintf("oracle%d", n), Kind: "oracle", New: func() actor.Actor { return oracle{} }})
		require.NoError(t, err)
		for _, question := range []int{0, 13, 0, 0} {
			asked.Go(func() {
				_, err := Ask[int, int](ctx, s, pid, question)
				if !errors.Is(err, ErrGone) {
					t.Errorf("want ErrGone, got %v", err)
				}
			})
		}
	}
	asked.Wait()
}

func TestQuestionInsideAMessage(t *testing.T) {
	t.Parallel()
	wait, q := NewQuestion[string, string]("how")
	go q.Reply("so", nil)
	got, err := wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "so", got)
	wait, _ = NewQuestion[string, string]("unheard")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// stubborn takes its time to stop.
type stubborn struct{ release chan struct{} }

func (u *stubborn) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Stopping); ok {
		<-u.release
	}
}

func TestStopAndWait(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	require.NoError(t, s.StopAndWait(t.Context(), nil))
	require.NoError(t, s.StopAndWait(t.Context(), s.PID("nobody")))
	u := &stubborn{release: make(chan struct{})}
	pid, err := s.Spawn(s, Child{Name: "stubborn", Kind: "stubborn", New: func() actor.Actor { return u }})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.StopAndWait(ctx, pid), context.DeadlineExceeded)
	var waiters sync.WaitGroup
	for range 5 {
		waiters.Go(func() {
			if err := s.StopAndWait(context.Background(), pid); err != nil {
				t.Error(err)
			}
		})
	}
	close(u.release)
	waiters.Wait()
	require.Zero(t, s.Registry.Len())
}
