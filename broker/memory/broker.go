// Package memory is the broker inside the process: the queues, dead letters and confirms of package broker, without a server. It is the
// default of a node on its embedded store, and tests use it. It keeps nothing once it is closed. The store then places everything again.
//
// It has no goroutines of its own. A call that publishes or settles a message also moves the next messages to the
// consumers' channels. That never blocks, because a channel is as long as its consumer's prefetch. Each queue has one
// lock, and at most one timer, for the first of its ready messages. So it works in bubbles of testing/synctest.
//
// Locks are taken in this order: server, queue, connection. Dead letters are collected under the lock of a queue and published after it is
// released, so two queues that dead-letter into each other cannot deadlock.
//
// A message that is given back returns to its old place among the ready messages, as in a classic queue of RabbitMQ.
// Callers must not rely on that, because a quorum queue puts it in another place.
package memory

import (
	"context"
	"fmt"
	"sync"

	"github.com/troupe-run/troupe/broker"
)

// Config configures a broker.
type Config struct {
	// QueueMax bounds the ready messages of a queue without MaxLength. Default 1,000,000.
	QueueMax int
}

// prefetchMax is the largest prefetch of AMQP 0-9-1, which counts in 16 bits.
const prefetchMax = 65535

// Broker is one connection to an in-process broker. All methods are safe for concurrent use.
type Broker struct {
	server *server

	mu        sync.Mutex
	closed    bool
	consumers map[*consumer]struct{}
}

var _ broker.Broker = (*Broker)(nil)

// New makes an empty broker and returns the first connection to it. It ends with its last connection.
func New(config Config) *Broker {
	if config.QueueMax <= 0 {
		config.QueueMax = 1_000_000
	}
	s := newServer(config.QueueMax)
	s.connections = 1
	return &Broker{server: s, consumers: map[*consumer]struct{}{}}
}

// Connect opens another connection to the same broker, or returns broker.ErrClosed if that broker has ended.
func (b *Broker) Connect() (*Broker, error) {
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if b.server.closed {
		return nil, broker.ErrClosed
	}
	b.server.connections++
	return &Broker{server: b.server, consumers: map[*consumer]struct{}{}}, nil
}

// Dropped counts the dead letters that no queue took: the exchange is missing or has no binding, the queue is full, or
// the message came back to a queue in which it had expired.
func (b *Broker) Dropped() uint64 { return b.server.dropped.Load() }

// Status implements broker.Broker: it is up until it is closed.
func (b *Broker) Status() broker.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return broker.Status{Reason: broker.ErrClosed.Error()}
	}
	return broker.Status{Up: true}
}

// Declare implements broker.Broker. Parts before the first error, in the topology's order, stay declared.
func (b *Broker) Declare(ctx context.Context, t broker.Topology) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	return b.server.declare(t)
}

// Delete implements broker.Broker.
func (b *Broker) Delete(ctx context.Context, queue string) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	b.server.remove(queue, nil)
	return nil
}

// Publish implements broker.Broker. It copies neither bodies nor headers.
func (b *Broker) Publish(ctx context.Context, messages []broker.Message) ([]broker.Confirm, error) {
	if len(messages) == 0 {
		return nil, b.usable(ctx)
	}
	confirms := make([]broker.Confirm, len(messages))
	for i := range confirms {
		confirms[i] = broker.Unknown
	}
	if err := b.usable(ctx); err != nil {
		return confirms, err
	}
	return confirms, b.server.publish(messages, confirms)
}

// Consume implements broker.Broker. prefetch must be between 1 and 65535.
func (b *Broker) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	if prefetch < 1 || prefetch > prefetchMax {
		return nil, fmt.Errorf("consume %s: prefetch must be between 1 and %d, got %d", queue, prefetchMax, prefetch)
	}
	return b.server.consume(b, queue, prefetch)
}

// Inspect implements broker.Broker. It does not count as use of the queue.
func (b *Broker) Inspect(ctx context.Context, queue string) (broker.QueueInfo, error) {
	if err := b.usable(ctx); err != nil {
		return broker.QueueInfo{}, err
	}
	return b.server.inspect(queue)
}

// InspectExchange implements broker.Broker.
func (b *Broker) InspectExchange(ctx context.Context, exchange string) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	return b.server.inspectExchange(exchange)
}

// Close implements broker.Broker. A second call does nothing.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	consumers := b.consumers
	b.consumers = nil
	b.mu.Unlock()
	for c := range consumers {
		c.disconnect()
	}
	b.server.disconnect()
	return nil
}

func (b *Broker) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	return nil
}

// admit registers a consumer of the connection, unless the connection is closed.
func (b *Broker) admit(c *consumer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	b.consumers[c] = struct{}{}
	return nil
}

// forget removes an ended consumer that has no unsettled messages.
func (b *Broker) forget(c *consumer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.consumers, c)
}
