package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// Declare implements broker.Broker. It uses the consuming connection, which the server never blocks.
func (b *Broker) Declare(ctx context.Context, t broker.Topology) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	for _, e := range t.Exchanges {
		if err := b.declareExchange(ctx, e); err != nil {
			return err
		}
	}
	for _, q := range t.Queues {
		if err := b.declareQueue(ctx, q); err != nil {
			return err
		}
	}
	for _, d := range t.Bindings {
		what := fmt.Sprintf("bind queue %s to exchange %s", d.Queue, d.Exchange)
		err := b.useQueue(ctx, what, d.Queue, func(c *amqp.Channel) error { return c.QueueBind(d.Queue, d.Key, d.Exchange, false, nil) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) declareExchange(ctx context.Context, e broker.Exchange) error {
	if err := checkName("exchange", e.Name); err != nil {
		return fmt.Errorf("declare %w", err)
	}
	return b.request(ctx, "declare exchange "+e.Name, "", func(c *amqp.Channel) error {
		return c.ExchangeDeclare(e.Name, string(e.Kind), true, false, false, false, nil)
	})
}

func (b *Broker) declareQueue(ctx context.Context, q broker.Queue) error {
	if err := checkQueue(q); err != nil {
		return err
	}
	if err := b.cleared(ctx, q.Name, &q); err != nil {
		return err
	}
	return b.request(ctx, "declare queue "+q.Name, q.Name, func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(q.Name, true, false, false, false, arguments(q))
		return err
	})
}

// redeliverAlways is a delivery limit that works as no limit in all versions. From 4.0 on, a queue without a limit
// drops or dead-letters a message after 20 deliveries. There, -1 means no limit, but 3.10 then drops it after the first
// delivery (measured on 3.10.8).
const redeliverAlways = 1_000_000_000

// arguments returns a queue's arguments in the server's terms. At-least-once dead-lettering needs a quorum queue, an
// exchange and reject-publish. Without one of them the server silently does less.
func arguments(q broker.Queue) amqp.Table {
	args := amqp.Table{"x-queue-type": "classic"}
	if q.Quorum {
		args["x-queue-type"] = "quorum"
	}
	if q.TTL > 0 {
		args["x-message-ttl"] = milliseconds(q.TTL)
	}
	if q.Expires > 0 {
		args["x-expires"] = milliseconds(q.Expires)
	}
	if q.MaxLength > 0 {
		args["x-max-length"] = int64(q.MaxLength)
		args["x-overflow"] = "reject-publish"
	}
	if q.Quorum {
		args["x-delivery-limit"] = int64(orElse(q.DeliveryLimit, redeliverAlways))
	}
	if q.DeadLetterExchange != "" {
		args["x-dead-letter-exchange"] = q.DeadLetterExchange
		if q.Quorum {
			args["x-dead-letter-strategy"] = "at-least-once"
			args["x-overflow"] = "reject-publish"
		}
	}
	return args
}

// Delete implements broker.Broker. It never uses "if empty", which costs the connection for a quorum queue.
func (b *Broker) Delete(ctx context.Context, queue string) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	do := b.request
	if _, suspect := b.suspects.of(queue); suspect {
		do = b.removeSuspect // nothing else repairs it
	}
	err := do(ctx, "delete queue "+queue, queue, func(c *amqp.Channel) error {
		_, err := c.QueueDelete(queue, false, false, false)
		return err
	})
	if errors.Is(err, broker.ErrNoQueue) {
		return nil
	}
	return err
}

// Inspect implements broker.Broker. It counts as use of a classic queue, not of a quorum queue.
func (b *Broker) Inspect(ctx context.Context, queue string) (broker.QueueInfo, error) {
	if err := b.usable(ctx); err != nil {
		return broker.QueueInfo{}, err
	}
	if err := checkName("queue", queue); err != nil {
		return broker.QueueInfo{}, fmt.Errorf("inspect: %w", err)
	}
	type counts struct{ ready, consumers int }
	found := make(chan counts, 1)
	err := b.useQueue(ctx, "inspect queue "+queue, queue, func(c *amqp.Channel) error {
		q, err := c.QueueDeclarePassive(queue, true, false, false, false, nil)
		found <- counts{q.Messages, q.Consumers}
		return err
	})
	if err != nil {
		return broker.QueueInfo{}, err
	}
	q := <-found
	return broker.QueueInfo{Ready: q.ready, Consumers: q.consumers}, nil
}

