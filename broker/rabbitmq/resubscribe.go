package rabbitmq

import (
	"fmt"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// subscribe asks the server for deliveries, with the given number of them unsettled at most.
func (c *consumer) subscribe(prefetch int) error {
	c.tag = "troupe-" + uuid.NewString()
	if err := c.channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	from, err := c.channel.Consume(c.queue, c.tag, false, false, false, false, nil)
	c.from = from
	return err
}

// take passes a delivery on, or keeps it from the reader where too much is in hand. It goes back once the subscription has ended:
// before, the server would send it here again at once. False: the server broke the prefetch.
func (c *consumer) take(d amqp.Delivery) bool {
	if !c.window.arrive(len(d.Body)) {
		c.held++
		c.excess = append(c.excess, d.DeliveryTag)
		return true
	}
	return c.pass(d)
}

// giveBack returns what was too much.
func (c *consumer) giveBack() {
	for _, tag := range c.excess {
		c.give(tag, nackBack)
	}
	c.excess = nil
}

// adjust ends the subscription where another prefetch is due; what is on its way still comes. Without one it subscribes again
// once there is room. An error ends the consumer.
func (c *consumer) adjust() error {
	if c.leaving != nil {
		return nil
	}
	n, change := c.window.next()
	switch {
	case !change:
		return nil
	case c.from == nil:
		return c.again(n)
	}
	c.then, c.leaving = n, make(chan error, 1)
	channel, tag, left := c.channel, c.tag, c.leaving
	go func() { left <- channel.Cancel(tag, false) }() // beside run, which takes what comes before the answer
	return nil
}

// left hears that the deliveries have ended, and subscribes again where that was wanted. An error ends the consumer.
func (c *consumer) left() error {
	if c.leaving == nil {
		return c.reason()
	}
	err := <-c.leaving
	c.leaving, c.from = nil, nil
	if err != nil || c.channel.IsClosed() {
		return c.reason()
	}
	c.giveBack()
	if n := min(c.then, c.window.max-c.window.held); n > 0 && !c.window.over {
		return c.again(n)
	}
	c.window.subscribed(0)
	return c.adjust()
}

func (c *consumer) again(n int) error {
	if err := c.subscribe(n); err != nil {
		if c.channel.IsClosed() {
			return c.reason()
		}
		return asError("consume "+c.queue, err)
	}
	c.window.subscribed(n)
	c.session.logger.Trace("prefetch changed", "queue", c.queue, "prefetch", n, "unsettled", c.window.held)
	return nil
}

// errPrefetch ends a consumer whose server does not keep to the prefetch.
var errPrefetch = fmt.Errorf("%w: the server sent more than the prefetch", broker.ErrUnavailable)
