package rabbitmq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/broker"
)

// blockedGrace is how long a caller with messages under way still waits for confirms once the server accepts no more.
const blockedGrace = 250 * time.Millisecond

// Bounds of one message.
const (
	nameMax = 255      // bytes of a short string in AMQP 0-9-1
	bodyMax = 16 << 20 // bytes: the default of servers from version 4 on
)

// Publish implements broker.Broker. Messages to queues and messages to named exchanges use different channels, since an
// exchange that does not exist costs the channel, with the confirms of all its users.
//
// While the server accepts no messages (Status.Blocked) and while there is no connection, it returns
// broker.ErrUnavailable at once. A message without a confirm within ctx and Config.ConfirmTimeout is Unknown.
func (b *Broker) Publish(ctx context.Context, messages []broker.Message) ([]broker.Confirm, error) {
	if err := b.usable(ctx); err != nil || len(messages) == 0 {
		return unknown(len(messages)), err
	}
	lane := b.toQueues
	for i := range messages {
		if err := checkMessage(&messages[i]); err != nil {
			return unknown(len(messages)), fmt.Errorf("publish message %d of %d: %w", i+1, len(messages), err)
		}
		if messages[i].Exchange != "" {
			lane = b.toExchanges
		}
	}
	limited, cancel := context.WithTimeout(ctx, b.config.ConfirmTimeout)
	defer cancel()
	r := newRequest(messages)
	err := b.pass(limited, lane, r)
	confirms, cause := r.abandon()
	if err == nil {
		err = cause
	}
	if err != nil {
		err = b.closedOr(err)
	}
	return confirms, err
}

// pass gives the request to a lane and waits until it is settled or cannot be settled any more.
func (b *Broker) pass(ctx context.Context, lane chan<- *request, r *request) error {
	s, err := b.publishing.get(ctx)
	if err != nil {
		return err
	}
	shut, isShut, _ := s.gate.state()
	if isShut {
		return s.blocked()
	}
	select {
	case lane <- r:
		return s.follow(ctx, shut, r)
	case <-shut:
		return s.blocked()
	case <-s.over:
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, s.cause)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow waits for a request's confirms. A lane settles it at the latest when the connection is lost.
func (s *session) follow(ctx context.Context, shut <-chan struct{}, r *request) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-shut:
	}
	grace := time.NewTimer(blockedGrace)
	defer grace.Stop()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-grace.C:
		return s.blocked()
	}
}

func (s *session) blocked() error {
	_, _, reason := s.gate.state()
	return fmt.Errorf("%w: the server takes no messages: %s", broker.ErrUnavailable, reason)
}

func unknown(n int) []broker.Confirm {
	if n == 0 {
		return nil
	}
	return slices.Repeat([]broker.Confirm{broker.Unknown}, n)
}

func checkMessage(m *broker.Message) error {
	if len(m.Body) > bodyMax {
		return fmt.Errorf("%w: its body has %d bytes, at most %d are allowed", broker.ErrMessage, len(m.Body), bodyMax)
	}
	for name := range m.Headers {
		if err := checkShort("header's name", name); err != nil {
			return err
		}
	}
	if err := checkShort("exchange", m.Exchange); err != nil {
		return err
	}
	if err := checkShort("routing key", m.RoutingKey); err != nil {
		return err
	}
	if err := checkShort("id", m.ID); err != nil {
		return err
	}
	if err := checkShort("reply-to", m.ReplyTo); err != nil {
		return err
	}
	return checkShort("correlation id", m.CorrelationID)
}

func checkShort(what, text string) error {
	if len(text) > nameMax {
		return fmt.Errorf("%w: its %s has %d bytes, at most %d are allowed", broker.ErrMessage, what, len(text), nameMax)
	}
	return nil
}
