package faulty

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/troupe-run/troupe/broker"
)

// callsMax bounds how often a call is repeated.
const callsMax = 100

// copyHeader marks the second of two equal messages, so that a Bench can tell it from a redelivery of the first.
const copyHeader = "troupe-test-copy"

// Bench wraps brokers, which are connections to one server, into faulty ones. It also adds a caller that handles the
// faults: it repeats refused calls and publishes unconfirmed messages again. It drops the copies, as a worker drops
// work that it has claimed before. It makes copies only in queues whose messages leave only by being settled, because
// there the port does not show the copies. For other queues it gets the lost confirms from the error.
type Bench struct {
	seed uint64

	mu     sync.Mutex
	count  uint64          // number of connections
	plain  map[string]bool // queues that may hold copies
	copies map[string]int  // unsettled copies in each queue
}

// NewBench makes a bench whose faults are determined by the seed.
func NewBench(seed uint64) *Bench {
	return &Bench{seed: seed, plain: map[string]bool{}, copies: map[string]int{}}
}

// Wrap wraps one connection. Closing it closes the wrapped one.
func (b *Bench) Wrap(c broker.Broker) broker.Broker {
	b.mu.Lock()
	b.count++
	f := New(c, Config{Seed: b.seed + b.count})
	b.mu.Unlock()
	f.hooks = hooks{twin: b.twin, sent: b.sent, drop: b.drop}
	return &repeating{Broker: f, bench: b}
}

// twin returns a message's copy, where a copy may be made.
func (b *Bench) twin(m broker.Message) (broker.Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.Exchange != "" || m.Expiration != 0 || !b.plain[m.RoutingKey] || m.Headers[copyHeader] != "" {
		return m, false
	}
	headers := maps.Clone(m.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[copyHeader] = "1"
	m.Headers = headers
	return m, true
}

// sent counts the copies that arrived.
func (b *Bench) sent(messages []broker.Message, confirms []broker.Confirm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range messages {
		if m.Headers[copyHeader] != "" && confirms[i] == broker.Confirmed {
			b.copies[m.RoutingKey]++
		}
	}
}

// drop removes a copy from its queue.
func (b *Bench) drop(d broker.Delivery) bool {
	if d.Headers[copyHeader] == "" {
		return false
	}
	if d.Ack() == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.copies[d.Queue]--
	}
	return true
}

// declared notes the queues that messages leave only by being settled.
func (b *Bench) declared(t broker.Topology) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range t.Queues {
		plain := broker.Queue{Name: q.Name, Quorum: q.Quorum}
		b.plain[q.Name] = q == plain
	}
}

func (b *Bench) deleted(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.plain, queue)
	delete(b.copies, queue)
}

func (b *Bench) copiesIn(queue string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.copies[queue]
}

// repeating is the caller that a bench adds.
type repeating struct {
	*Broker
	bench *Bench
}

// again repeats a call until it succeeds or fails with an error that was not injected.
func again(call func() error) error {
	var err error
	for range callsMax {
		if err = call(); !injected(err) {
			return err
		}
	}
	return err
}

// Declare implements broker.Broker.
func (r *repeating) Declare(ctx context.Context, t broker.Topology) error {
	err := again(func() error { return r.Broker.Declare(ctx, t) })
	if err == nil {
		r.bench.declared(t)
	}
	return err
}

// Delete implements broker.Broker.
func (r *repeating) Delete(ctx context.Context, queue string) error {
	err := again(func() error { return r.Broker.Delete(ctx, queue) })
	if err == nil {
		r.bench.deleted(queue)
	}
	return err
}

// Inspect implements broker.Broker, without the copies.
func (r *repeating) Inspect(ctx context.Context, queue string) (info broker.QueueInfo, err error) {
	err = again(func() (err error) {
		info, err = r.Broker.Inspect(ctx, queue)
		return err
	})
	info.Ready -= r.bench.copiesIn(queue)
	return info, err
}

// Consume implements broker.Broker.
func (r *repeating) Consume(ctx context.Context, queue string, prefetch int) (c broker.Consumer, err error) {
	err = again(func() (err error) {
		c, err = r.Broker.Consume(ctx, queue, prefetch)
		return err
	})
	return c, err
}

// Publish implements broker.Broker. It sends messages with lost confirms again, as copies.
func (r *repeating) Publish(ctx context.Context, messages []broker.Message) ([]broker.Confirm, error) {
	p := publication{bench: r.bench, left: messages, at: make([]int, len(messages)), confirms: unknown(len(messages))}
	for i := range p.at {
		p.at[i] = i
	}
	err := again(func() error {
		confirms, err := r.Broker.Publish(ctx, p.left)
		var lost *lostConfirms
		if !errors.As(err, &lost) {
			p.settle(confirms)
			return err
		}
		p.settle(lost.confirms)
		if lost.err != nil {
			return lost.err
		}
		if p.copy(lost.confirms); len(p.left) == 0 {
			return nil
		}
		return err
	})
	return p.confirms, err
}

// publication is one call of Publish with its repetitions.
type publication struct {
	bench    *Bench
	left     []broker.Message // to be sent
	at       []int            // index of each in the call
	confirms []broker.Confirm // of the call
}

// settle records confirms. A message has arrived when one copy of it has arrived.
func (p *publication) settle(confirms []broker.Confirm) {
	for i, c := range confirms {
		if p.confirms[p.at[i]] != broker.Confirmed {
			p.confirms[p.at[i]] = c
		}
	}
}

// copy keeps the messages that a caller without these confirms would send again.
func (p *publication) copy(confirms []broker.Confirm) {
	var left []broker.Message
	var at []int
	for i, m := range p.left {
		again, ok := m, true
		if confirms[i] == broker.Confirmed {
			again, ok = p.bench.twin(m)
		}
		if ok {
			left, at = append(left, again), append(at, p.at[i])
		}
	}
	p.left, p.at = left, at
}
