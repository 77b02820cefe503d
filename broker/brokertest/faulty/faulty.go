// Package faulty is a broker that fails as a server over a network does: calls are refused, confirms are lost after the
// message has arrived, messages arrive twice, and calls are delayed. It wraps any broker. One seed and the order of the
// calls determine the faults.
//
// A Bench adds a caller that handles the faults, so that any adapter passes the suite in brokertest on it:
//
//	bench := faulty.NewBench(1)
//	brokertest.Run(t, func(t *testing.T) broker.Broker { return bench.Wrap(open(t)) })
package faulty

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
)

// Config sets the probability of each fault, in percent of calls (Twice: of messages). If all are zero, each is 10.
type Config struct {
	Seed     uint64
	Refused  int           // ErrUnavailable; nothing was done
	Lost     int           // Publish: everything was done and no confirm arrived
	Twice    int           // Publish: a message is sent twice
	Delayed  int           // calls and settlements wait up to DelayMax first
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

// Counts has the number of faults of each kind.
type Counts struct{ Refused, Lost, Twice, Delayed int }

// Broker is a faulty broker. It injects no errors into Close, Cancel, Status and settlements.
type Broker struct {
	broker.Broker
	config Config
	hooks  hooks

	mu        sync.Mutex
	random    *rand.Rand
	counts    Counts
	consumers map[*consumer]bool
}

// hooks are what a Bench replaces.
type hooks struct {
	// twin returns the second copy of a message; ok is false for a message that is never sent twice.
	twin func(broker.Message) (second broker.Message, ok bool)
	// sent gets every message that was sent, with its confirm.
	sent func([]broker.Message, []broker.Confirm)
	// drop reports that it has settled a delivery, which is then not passed on.
	drop func(broker.Delivery) bool
}

// New wraps a broker. Closing it closes the wrapped one.
func New(b broker.Broker, c Config) *Broker {
	return &Broker{
		Broker: b, config: c.withDefaults(), random: rand.New(rand.NewPCG(c.Seed, 0)), consumers: map[*consumer]bool{},
		hooks: hooks{
			twin: func(m broker.Message) (broker.Message, bool) { return m, true },
			sent: func([]broker.Message, []broker.Confirm) {},
			drop: func(broker.Delivery) bool { return false },
		},
	}
}

// Counts returns the number of faults so far.
func (f *Broker) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// hit draws a chance, and counts it if it comes true.
func (f *Broker) hit(chance int, count *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.IntN(100) >= chance {
		return false
	}
	*count++
	return true
}

// linger delays some calls.
func (f *Broker) linger(ctx context.Context) error {
	if !f.hit(f.config.Delayed, &f.counts.Delayed) {
		return nil
	}
	f.mu.Lock()
	timer := time.NewTimer(time.Duration(f.random.Int64N(int64(f.config.DelayMax)) + 1))
	f.mu.Unlock()
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errRefused is the error of a call that was refused.
var errRefused = fmt.Errorf("injected: refused before it was done: %w", broker.ErrUnavailable)

// begin delays or refuses some calls.
func (f *Broker) begin(ctx context.Context) error {
	if err := f.linger(ctx); err != nil {
		return err
	}
	if f.hit(f.config.Refused, &f.counts.Refused) {
		return errRefused
	}
	return nil
}

// lostConfirms is the error for sent messages with lost confirms. It holds the confirms for a Bench. Another caller
// sees only broker.ErrUnavailable.
type lostConfirms struct {
	confirms []broker.Confirm
	err      error
}

func (*lostConfirms) Error() string {
	return "injected: confirms lost after the messages were sent: " + broker.ErrUnavailable.Error()
}

func (*lostConfirms) Unwrap() error { return broker.ErrUnavailable }

// Declare implements broker.Broker.
func (f *Broker) Declare(ctx context.Context, t broker.Topology) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	return f.Broker.Declare(ctx, t)
}

// Delete implements broker.Broker.
func (f *Broker) Delete(ctx context.Context, queue string) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	return f.Broker.Delete(ctx, queue)
}

// Inspect implements broker.Broker.
func (f *Broker) Inspect(ctx context.Context, queue string) (broker.QueueInfo, error) {
	if err := f.begin(ctx); err != nil {
		return broker.QueueInfo{}, err
	}
	return f.Broker.Inspect(ctx, queue)
}

// Publish implements broker.Broker.
func (f *Broker) Publish(ctx context.Context, messages []broker.Message) ([]broker.Confirm, error) {
	if err := f.begin(ctx); err != nil {
		return unknown(len(messages)), err
	}
	confirms, err := f.send(ctx, messages)
	if twins := f.twins(messages, confirms); len(twins) > 0 && err == nil {
		_, err = f.send(ctx, twins)
	}
	if f.hit(f.config.Lost, &f.counts.Lost) {
		return unknown(len(messages)), &lostConfirms{confirms, err}
	}
	return confirms, err
}

// send publishes and calls the hook.
func (f *Broker) send(ctx context.Context, messages []broker.Message) ([]broker.Confirm, error) {
	confirms, err := f.Broker.Publish(ctx, messages)
	f.hooks.sent(messages, confirms)
	return confirms, err
}

func unknown(n int) []broker.Confirm {
	out := make([]broker.Confirm, n)
	for i := range out {
		out[i] = broker.Unknown
	}
	return out
}

// twins returns those of the arrived messages that are sent a second time.
func (f *Broker) twins(messages []broker.Message, confirms []broker.Confirm) []broker.Message {
	var out []broker.Message
	for i, m := range messages {
		if confirms[i] != broker.Confirmed {
			continue
		}
		if second, ok := f.hooks.twin(m); ok && f.hit(f.config.Twice, &f.counts.Twice) {
			out = append(out, second)
		}
	}
	return out
}

// injected reports whether an error is an injected one.
func injected(err error) bool {
	var lost *lostConfirms
	return errors.Is(err, errRefused) || errors.As(err, &lost)
}
