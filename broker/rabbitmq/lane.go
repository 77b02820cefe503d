package rabbitmq

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// tagPrefix begins the app_id of a published message; the message's sequence number on its channel follows. A returned
// message has the same app_id. The message's own id cannot identify it, since callers may repeat it or leave it empty.
const tagPrefix = "troupe/"

// lane is one publishing channel of a session, owned by one goroutine. A second goroutine collects the confirms. The
// window bounds the messages between them. When the server closes the channel, the lane opens another.
type lane struct {
	session *session
	work    <-chan *request
	window  int
}

// run serves until the connection is lost.
func (l *lane) run() {
	defer l.session.lanes.Done()
	for {
		channel, err := l.session.connection.Channel()
		if err == nil {
			err = channel.Confirm(false)
		}
		if err != nil {
			// Without a channel it cannot publish, so it closes the connection, and the link makes another.
			_ = l.session.connection.CloseDeadline(time.Now().Add(closeMax))
			return
		}
		l.serve(channel)
		if l.session.connection.IsClosed() {
			return
		}
	}
}

// serve publishes until the channel is closed.
func (l *lane) serve(channel *amqp.Channel) {
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	c := newCollector(channel, l.window)
	var collecting sync.WaitGroup
	collecting.Go(c.run)
	defer collecting.Wait()
	defer close(c.flights)
	sent := uint64(0)
	for {
		select {
		case r := <-l.work:
			n, err := publishAll(channel, r, sent, c.flights)
			sent += uint64(n)
			if err != nil {
				refuse(r, n, err)
				return
			}
		case err, told := <-closed:
			if told { // false if the channel was closed normally
				l.session.logger.Debug("publishing channel closed", "error", err)
			}
			return
		}
	}
}

// publishAll sends a request's messages while its caller waits, and returns how many it sent. sent is how many the
// channel has carried before.
func publishAll(channel *amqp.Channel, r *request, sent uint64, flights chan<- flight) (int, error) {
	for i := range r.messages {
		if r.abandoned() {
			return i, nil
		}
		m := &r.messages[i]
		sent++
		confirmation, err := channel.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, publishing(m, sent))
		if err != nil {
			return i, err
		}
		flights <- flight{confirmation, r, i} // waits for room in the window; every flight ends, at the latest with the channel
	}
	return len(r.messages), nil
}

// refuse settles a request's messages from first on, which were not sent.
func refuse(r *request, first int, err error) {
	for i := first; i < len(r.messages); i++ {
		r.settle(i, broker.Unknown, fmt.Errorf("%w: publish: %w", broker.ErrUnavailable, err))
	}
}

func publishing(m *broker.Message, tag uint64) amqp.Publishing {
	return amqp.Publishing{
		Headers: toTable(m.Headers), DeliveryMode: amqp.Persistent, CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo,
		Expiration: toExpiration(m.Expiration), MessageId: m.ID, AppId: tagPrefix + strconv.FormatUint(tag, 10), Body: m.Body,
	}
}

// closeReason returns the error in the notification of a closed channel or connection.
func closeReason(closed <-chan *amqp.Error) error {
	select {
	case err, told := <-closed:
		if told {
			return err
		}
	default:
	}
	return errors.New("connection closed")
}
