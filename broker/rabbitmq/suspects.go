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

// RabbitMQ 3.10, killed within a second or so after a quorum queue was deleted and declared anew, can come back with the
// queue's record and without what serves it ("could not be restarted {error,enoent}" in its log; as it seems, the new queue's
// folder was not yet on record). To declare such a queue works, a message to it is nacked, and to consume from it
// costs the whole connection (541), with which all other queues suffer. To delete it and to declare it anew mends it. More
// rarely a queue comes back without a leader; to consume from it then hangs for a minute before it costs the connection.
//
// So a queue that was being used when a connection ended that way is a suspect: before its next use it is tried
// alone, on a connection of the trial's own.

const (
	// brokenRest is how long a queue that the server cannot use is left alone before it is tried again.
	brokenRest = 30 * time.Second
	// turnMax bounds the wait for the trials of others.
	turnMax = 10 * time.Second
	// trialMax is how long a trial waits for the server. A suspect for which it does not answer is as bad as one that costs
	// the connection; removeMax bounds its removal, which takes 5 s where there is no leader.
	trialMax, removeMax = 5 * time.Second, 10 * time.Second
	// consumeMax is how long the server may take to let somebody consume before the queue is a suspect.
	consumeMax = 10 * time.Second
	// suspectsMax bounds the suspects; more are not kept in mind, and cost a connection again.
	suspectsMax = 10_000
)

// suspects are the queues to be tried alone before they are used.
type suspects struct {
	turn chan struct{} // holds one while a trial is under way

	mu     sync.Mutex
	broken map[string]time.Time // when a suspect's rest is over; zero: it has not been tried
}

func newSuspects() *suspects {
	return &suspects{turn: make(chan struct{}, 1), broken: map[string]time.Time{}}
}

// blame makes a queue a suspect when what was done with it ended with the server's internal error.
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

// of returns whether a queue is a suspect, and when its rest is over.
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

// internal reports whether the server ended the connection over an error of its own.
func internal(err error) bool {
	var answer *amqp.Error
	return errors.As(err, &answer) && answer.Server && answer.Code == internalError
}

// cleared returns nil when a queue may be used on the connections that all share. A suspect is tried first. Where the
// server cannot use it, it is deleted and declared anew if it is to be declared and expendable, and otherwise
// broker.ErrBroken until the next trial. declared is nil where it is used for anything else.
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
	return b.judge(ctx, queue, declared)
}

// broken says that a queue cannot be used, and what to do about it.
func broken(queue string) error {
	return fmt.Errorf("%w: %s: the server ends the connection of whoever uses it; %s", broker.ErrBroken, queue, broker.Unbreak)
}

// judge tries a suspect alone.
func (b *Broker) judge(ctx context.Context, queue string, declared *broker.Queue) error {
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
		return err // which says nothing of the queue
	}
	b.suspects.acquit(queue)
	return nil
}

// tryQueue uses a queue in the ways that cost the connection where the server cannot use it. A message that comes with it
// goes back. A queue that is not there, or may not be used, is for the caller to find out.
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

// removeSuspect deletes a queue on a connection of its own.
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

// errSilent is that the server did not answer in time what was done alone.
var errSilent = errors.New("the server did not answer in time")

// hopeless reports whether what was done alone shows that the server cannot use the queue.
func hopeless(err error) bool { return internal(err) || errors.Is(err, errSilent) }

// alone does one thing on a connection of its own, within a time. errSilent tells that it was over before ctx was.
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
