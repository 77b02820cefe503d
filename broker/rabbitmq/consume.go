package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// prefetchMax is the largest prefetch of AMQP 0-9-1, which counts in 16 bits.
const prefetchMax = 65535

// Consume implements broker.Broker. prefetch must be between 1 and 65535. Each consumer has a channel of its own on the
// consuming connection, which carries at most 2,047.
func (b *Broker) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	if prefetch < 1 || prefetch > prefetchMax {
		return nil, fmt.Errorf("consume %s: prefetch must be between 1 and %d, got %d", queue, prefetchMax, prefetch)
	}
	if err := checkName("queue", queue); err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	if err := b.cleared(ctx, queue, nil); err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	s, err := b.consuming.get(ctx)
	if err != nil {
		return nil, err
	}
	type answer struct {
		consumer *consumer
		err      error
	}
	answers := make(chan answer)
	limited, cancel := context.WithTimeout(ctx, consumeMax)
	go func() {
		defer cancel()
		c, err := subscribe(s, b.suspects, queue, prefetch)
		b.suspects.blame(queue, err)
		select {
		case answers <- answer{c, err}:
		case <-limited.Done():
			if err == nil {
				_ = c.Cancel() // the caller does not wait any more; the queue gets its messages back
			}
		}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, b.closedOr(a.err)
		}
		return a.consumer, nil
	case <-limited.Done():
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, ctx.Err())
	}
	b.suspects.suspect(queue)
	return nil, fmt.Errorf("consume %s: %w: %w", queue, broker.ErrUnavailable, errSilent)
}

// consumer is one subscription on a channel of its own. One goroutine does everything on that channel: it passes
// deliveries on and sends settlements.
//
// Neither of its two queues can fill. Both hold only unsettled deliveries, and the prefetch bounds these over all of
// its subscriptions (see window).
type consumer struct {
	queue      string
	tag        string
	session    *session
	suspects   *suspects
	channel    *amqp.Channel
	from       <-chan amqp.Delivery
	deliveries chan broker.Delivery
	settles    chan settlement
	cancels    chan string
	closes     chan *amqp.Error

	cancel    chan struct{} // closed by Cancel
	cancelled sync.Once
	ended     chan struct{} // closed when deliveries is
	over      atomic.Bool   // deliveries can no longer be settled
	err       atomic.Pointer[error]

	held        int // unsettled deliveries
	settledTags settledTags
	window      window
	excess      []uint64    // deliveries that the reader does not get; kept until the subscription has ended
	then        int         // the prefetch of the next subscription, while leaving
	leaving     chan error  // gets the answer to the cancel of the subscription; nil: none is under way
	joining     chan joined // gets the answer to the next subscription; nil: none is under way
	late        *time.Timer // bounds the wait for either answer; nil: neither is under way
}

func subscribe(s *session, suspects *suspects, queue string, prefetch int) (*consumer, error) {
	channel, err := s.connection.Channel()
	if errors.Is(err, amqp.ErrChannelMax) {
		return nil, fmt.Errorf("consume %s: all %d channels of the connection are taken: let workers share queues",
			queue, s.connection.Config.ChannelMax)
	}
	if err != nil {
		return nil, asError("consume "+queue, err)
	}
	c := &consumer{
		queue: queue, session: s, suspects: suspects, channel: channel, window: newWindow(prefetch),
		deliveries: make(chan broker.Delivery, prefetch), settles: make(chan settlement, prefetch),
		cancels: channel.NotifyCancel(make(chan string, 1)), closes: channel.NotifyClose(make(chan *amqp.Error, 1)),
		cancel: make(chan struct{}), ended: make(chan struct{}), settledTags: newSettledTags(),
	}
	first := c.subscribe(c.window.at)
	if first.err != nil {
		_ = channel.Close() // usually closed already
		return nil, asError("consume "+queue, first.err)
	}
	c.from, c.tag = first.from, first.tag
	if !s.join() {
		return nil, asError("consume "+queue, amqp.ErrClosed) // the channel ends with the connection
	}
	go c.run()
	return c, nil
}

// Deliveries implements broker.Consumer.
func (c *consumer) Deliveries() <-chan broker.Delivery { return c.deliveries }

// Err implements broker.Consumer. After the loss of the connection or the channel it is broker.ErrUnavailable with the
// reason.
func (c *consumer) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Cancel implements broker.Consumer. It waits until the server has stopped delivering, or the connection is lost.
func (c *consumer) Cancel() error {
	c.cancelled.Do(func() { close(c.cancel) })
	<-c.ended
	return nil
}

