package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrGone says that the actor asked is not there.
var ErrGone = errors.New("actor is gone")

// Question carries a question to an actor that answers with Reply. Actors receive it as a message of its own
// type; the answer goes to whoever asked, once.
type Question[Q, A any] struct {
	Ask    Q
	answer chan answer[A]
}

type answer[A any] struct {
	value A
	err   error
}

// Reply answers the question. Only the first answer counts.
func (q *Question[Q, A]) Reply(value A, err error) {
	select {
	case q.answer <- answer[A]{value, err}:
	default:
	}
}

// NewQuestion makes a question that travels inside another message, and the function that waits for its answer.
func NewQuestion[Q, A any](ask Q) (wait func(context.Context) (A, error), q *Question[Q, A]) {
	q = &Question[Q, A]{Ask: ask, answer: make(chan answer[A], 1)}
	return func(ctx context.Context) (A, error) {
		select {
		case a := <-q.answer:
			return a.value, a.err
		case <-ctx.Done():
			var zero A
			return zero, fmt.Errorf("wait for an answer: %w", context.Cause(ctx))
		}
	}, q
}

// Ask sends a question and waits for its answer or for ctx. The reply travels over a channel that the question owns,
// so nothing is registered and a late answer costs nothing.
func Ask[Q, A any](ctx context.Context, s *System, pid *actor.PID, question Q) (A, error) {
	q := &Question[Q, A]{Ask: question, answer: make(chan answer[A], 1)}
	var zero A
	asked, alive := s.process(pid)
	if !alive && s.Registry.keeper(pid) == nil {
		return zero, fmt.Errorf("ask %s: %w", pid.GetId(), ErrGone)
	}
	s.Send(pid, q)
	look := time.NewTicker(askLook)
	defer look.Stop()
	for {
		select {
		case a := <-q.answer:
			return a.value, a.err
		case <-ctx.Done():
			return zero, fmt.Errorf("ask %s: %w", pid.GetId(), context.Cause(ctx))
		case <-look.C:
		}
		if now, alive := s.process(pid); alive && now == asked || s.Registry.keeper(pid) != nil {
			continue
		}
		select { // it may have answered last of all
		case a := <-q.answer:
			return a.value, a.err
		default:
			return zero, fmt.Errorf("ask %s: it ended with the question: %w", pid.GetId(), ErrGone)
		}
	}
}

// askLook is how often one who waits for an answer looks whether the actor still lives: an actor that is stopped takes
// the questions in its mailbox with it.
const askLook = 100 * time.Millisecond

func (s *System) process(pid *actor.PID) (actor.Process, bool) {
	if pid == nil {
		return nil, false
	}
	return s.Actors.ProcessRegistry.GetLocal(pid.Id)
}

// StopAndWait stops an actor and its children and waits for its end or for ctx.
func (s *System) StopAndWait(ctx context.Context, pid *actor.PID) error {
	if pid == nil {
		return nil
	}
	done := make(chan struct{}, 1)
	watcher, _ := s.Actors.ProcessRegistry.Add(&ender{done}, "watch/"+s.Actors.ProcessRegistry.NextId())
	defer s.Actors.ProcessRegistry.Remove(watcher)
	target, ok := s.Actors.ProcessRegistry.GetLocal(pid.Id)
	if !ok {
		return nil
	}
	target.SendSystemMessage(pid, &actor.Watch{Watcher: watcher})
	target.Stop(pid)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", pid.Id, context.Cause(ctx))
	}
}

// ender is a process that hears of another's end.
type ender struct{ done chan struct{} }

func (e *ender) SendUserMessage(*actor.PID, any) {}

func (e *ender) SendSystemMessage(_ *actor.PID, message any) {
	if _, ended := message.(*actor.Terminated); ended {
		select {
		case e.done <- struct{}{}:
		default:
		}
	}
}

func (e *ender) Stop(*actor.PID) {}

// PID is the address of the actor with this id, whether or not it lives now.
func (s *System) PID(id string) *actor.PID { return actor.NewPID(s.Actors.Address(), id) }
