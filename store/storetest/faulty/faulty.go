package faulty

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// ErrTwice says that a change took effect a second time when it was repeated, which no store may let happen.
var ErrTwice = errors.New("a repeated change took effect twice")

// Config is what goes wrong, in chances of one call in a hundred. All chances zero: 10 of each.
type Config struct {
	Seed     uint64
	Refused  int           // ErrUnavailable, and nothing was done
	Lost     int           // ErrUnavailable, and everything was done
	Twice    int           // the request is done twice
	Delayed  int           // the call waits up to DelayMax first
	DelayMax time.Duration // default 2 ms
}

func (c Config) withDefaults() Config {
	if c.Refused+c.Lost+c.Twice+c.Delayed == 0 {
		c.Refused, c.Lost, c.Twice, c.Delayed = 10, 10, 10, 10
	}
	if c.DelayMax == 0 {
		c.DelayMax = 2 * time.Millisecond
	}
	return c
}

// Counts says how often what went wrong.
type Counts struct{ Refused, Lost, Twice, Delayed int }

// Store is a faulty store. Its calls fail with store.ErrUnavailable beside what the wrapped store says.
//
// Replies are lost, and requests done twice, only of calls that the port promises to be repeatable. A submission
// without an id or a key is not, nor is a batch of changes that names an execution twice: on the second time the first
// change meets what the second one left.
type Store struct {
	calls
	config Config

	mu     sync.Mutex
	random *rand.Rand
	counts Counts
}

// New wraps a store. Closing it closes the wrapped one.
func New(s store.Store, c Config) *Store {
	f := &Store{config: c.withDefaults(), random: rand.New(rand.NewPCG(c.Seed, 0))}
	f.calls = calls{Store: s, around: f.around}
	return f
}

// Counts says how often what has gone wrong so far.
func (f *Store) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// fate is what becomes of one call.
type fate struct {
	refused, lost, twice bool
	delay                time.Duration
}

// draw draws a call's fate. A call that cannot be repeated is at most refused or late.
func (f *Store) draw(repeatable bool) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit := func(chance int, possible bool, count *int) bool {
		if f.random.IntN(100) >= chance || !possible {
			return false
		}
		*count++
		return true
	}
	var d fate
	if hit(f.config.Delayed, true, &f.counts.Delayed) {
		d.delay = time.Duration(f.random.Int64N(int64(f.config.DelayMax)) + 1)
	}
	d.refused = hit(f.config.Refused, true, &f.counts.Refused)
	d.lost = hit(f.config.Lost, repeatable && !d.refused, &f.counts.Lost)
	d.twice = hit(f.config.Twice, repeatable && !d.refused, &f.counts.Twice)
	return d
}

// begin waits out a delay, and says whether the call is refused.
func (d fate) begin(ctx context.Context) error {
	if err := pause(ctx, d.delay); err != nil {
		return err
	}
	if d.refused {
		return fmt.Errorf("injected: refused before it was done: %w", store.ErrUnavailable)
	}
	return nil
}

// pause lets time pass, at most to the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// around lets a call meet its fate. What the call returns is kept by do itself.
func (f *Store) around(ctx context.Context, repeatable bool, do func() error) error {
	d := f.draw(repeatable)
	if err := d.begin(ctx); err != nil {
		return err
	}
	err := do()
	if d.twice {
		err = do()
	}
	if d.lost {
		return &lostReply{}
	}
	return err
}

// lostReply is the error for a call that was done and whose reply was lost. It carries the reply for Repeat, which
// judges by it; another caller sees no more than store.ErrUnavailable.
type lostReply struct {
	submitted []store.Submitted
	results   []store.Result
	err       error
}

func (*lostReply) Error() string {
	return "injected: reply lost after it was done: " + store.ErrUnavailable.Error()
}

func (*lostReply) Unwrap() error { return store.ErrUnavailable }

// Submit implements store.Store.
func (f *Store) Submit(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	return f.SubmitPlaced(ctx, executions, nil)
}

// SubmitPlaced implements store.Store.
func (f *Store) SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	d := f.draw(named(executions))
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	out, err := f.Store.SubmitPlaced(ctx, executions, places)
	if d.twice {
		again, errAgain := f.Store.SubmitPlaced(ctx, executions, places)
		out, err = mergeSubmitted(out, err, again, errAgain)
	}
	if d.lost {
		return nil, &lostReply{submitted: out, err: err}
	}
	return out, err
}

// Apply implements store.Store.
func (f *Store) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	d := f.draw(distinct(changes))
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	out, err := f.Store.Apply(ctx, changes)
	if d.twice {
		again, errAgain := f.Store.Apply(ctx, changes)
		out, err = mergeResults(changes, out, err, again, errAgain)
	}
	if d.lost && !errors.Is(err, ErrTwice) {
		return nil, &lostReply{results: out, err: err}
	}
	return out, err
}

// named says that each execution has an id or a key, by which a second submission of it is recognised.
func named(executions []messages.Execution) bool {
	for i := range executions {
		if executions[i].ID.IsZero() && executions[i].IdempotencyKey == "" {
			return false
		}
	}
	return true
}

// distinct says that no execution is named twice.
func distinct(changes []store.Change) bool {
	seen := make(map[messages.ExecutionID]bool, len(changes))
	for _, c := range changes {
		if seen[c.Target()] {
			return false
		}
		seen[c.Target()] = true
	}
	return true
}
