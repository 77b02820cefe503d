// Package split keeps some queues in one adapter and all others, with every exchange, in another: the queues of workers in the node's
// memory, and what other programs use on a server.
//
// A message for a queue goes to the adapter that has the queue. An adapter that is away hinders only what is asked of it.
package split

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/broker"
)

// Config is what a Broker needs. All fields must be set.
type Config struct {
	Server broker.Broker // all exchanges, and the queues that are not Near's
	Near   broker.Broker
	// IsNear says by its name whether Near has a queue. The answer must not change.
	IsNear func(queue string) bool
}

// Broker is two adapters as one. All methods are safe for concurrent use. Its Status is the server's.
type Broker struct {
	broker.Broker // the server
	near          broker.Broker
	isNear        func(string) bool
}

var _ broker.Broker = (*Broker)(nil)

// New makes one of two adapters. Close closes both.
func New(cfg Config) *Broker {
	return &Broker{Broker: cfg.Server, near: cfg.Near, isNear: cfg.IsNear}
}

// of is the adapter that has a queue.
func (b *Broker) of(queue string) broker.Broker {
	if b.isNear(queue) {
		return b.near
	}
	return b.Broker
}

// Declare implements broker.Broker. It does not ask the server if all of the topology is queues of Near. The dead-letter exchange of such a queue must be
// in Near.
func (b *Broker) Declare(ctx context.Context, t broker.Topology) error {
	var near, server []broker.Queue
	for _, q := range t.Queues {
		if b.isNear(q.Name) {
			near = append(near, q)
		} else {
			server = append(server, q)
		}
	}
	if len(near) > 0 {
		if err := b.near.Declare(ctx, broker.Topology{Queues: near}); err != nil {
			return err
		}
		if len(server)+len(t.Exchanges)+len(t.Bindings) == 0 {
			return nil
		}
	}
	t.Queues = server
	return b.Broker.Declare(ctx, t)
}

// Delete implements broker.Broker.
func (b *Broker) Delete(ctx context.Context, queue string) error {
	return b.of(queue).Delete(ctx, queue)
}

// Publish implements broker.Broker. Messages for one adapter stay in order. After ErrMessage of one adapter the messages for the other may
// be published; the confirms say which.
func (b *Broker) Publish(ctx context.Context, list []broker.Message) ([]broker.Confirm, error) {
	var near, server []broker.Message
	var places [2][]int // of both, in the list
	for i := range list {
		if list[i].Exchange == "" && b.isNear(list[i].RoutingKey) {
			near, places[0] = append(near, list[i]), append(places[0], i)
		} else {
			server, places[1] = append(server, list[i]), append(places[1], i)
		}
	}
	switch {
	case len(near) == 0:
		return b.Broker.Publish(ctx, list)
	case len(server) == 0:
		return b.near.Publish(ctx, list)
	}
	confirms := make([]broker.Confirm, len(list))
	publish := func(to broker.Broker, part []broker.Message, places []int) error {
		got, err := to.Publish(ctx, part)
		for i, place := range places {
			confirms[place] = broker.Unknown
			if i < len(got) {
				confirms[place] = got[i]
			}
		}
		return err
	}
	return confirms, errors.Join(publish(b.near, near, places[0]), publish(b.Broker, server, places[1]))
}

// Consume implements broker.Broker.
func (b *Broker) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	return b.of(queue).Consume(ctx, queue, prefetch)
}

// Inspect implements broker.Broker.
func (b *Broker) Inspect(ctx context.Context, queue string) (broker.QueueInfo, error) {
	return b.of(queue).Inspect(ctx, queue)
}

// Close implements broker.Broker.
func (b *Broker) Close() error { return errors.Join(b.near.Close(), b.Broker.Close()) }