// run passes deliveries and settlements on until the consumer ends.
func (c *consumer) run() {
	defer c.session.consumers.Done()
	for {
		var err error
		select {
		case d, open := <-c.from:
			switch {
			case !open:
				err = c.left()
			case c.take(d):
				err = c.adjust()
			default:
				err = errPrefetch
			}
		case s := <-c.settles:
			c.settle(s)
			err = c.adjust()
		case _, told := <-c.cancels:
			if told {
				c.end(c.deleted())
				return
			}
			c.cancels = nil // closed with the channel; from reports that
		case j := <-c.joining:
			err = c.joined(j)
		case <-c.lateness():
			err = c.silent()
		case <-c.session.over:
			c.end(c.reason())
			return
		case <-c.cancel:
			c.stop()
			return
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// pass passes a delivery to the reader.
func (c *consumer) pass(d amqp.Delivery) bool {
	c.held++
	select {
	case c.deliveries <- broker.Delivery{
		Message: broker.Message{
			Exchange: d.Exchange, RoutingKey: d.RoutingKey, ID: d.MessageId, Headers: fromTable(d.Headers), Body: d.Body,
			ReplyTo: d.ReplyTo, CorrelationID: d.CorrelationId, Expiration: fromExpiration(d.Expiration),
		},
		Queue: c.queue, Redelivered: d.Redelivered, Deaths: deaths(d.Headers),
		Settler: &unsettled{consumer: c, tag: d.DeliveryTag, size: len(d.Body), serial: c.window.serial},
	}:
		return true
	default:
		return false
	}
}

// reason returns why the library ended the deliveries.
func (c *consumer) reason() error {
	select {
	case <-c.session.over:
		if errors.Is(c.session.cause, broker.ErrClosed) {
			return broker.ErrClosed
		}
		return fmt.Errorf("consume %s: %w: %w", c.queue, broker.ErrUnavailable, c.session.cause)
	default:
	}
	select {
	case _, told := <-c.cancels:
		if told {
			return c.deleted()
		}
	default:
	}
	return fmt.Errorf("consume %s: %w: %w", c.queue, broker.ErrUnavailable, closeReason(c.closes))
}

func (c *consumer) deleted() error {
	return fmt.Errorf("consume %s: %w: it was deleted, or went with its server", c.queue, broker.ErrNoQueue)
}

// end closes the channel. The server gives unsettled messages to others. Earlier settlements are sent.
func (c *consumer) end(err error) {
	c.err.Store(&err)
	c.over.Store(true)
	select {
	case s := <-c.settles:
		c.settle(s)
	default:
	}
	c.unread()
	close(c.deliveries)
	close(c.ended)
	c.unanswered()
	select {
	case <-c.session.over: // the connection closes with all channels
		if errors.Is(err, broker.ErrClosed) {
			_ = c.channel.Cancel(c.tag, false) // see the package doc: a server can lose settlements
		}
	default:
		_ = c.channel.Close() // it may be closed already
	}
}

// stop ends the deliveries but keeps the channel until every read delivery is settled.
func (c *consumer) stop() {
	if err := c.await(); err != nil {
		c.end(err)
		return
	}
	if c.from != nil && c.leaving == nil {
		if err := c.channel.Cancel(c.tag, false); err != nil {
			c.end(c.reason())
			return
		}
	}
	back := c.unread()
	if c.from != nil {
		for d := range c.from { // deliveries that the reader did not get
			c.held++
			back = append(back, d.DeliveryTag)
		}
	}
	close(c.deliveries)
	close(c.ended)
	for _, tag := range back {
		c.give(tag, nackBack)
	}
	c.giveBack()
	for c.held > 0 {
		select {
		case s := <-c.settles:
			c.settle(s)
		case err, told := <-c.closes:
			if told { // false if the channel was closed normally
				c.session.logger.Debug("channel of a cancelled consumer closed", "queue", c.queue, "unsettled", c.held, "error", err)
			}
			c.over.Store(true)
			return
		case <-c.session.over:
			c.over.Store(true)
			select {
			case s := <-c.settles:
				c.settle(s)
			default:
			}
			return
		}
	}
	c.over.Store(true)
	_ = c.channel.Close()
}

// unread removes the deliveries that the reader has not read, and returns their tags.
func (c *consumer) unread() []uint64 {
	var tags []uint64
	for {
		select {
		case d := <-c.deliveries:
			u := d.Settler.(*unsettled)
			u.done.Store(true)
			tags = append(tags, u.tag)
		default:
			return tags
		}
	}
}
