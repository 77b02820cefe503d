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

// ErrTwice says that a repeated change took effect a second time, which no store may allow.
var ErrTwice = errors.New("a repeated change took effect twice")

// Config has the chance of each fault, in percent of calls. All zero: 10 each.
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

// Counts says how often each fault happened.
type Counts struct{ Refused, Lost, Twice, Delayed int }

// Store is a faulty store. Besides the wrapped store's errors, its calls return store.ErrUnavailable.
//
// It loses replies and repeats requests only for calls that the port declares repeatable. A submission without an id or
// a key is not repeatable. Nor is a batch of changes that names an execution twice: the second time, the first change
// finds the result of the second one.
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

// Counts returns how often each fault has happened so far.
func (f *Store) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// faults are the faults of one call.
type faults struct {
	refused, lost, twice bool
	delay                time.Duration
}

// draw draws a call's faults. A call that cannot be repeated is at most refused or late.
func (f *Store) draw(repeatable bool) faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit := func(chance int, possible bool, count *int) bool {
		if f.random.IntN(100) >= chance || !possible {
			return false
		}
		*count++
		return true
	}
	var d faults
	if hit(f.config.Delayed, true, &f.counts.Delayed) {
		d.delay = time.Duration(f.random.Int64N(int64(f.config.DelayMax)) + 1)
	}
	d.refused = hit(f.config.Refused, true, &f.counts.Refused)
	d.lost = hit(f.config.Lost, repeatable && !d.refused, &f.counts.Lost)
	d.twice = hit(f.config.Twice, repeatable && !d.refused, &f.counts.Twice)
	return d
}

// begin waits for the delay and returns an error if the call is refused.
func (d faults) begin(ctx context.Context) error {
	if err := pause(ctx, d.delay); err != nil {
		return err
	}
	if d.refused {
		return fmt.Errorf("injected: refused before it was done: %w", store.ErrUnavailable)
	}
	return nil
}

// pause waits for d, at most until ctx ends.
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

// around makes a call with its faults. do stores the call's results itself.
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

// lostReply is the error of a call that was done and whose reply was lost. It holds the reply, which Repeat compares.
// Other callers only see store.ErrUnavailable.
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

type madeKey struct{}

// CountMade returns a context for a call of Apply, and where a faulty store counts how often it has made its changes.
func CountMade(ctx context.Context) (counted context.Context, made *int) {
	made = new(int)
	return context.WithValue(ctx, madeKey{}, made), made
}

// Apply implements store.Store.
func (f *Store) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	d := f.draw(distinct(changes))
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	out, err := f.Store.Apply(ctx, changes)
	made, counts := ctx.Value(madeKey{}).(*int)
	if counts {
		*made++
	}
	if d.twice {
		again, errAgain := f.Store.Apply(ctx, changes)
		out, err = mergeResults(changes, out, err, again, errAgain)
		if counts {
			*made++
		}
	}
	if d.lost && !errors.Is(err, ErrTwice) {
		return nil, &lostReply{results: out, err: err}
	}
	return out, err
}

// named reports whether each execution has an id or a key, by which a second submission of it is recognized.
func named(executions []messages.Execution) bool {
	for i := range executions {
		if executions[i].ID.IsZero() && executions[i].IdempotencyKey == "" {
			return false
		}
	}
	return true
}

// distinct reports whether no execution is named twice.
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
