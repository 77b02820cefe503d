package actors

import (
	"bytes"
	"context"
	"encoding/json"
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

// Outcomes tells waiting callers of outcomes. An outcome that this node has stored comes whole, and is what the caller is answered. Of one
// that another node has stored, the caller hears that it may be there, and reads the store, unless that node tells it whole before. Outcomes
// keeps nothing: a caller subscribes first and reads the store second, or subscribes before the execution is stored. So an outcome is either
// in the store or still to come.
type Outcomes struct {
	// Ask, where set, is told of an execution that a caller waits for, as it was stored or as a look has found it, and for how long the
	// caller now waits without a look. It must not block, and is set before anybody waits.
	Ask func(e *messages.Execution, pause time.Duration)
	// FirstLook is after how long a waiter looks at the store by itself for the first time. It is set before anybody waits.
	FirstLook time.Duration

	mu      sync.Mutex
	waiting map[messages.ExecutionID][]chan *messages.Execution
	count   int
}

// NewOutcomes returns an empty set of waiters.
func NewOutcomes() *Outcomes {
	return &Outcomes{FirstLook: lookFirst, waiting: map[messages.ExecutionID][]chan *messages.Execution{}}
}

// Subscribe returns a channel that gets the execution once it is terminal, or nil where it is time to look at the store; and a function
// that ends the wait. The execution is shared with all others who wait for it.
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

// Publish tells everybody who waits for the execution of its outcome, and ends their wait. The execution is as the store has it, but for its
// parameters, and is not changed from then on. It never blocks.
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
		select {
		case <-ch: // what it was to look for has come
		default:
		}
		ch <- e
	}
}

// Look has everybody who waits for the execution look at the store, where an outcome may be. They go on waiting. It never blocks.
func (o *Outcomes) Look(id messages.ExecutionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ch := range o.waiting[id] {
		select {
		case ch <- nil:
		default: // it is about to look
		}
	}
}

// Waiting lists the executions that somebody waits for, in no order.
func (o *Outcomes) Waiting() []messages.ExecutionID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.waiting))
}

// Get reads an execution in the store.
type Get func(context.Context, messages.ExecutionID) (messages.Execution, error)

// Wait returns the execution once it is terminal, or as get returns it when ctx ends. Once get has found the execution, a store that is
// away does not end the wait.
func (o *Outcomes) Wait(ctx context.Context, id messages.ExecutionID, get Get) (messages.Execution, error) {
	w := o.Expect(id)
	defer w.Leave()
	w.stored = false
	return w.Wait(ctx, get)
}

// Expect begins to wait for an execution that is not stored yet, so that its outcome cannot be missed and no look at the store is needed
// before it comes. Too many waiters are said by Wait. Whoever gets a Waiter leaves it, whatever comes of the execution.
func (o *Outcomes) Expect(id messages.ExecutionID) *Waiter {
	w := &Waiter{id: id, ask: o.Ask, first: o.FirstLook, stored: true}
	w.told, w.Leave, w.err = o.Subscribe(id)
	if w.err != nil {
		w.Leave = func() {}
	}
	return w
}

// Waiter is one caller who waits for an outcome.
type Waiter struct {
	Leave func() // ends the wait. It may be called again

	id     messages.ExecutionID
	ask    func(*messages.Execution, time.Duration)
	first  time.Duration // until the first look that nothing calls for
	told   <-chan *messages.Execution
	err    error           // why nothing is told
	stored bool            // the execution is in the store, and it was not over when the wait began
	asked  json.RawMessage // its parameters, which an outcome that is told does not have
	long   bool            // its parameters are too long to be kept meanwhile
}

// askedMax is how long parameters may be that a waiting caller keeps; longer ones are read again.
const askedMax = 4 << 10

// Stored says how the execution was stored that the wait began before.
func (w *Waiter) Stored(e *messages.Execution) { w.wants(e, w.first) }

func (w *Waiter) wants(e *messages.Execution, pause time.Duration) {
	if w.ask != nil && w.err == nil && !e.ID.IsZero() {
		w.ask(e, pause)
	}
}

// Wait waits as Outcomes.Wait does. The first look at the store is left out where the wait began before the execution was stored. What is
// told has the parameters where a look has found them.
func (w *Waiter) Wait(ctx context.Context, get Get) (messages.Execution, error) {
	if w.err != nil {
		return messages.Execution{}, w.err
	}
	found := w.stored
	patient := func() (messages.Execution, error) {
		e, err := get(ctx, w.id)
		if err != nil && (ctx.Err() != nil || found && store.Unanswered(err)) {
			return messages.Execution{}, nil
		}
		found = found || err == nil
		return e, err
	}
	for looks, pause := !w.stored, w.first; ; looks, pause = true, min(2*pause, lookMax) {
		e, over, err := w.stage(ctx, looks, pause, patient)
		if err != nil || e.Status.Terminal() {
			return e, err
		}
		if over {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return get(last, w.id)
}

// stage looks at the execution, if looks, and unless it is terminal waits for its outcome, for the time of the next look, or for the end of
// ctx: then the wait is over.
func (w *Waiter) stage(ctx context.Context, looks bool, pause time.Duration, get func() (messages.Execution, error),
) (e messages.Execution, over bool, err error) {
	if looks {
		if e, err = get(); err != nil || e.Status.Terminal() {
			return e, false, err
		}
		if !e.ID.IsZero() { // the store has answered
			w.found(&e, pause)
		}
		e = messages.Execution{}
	}
	again := time.NewTimer(pause)
	defer again.Stop()
	select {
	case told := <-w.told:
		if told != nil && !w.long {
			e = ownCopy(told)
			e.Parameters = w.asked
		}
	case <-again.C:
	case <-ctx.Done():
		over = true
	}
	return e, over, nil
}

// found takes an execution that has not ended.
func (w *Waiter) found(e *messages.Execution, pause time.Duration) {
	if w.long = len(e.Parameters) > askedMax; !w.long {
		w.asked = e.Parameters
	}
	w.wants(e, pause)
}

// ownCopy is a copy for one caller of an outcome that several are told.
func ownCopy(e *messages.Execution) messages.Execution {
	c := *e
	c.Labels, c.Result, c.RequestHash = maps.Clone(e.Labels), bytes.Clone(e.Result), bytes.Clone(e.RequestHash)
	if e.Error != nil {
		failure := *e.Error
		failure.Details = bytes.Clone(failure.Details)
		c.Error = &failure
	}
	return c
}