// InspectExchange implements broker.Broker. The kind in the request does not matter, because the server compares only
// the name.
func (b *Broker) InspectExchange(ctx context.Context, exchange string) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	if err := checkName("exchange", exchange); err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return b.request(ctx, "inspect exchange "+exchange, "", func(c *amqp.Channel) error {
		return c.ExchangeDeclarePassive(exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	})
}

// useQueue runs f with a queue on a control channel, unless the server cannot use the queue.
func (b *Broker) useQueue(ctx context.Context, what, queue string, f func(*amqp.Channel) error) error {
	if err := b.cleared(ctx, queue, nil); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return b.request(ctx, what, queue, f)
}

// request runs f on a control channel. queue becomes a suspect if the server ends the connection with an internal
// error; empty: none. When ctx ends first, f goes on until the server answers or a heartbeat is missed. controlMax
// bounds how many can run.
func (b *Broker) request(ctx context.Context, what, queue string, f func(*amqp.Channel) error) error {
	s, err := b.consuming.get(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	select {
	case s.controls <- struct{}{}:
	case <-s.over:
		return b.closedOr(fmt.Errorf("%s: %w: %w", what, broker.ErrUnavailable, s.cause))
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.controls }()
		err := s.control(f)
		b.suspects.blame(queue, err)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return b.closedOr(asError(what, err))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// control runs f with a channel. The server closes the channel of a refused request, so a channel is not used again
// after an error.
func (s *session) control(f func(*amqp.Channel) error) error {
	var channel *amqp.Channel
	select {
	case channel = <-s.idle:
	default:
		var err error
		if channel, err = s.connection.Channel(); err != nil {
			return err
		}
	}
	if err := f(channel); err != nil {
		_ = channel.Close()
		return err
	}
	s.idle <- channel // there is room for every request under way
	return nil
}

// asError maps a server's refusal to the port's errors.
func asError(what string, err error) error {
	var answer *amqp.Error
	if !errors.As(err, &answer) || !answer.Server {
		return fmt.Errorf("%s: %w: %w", what, broker.ErrUnavailable, err)
	}
	switch {
	case answer.Code == notFound && strings.Contains(answer.Reason, "no queue"):
		return fmt.Errorf("%s: %w: %s", what, broker.ErrNoQueue, answer.Reason)
	case answer.Code == notFound && strings.Contains(answer.Reason, "no exchange"):
		return fmt.Errorf("%s: %w: %s", what, broker.ErrNoExchange, answer.Reason)
	case answer.Code == preconditionFailed:
		return fmt.Errorf("%s: %w: %s", what, broker.ErrPrecondition, answer.Reason)
	case answer.Code == accessRefused:
		return fmt.Errorf("%s: the user lacks a permission, see rabbitmqctl set_permissions: %w", what, err)
	case answer.Recover:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, broker.ErrUnavailable, err)
}

func checkName(kind, name string) error {
	if name == "" {
		return fmt.Errorf("%s: the name is empty", kind)
	}
	if len(name) > nameMax {
		return fmt.Errorf("%s %s…: the name has %d bytes, at most %d are allowed", kind, name[:32], len(name), nameMax)
	}
	return nil
}

func checkQueue(q broker.Queue) error {
	if err := checkName("queue", q.Name); err != nil {
		return fmt.Errorf("declare %w", err)
	}
	switch {
	case q.TTL < 0 || q.Expires < 0:
		return fmt.Errorf("declare queue %s: times must not be negative, got TTL %v and expires %v", q.Name, q.TTL, q.Expires)
	case q.MaxLength < 0 || q.DeliveryLimit < 0:
		return fmt.Errorf("declare queue %s: limits must not be negative, got length %d and deliveries %d",
			q.Name, q.MaxLength, q.DeliveryLimit)
	case q.DeliveryLimit > 0 && !q.Quorum:
		return fmt.Errorf("declare queue %s: only quorum queues have a delivery limit", q.Name)
	}
	return nil
}
