package rabbitmq

import (
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// flight is one message that waits for its confirm.
type flight struct {
	confirmation *amqp.DeferredConfirmation
	request      *request
	index        int
}

// collector waits for the confirms of one channel, in the order of publishing, and matches returned messages.
type collector struct {
	channel  *amqp.Channel
	flights  chan flight
	returns  chan amqp.Return
	returned map[uint64]struct{} // sequence numbers of returned messages that wait for their confirm
	closed   chan *amqp.Error
	cause    error // of the channel's end, once read
}

func newCollector(channel *amqp.Channel, window int) *collector {
	return &collector{
		channel: channel, flights: make(chan flight, window), returned: map[uint64]struct{}{},
		// Two more messages than flights holds can be under way. The library drops a return for which there is no room.
		returns: channel.NotifyReturn(make(chan amqp.Return, window+2)),
		closed:  channel.NotifyClose(make(chan *amqp.Error, 1)),
	}
}

// run settles flights until there are no more. The library resolves every confirmation, at the latest when the channel
// is closed.
func (c *collector) run() {
	for f := range c.flights {
		<-f.confirmation.Done()
		c.takeReturns()
		f.request.settle(f.index, c.outcome(f.confirmation), c.cause)
	}
}

// takeReturns reads the returns that have arrived. The server sends a message's return before its confirm, and one
// goroutine of the library passes both on. So a message's return is here before its confirmation is done.
func (c *collector) takeReturns() {
	for {
		select {
		case r, open := <-c.returns:
			if !open {
				c.returns = nil
				return
			}
			if tag, err := strconv.ParseUint(strings.TrimPrefix(r.AppId, tagPrefix), 10, 64); err == nil {
				c.returned[tag] = struct{}{}
			}
		default:
			return
		}
	}
}

// outcome returns the server's confirm. The library resolves confirmations with "no" when the channel is closed; that
// is not a nack.
func (c *collector) outcome(d *amqp.DeferredConfirmation) broker.Confirm {
	_, returned := c.returned[d.DeliveryTag]
	delete(c.returned, d.DeliveryTag)
	switch {
	case returned:
		return broker.Returned
	case d.Acked():
		return broker.Confirmed
	case !c.channel.IsClosed():
		return broker.Nacked
	}
	if c.cause == nil {
		c.cause = fmt.Errorf("%w: publishing channel closed: %w", broker.ErrUnavailable, closeReason(c.closed))
	}
	return broker.Unknown
}
