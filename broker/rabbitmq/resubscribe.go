package rabbitmq

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// joined is the server's answer to a subscription.
type joined struct {
	prefetch int
	tag      string
	from     <-chan amqp.Delivery
	err      error
}

// subscribe subscribes with the given prefetch.
func (c *consumer) subscribe(prefetch int) joined {
	j := joined{prefetch: prefetch, tag: "troupe-" + uuid.NewString()}
	if j.err = c.channel.Qos(prefetch, 0, false); j.err == nil {
		j.from, j.err = c.channel.Consume(c.queue, j.tag, false, false, false, false, nil)
	}
	return j
}

// take passes a delivery on, or keeps it back if too many bytes are unsettled. A kept delivery is given back once the
// subscription has ended; before that, the server would deliver it here again at once. It returns false if the server
// exceeded the prefetch.
func (c *consumer) take(d amqp.Delivery) bool {
	c.heard()
	if !c.window.arrive(len(d.Body)) {
		c.held++
		c.excess = append(c.excess, d.DeliveryTag)
		return true
	}
	return c.pass(d)
}

// giveBack gives back the deliveries that were kept back.
func (c *consumer) giveBack() {
	for _, tag := range c.excess {
		c.give(tag, nackBack)
	}
	c.excess = nil
}

// adjust ends the subscription if another prefetch is needed; deliveries on their way still arrive. Without a
// subscription, it subscribes again once there is room. An error ends the consumer.
func (c *consumer) adjust() error {
	if c.leaving != nil || c.joining != nil {
		return nil
	}
	n, change := c.window.next()
	switch {
	case !change:
		return nil
	case c.from == nil:
		c.again(n)
		return nil
	}
	c.then, c.leaving, c.late = n, make(chan error, 1), time.NewTimer(consumeMax)
	channel, tag, left := c.channel, c.tag, c.leaving
	go func() { left <- channel.Cancel(tag, false) }() // in parallel to run, which takes the deliveries before the answer
	return nil
}

// left handles the end of the deliveries, and subscribes again if a new prefetch was the reason. An error ends the
// consumer.
func (c *consumer) left() error {
	if c.leaving == nil {
		return c.reason()
	}
	err := <-c.leaving
	c.leaving, c.from = nil, nil
	c.answered()
	if err != nil || c.channel.IsClosed() {
		return c.reason()
	}
	c.giveBack()
	if n := min(c.then, c.window.max-c.window.held); n > 0 && !c.window.over {
		c.again(n)
		return nil
	}
	c.window.subscribed(0)
	return c.adjust()
}

// again subscribes in parallel to run, which goes on with settlements and gets the answer.
func (c *consumer) again(n int) {
	c.joining, c.late = make(chan joined, 1), time.NewTimer(consumeMax)
	answer := c.joining
	go func() { answer <- c.subscribe(n) }() // ends at the latest with the connection
}

// joined handles the answer to a subscription. An error ends the consumer.
func (c *consumer) joined(j joined) error {
	c.joining = nil
	c.answered()
	c.suspects.blame(c.queue, j.err)
	switch {
	case j.err != nil && c.channel.IsClosed():
		return c.reason()
	case j.err != nil:
		return asError("consume "+c.queue, j.err)
	}
	c.from, c.tag = j.from, j.tag
	c.window.subscribed(j.prefetch)
	c.session.logger.Trace("prefetch changed", "queue", c.queue, "prefetch", j.prefetch, "unsettled", c.window.held)
	return nil
}

// answered ends the wait for an answer.
func (c *consumer) answered() {
	if c.late != nil {
		c.late.Stop()
		c.late = nil
	}
}

// heard gives the awaited answer its whole time again: what the server has sent before it still arrives, and that may be many
// large deliveries on a slow connection. The prefetch bounds how many.
func (c *consumer) heard() {
	if c.late != nil {
		c.late.Reset(consumeMax)
	}
}

// lateness returns the timer's channel for the awaited answer; nil: none is awaited.
func (c *consumer) lateness() <-chan time.Time {
	if c.late == nil {
		return nil
	}
	return c.late.C
}

// silent ends a consumer whose server does not answer. Its queue may have no leader; it is tried alone before it is
// used again.
func (c *consumer) silent() error {
	c.suspects.suspect(c.queue)
	return fmt.Errorf("consume %s: %w: %w", c.queue, broker.ErrUnavailable, errSilent)
}

// await waits for the answer to a subscription, if one is under way. An error ends the consumer.
func (c *consumer) await() error {
	if c.joining == nil {
		return nil
	}
	select {
	case j := <-c.joining:
		return c.joined(j)
	case <-c.lateness():
		return c.silent()
	case <-c.session.over:
		return c.reason()
	}
}

// unanswered waits for the answer to the last request, or for the connection's end. Before that, the channel allows no
// other request.
func (c *consumer) unanswered() {
	c.answered()
	switch {
	case c.joining != nil:
		select {
		case j := <-c.joining:
			c.suspects.blame(c.queue, j.err)
		case <-c.session.over:
			c.suspects.blame(c.queue, c.session.cause)
		}
	case c.leaving != nil:
		select {
		case err := <-c.leaving:
			c.session.logger.Trace("the end of a subscription was answered late", "queue", c.queue, "error", err)
		case <-c.session.over:
		}
	}
}

// errPrefetch ends a consumer whose server exceeds the prefetch.
var errPrefetch = fmt.Errorf("%w: the server sent more than the prefetch", broker.ErrUnavailable)
