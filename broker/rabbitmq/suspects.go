package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// If RabbitMQ 3.10 is killed within about a second after a quorum queue was deleted and declared anew, it can restart
// with the queue's record but without its process ("could not be restarted {error,enoent}" in its log; the new queue's
// folder was probably not recorded yet). Declaring such a queue works. A message to it is nacked. Consuming from it
// costs the whole connection (541), which all other queues share. Deleting it and declaring it anew repairs it. More
// rarely a queue has no leader after a restart. Consuming from it then hangs for a minute before it costs the
// connection.
//
// So a queue that was in use when a connection ended that way is a suspect. Before its next use it is tried alone, on a
// separate connection.

const (
	// brokenRest is how long the adapter waits before it tries a broken queue again.
	brokenRest = 30 * time.Second
	// turnMax bounds the wait for other trials.
	turnMax = 10 * time.Second
	// trialMax is how long a trial waits for the server. A suspect without an answer counts like one that costs the
	// connection. removeMax bounds its removal, which takes 5 s where there is no leader.
	trialMax, removeMax = 5 * time.Second, 10 * time.Second
	// consumeMax is how long the server may take to answer a subscription before the queue is a suspect.
	consumeMax = 10 * time.Second
	// suspectsMax bounds the suspects. More are not recorded, and cost a connection again.
	suspectsMax = 10_000
)

// suspects holds the queues that are tried alone before their next use.
type suspects struct {
	turn chan struct{} // has one entry while a trial is under way

	mu     sync.Mutex
	broken map[string]time.Time // end of a suspect's wait for the next trial; zero: not tried yet
}

func newSuspects() *suspects {
	return &suspects{turn: make(chan struct{}, 1), broken: map[string]time.Time{}}
}

// blame makes a queue a suspect when its use ended with the server's internal error.
func (s *suspects) blame(queue string, err error) {
	if queue != "" && internal(err) {
		s.suspect(queue)
	}
}

func (s *suspects) suspect(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.broken[queue]; !known && len(s.broken) < suspectsMax {
		s.broken[queue] = time.Time{}
	}
}

// of returns whether a queue is a suspect, and the end of its wait.
func (s *suspects) of(queue string) (rest time.Time, suspect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, suspect = s.broken[queue]
	return rest, suspect
}

func (s *suspects) rest(queue string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[queue] = until
}

func (s *suspects) acquit(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, queue)
}

// internal reports whether the server ended the connection with an internal error.
func internal(err error) bool {
	var answer *amqp.Error
	return errors.As(err, &answer) && answer.Server && answer.Code == internalError
}

// cleared returns nil when a queue may be used on the shared connections. It tries a suspect first. If the server
// cannot use the queue, it deletes the queue and declares it anew, if the queue is being declared and expendable.
// Otherwise it returns broker.ErrBroken until the next trial. declared is nil for any use but a declaration.
func (b *Broker) cleared(ctx context.Context, queue string, declared *broker.Queue) error {
	if _, suspect := b.suspects.of(queue); !suspect {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, turnMax)
	defer cancel()
	select {
	case b.suspects.turn <- struct{}{}:
		defer func() { <-b.suspects.turn }()
	case <-limited.Done():
		return fmt.Errorf("try queue %s alone: %w: %w", queue, broker.ErrUnavailable, limited.Err())
	case <-b.closed.Done():
		return broker.ErrClosed
	}
	rest, suspect := b.suspects.of(queue)
	if !suspect {
		return nil
	}
	if time.Now().Before(rest) {
		return broken(queue)
	}
	return b.trySuspect(ctx, queue, declared)
}

// broken returns the error for a queue that cannot be used, with advice.
func broken(queue string) error {
	return fmt.Errorf("%w: %s: the server ends the connection of whoever uses it; %s", broker.ErrBroken, queue, broker.Unbreak)
}

// trySuspect tries a suspect alone.
func (b *Broker) trySuspect(ctx context.Context, queue string, declared *broker.Queue) error {
	logger := b.config.Logger.With("queue", queue)
	try := func(c *amqp.Channel) error { return tryQueue(c, queue, declared) }
	err := b.alone(ctx, "try queue "+queue, trialMax, try)
	if hopeless(err) && declared != nil && declared.Expendable {
		logger.Warn("the server cannot use a queue; it is deleted with what is in it, and declared anew", "error", err)
		err = b.alone(ctx, "delete queue "+queue, removeMax, func(c *amqp.Channel) error {
			_, err := c.QueueDelete(queue, false, false, false)
			return err
		})
		if err == nil {
			err = b.alone(ctx, "declare queue "+queue, trialMax, try)
		}
	}
	switch {
	case hopeless(err):
		logger.Error("the server cannot use a queue; it is left alone for a while", "for", brokenRest, "to_do", broker.Unbreak, "error", err)
		b.suspects.rest(queue, time.Now().Add(brokenRest))
		return broken(queue)
	case err != nil:
		return err // the error is not about the queue
	}
	b.suspects.acquit(queue)
	return nil
}

// tryQueue makes those uses of a queue that cost the connection where the server cannot use it. It gives back a message
// that it gets. A queue that does not exist, or may not be used, is no error here.
func tryQueue(c *amqp.Channel, queue string, declared *broker.Queue) error {
	var err error
	if declared != nil {
		_, err = c.QueueDeclare(queue, true, false, false, false, arguments(*declared))
	} else {
		_, err = c.QueueDeclarePassive(queue, true, false, false, false, nil)
	}
	if err == nil {
		err = c.Qos(1, 0, false)
	}
	if err == nil {
		_, err = c.Consume(queue, "", false, false, false, false, nil)
	}
	var answer *amqp.Error
	if errors.As(err, &answer) && answer.Server && answer.Recover {
		return nil
	}
	return err
}

// removeSuspect deletes a queue on a separate connection.
func (b *Broker) removeSuspect(ctx context.Context, what, queue string, remove func(*amqp.Channel) error) error {
	err := b.alone(ctx, what, removeMax, remove)
	if err == nil || errors.Is(err, broker.ErrNoQueue) {
		b.suspects.acquit(queue)
	}
	if hopeless(err) {
		return fmt.Errorf("%s: %w", what, broken(queue))
	}
	return err
}

// errSilent means that the server did not answer a trial in time.
var errSilent = errors.New("the server did not answer in time")

// hopeless reports whether the error of a trial shows that the server cannot use the queue.
func hopeless(err error) bool { return internal(err) || errors.Is(err, errSilent) }

// alone runs f on a new connection, within a time. The error is errSilent if that time ended before ctx.
func (b *Broker) alone(ctx context.Context, what string, within time.Duration, f func(*amqp.Channel) error) error {
	connection, err := b.config.dial(ctx, b.target, "trial")
	if err != nil {
		return fmt.Errorf("%s: %w: %w", what, broker.ErrUnavailable, err)
	}
	defer func() { _ = connection.CloseDeadline(time.Now().Add(closeMax)) }()
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stop := context.AfterFunc(limited, func() { _ = connection.CloseDeadline(time.Now()) })
	defer stop()
	channel, err := connection.Channel()
	if err == nil {
		err = f(channel)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && limited.Err() != nil:
		return fmt.Errorf("%s: %w", what, errSilent)
	}
	return asError(what, err)
}
