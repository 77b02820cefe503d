package actors

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// waitersMax bounds how many callers may wait for outcomes at once.
const waitersMax = 100_000

// A waiter looks for itself now and then, for the word of another node's outcome may be lost with the answer to its commit: first
// after lookFirst, then less and less often.
const (
	lookFirst = 5 * time.Second
	lookMax   = time.Minute
)

// lastLook bounds the reading of an execution whose wait is over.
const lastLook = 10 * time.Second

// ErrTooManyWaiters says that no more callers can wait.
var ErrTooManyWaiters = errors.New("too many callers wait for outcomes; ask again later")

// Outcomes tells waiting callers of outcomes, one notification each. It keeps nothing: a caller subscribes first and
// reads the store second, so an outcome is either in the store or still to come.
type Outcomes struct {
	mu      sync.Mutex
	waiting map[messages.ExecutionID][]chan *messages.Execution
	count   int
}

// NewOutcomes returns an empty set of waiters.
func NewOutcomes() *Outcomes {
	return &Outcomes{waiting: map[messages.ExecutionID][]chan *messages.Execution{}}
}

// Subscribe returns a channel that gets the execution once it is terminal, and a function that ends the wait.
func (o *Outcomes) Subscribe(id messages.ExecutionID) (<-chan *messages.Execution, func(), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count >= waitersMax {
		return nil, nil, ErrTooManyWaiters
	}
	ch := make(chan *messages.Execution, 1)
	o.waiting[id] = append(o.waiting[id], ch)
	o.count++
	return ch, func() { o.leave(id, ch) }, nil
}

func (o *Outcomes) leave(id messages.ExecutionID, ch chan *messages.Execution) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range o.waiting[id] {
		if c != ch {
			continue
		}
		o.count--
		rest := slices.Concat(o.waiting[id][:i], o.waiting[id][i+1:])
		if len(rest) == 0 {
			delete(o.waiting, id)
			return
		}
		o.waiting[id] = rest
		return
	}
}

// Publish wakes everybody who waits for the execution. It never blocks.
func (o *Outcomes) Publish(e *messages.Execution) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == 0 {
		return
	}
	channels := o.waiting[e.ID]
	delete(o.waiting, e.ID)
	o.count -= len(channels)
	for _, ch := range channels {
		ch <- e
	}
}

// Waiting lists the executions that somebody waits for, in no order.
func (o *Outcomes) Waiting() []messages.ExecutionID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.waiting))
}

// Wait returns the execution once it is terminal, or as get returns it when ctx ends. What it is told is a hint only: an
// outcome that came too late for its attempt may have been announced by another node, so the store has the last word. Once
// get has found the execution, a store that is away does not end the wait.
func (o *Outcomes) Wait(ctx context.Context, id messages.ExecutionID,
	get func(context.Context, messages.ExecutionID) (messages.Execution, error),
) (messages.Execution, error) {
	found := false
	patient := func(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
		e, err := get(ctx, id)
		if err != nil && (ctx.Err() != nil || found && store.Unanswered(err)) {
			return messages.Execution{}, nil
		}
		found = found || err == nil
		return e, err
	}
	for look := lookFirst; ; look = min(2*look, lookMax) {
		e, over, err := o.waitOnce(ctx, id, look, patient)
		if err != nil || e.Status.Terminal() {
			return e, err
		}
		if over {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return get(last, id)
}

// waitOnce looks at the execution and, unless it is terminal, waits until it is told of it, it is time to look again, or ctx
// ends: then the wait is over.
func (o *Outcomes) waitOnce(ctx context.Context, id messages.ExecutionID, look time.Duration,
	get func(context.Context, messages.ExecutionID) (messages.Execution, error),
) (e messages.Execution, over bool, err error) {
	ch, leave, err := o.Subscribe(id)
	if err != nil {
		return messages.Execution{}, false, err
	}
	defer leave()
	e, err = get(ctx, id)
	if err != nil || e.Status.Terminal() {
		return e, false, err
	}
	again := time.NewTimer(look)
	defer again.Stop()
	select {
	case <-ch:
	case <-again.C:
	case <-ctx.Done():
		return e, true, nil
	}
	return e, false, nil
}
