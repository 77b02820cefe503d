// Package broker is the port to what carries work to workers: queues with a time to live, dead letters, bounded
// prefetch, redelivery and publisher confirms, in the sense of AMQP 0-9-1. The broker is never the truth: it may
// lose, repeat or delay anything, and every message carries only identities. Adapters (broker/memory,
// broker/rabbitmq) pass the suite in broker/brokertest.
package broker

import (
	"context"
	"errors"
	"time"
)

// Errors that callers branch on.
var (
	ErrClosed       = errors.New("broker is closed")
	ErrUnavailable  = errors.New("broker is unavailable")
	ErrPrecondition = errors.New("queue exists with other arguments")
	ErrNoQueue      = errors.New("no such queue")
	ErrNoExchange   = errors.New("no such exchange")
	// ErrMessage: a message that the broker can never take, as it is over a bound. Nothing of the call was published.
	ErrMessage = errors.New("message over the broker's bounds")
	// ErrBroken: the broker has the queue and cannot use it, and whoever tries loses the connection. Callers go on without
	// it and try again later, at their own pace: an adapter does not ask the broker each time. Unbreak says what a person
	// can do.
	ErrBroken = errors.New("the broker cannot use the queue")
)

// Unbreak is what to do about a queue that is broken.
const Unbreak = "restart the broker; where that does not help, delete the queue with what is in it (rabbitmqctl delete_queue), " +
	"and it is declared anew within a minute"

// Broker is a connection to a broker. All methods are safe for concurrent use.
type Broker interface {
	// Declare makes the exchanges, queues and bindings, idempotently. A queue that exists with other arguments is
	// ErrPrecondition and stays as it is. What comes before an error stays declared.
	Declare(ctx context.Context, t Topology) error
	// Delete removes a queue with what is in it; nothing is dead-lettered. A queue that is not there is no error.
	Delete(ctx context.Context, queue string) error
	// Publish sends persistent, mandatory messages and waits for the broker's word on each. There is one confirm
	// for every message, in their order, whatever the error; Unknown where no word came. Only Confirmed means that
	// a queue has it. An exchange that does not exist is never Confirmed.
	Publish(ctx context.Context, messages []Message) ([]Confirm, error)
	// Consume starts a consumer with at most prefetch unsettled deliveries, 1 to 65535. An adapter may have fewer on their
	// way while it does not know that they are small, or knows that they are not, and give back what it has no room for. A
	// queue that is not there is ErrNoQueue.
	Consume(ctx context.Context, queue string, prefetch int) (Consumer, error)
	// Inspect counts a queue's ready messages and consumers, or ErrNoQueue. The counts may lag behind.
	Inspect(ctx context.Context, queue string) (QueueInfo, error)
	// InspectExchange returns nil where the exchange exists, or ErrNoExchange.
	InspectExchange(ctx context.Context, exchange string) error
	// Status is how the connections stand, without asking the broker.
	Status() Status
	// Close ends all consumers; what they held unsettled is redelivered to others. Afterwards every method returns
	// ErrClosed, but a second Close nil.
	Close() error
}

// Status is how an adapter stands with its broker.
type Status struct {
	Up bool // connected, for publishing and for consuming
	// Blocked: the broker takes no messages for now (a memory or disk alarm); consuming goes on.
	Blocked bool
	// Refused: the broker answers and does not let us in (user, password, virtual host, certificate). Waiting does not
	// help, though a person may.
	Refused bool
	Reason  string    // why it is not up, or why it is blocked; empty otherwise
	Since   time.Time // of the last change; zero: from the start
}

// Consumer is one subscription.
type Consumer interface {
	// Deliveries yields messages until the consumer ends; it is closed then. Err says why. Its buffer is bounded by
	// the prefetch.
	Deliveries() <-chan Delivery
	// Cancel stops deliveries. What was read from Deliveries may still be settled; what was not goes back to the
	// queue. A second call does nothing.
	Cancel() error
	// Err is why Deliveries was closed: nil after Cancel, ErrClosed after Close, ErrNoQueue when the queue has gone.
	Err() error
}

// Delivery is one message in a consumer's hands. Exactly one of Ack and Nack settles it; a second call, or one
// after the consumer's connection has gone, returns ErrClosed and does nothing.
type Delivery struct {
	Message
	Queue       string
	Redelivered bool
	Deaths      []Death // newest first
	Settler     Settler
}

// Settler settles one delivery.
type Settler interface {
	Ack() error
	// Nack gives the message back (requeue) or dead-letters it with reason rejected.
	Nack(requeue bool) error
}

// Ack takes the message off its queue.
func (d Delivery) Ack() error { return d.Settler.Ack() }

// Nack gives the message back, or dead-letters it with reason rejected.
func (d Delivery) Nack(requeue bool) error { return d.Settler.Nack(requeue) }

// Message is what is published. Headers and Body must not be changed afterwards: an adapter need not copy them.
type Message struct {
	Exchange   string // empty: the default exchange, which routes by queue name
	RoutingKey string
	ID         string
	Headers    map[string]string
	Body       []byte
	// ReplyTo is the queue that a publisher wants an answer on, and CorrelationID what the answer repeats; empty: none.
	ReplyTo, CorrelationID string
	// Expiration, where positive, bounds the time in a queue, for this message; the lower of it and the queue's
	// TTL holds. As in RabbitMQ it takes effect when the message is at the head of the ready messages.
	Expiration time.Duration
}

// Confirm is the broker's word on one published message.
type Confirm uint8

// The confirms. Unknown means that the connection went first: the message may or may not be there.
const (
	Confirmed Confirm = iota + 1
	Returned          // no queue took it
	Nacked            // refused: the queue is full
	Unknown
)

// DeathReason is why a message was dead-lettered.
type DeathReason string

// The reasons, as in the x-death header.
const (
	DeathExpired       DeathReason = "expired"
	DeathRejected      DeathReason = "rejected"
	DeathMaxLen        DeathReason = "maxlen"
	DeathDeliveryLimit DeathReason = "delivery_limit"
)

// Death is one entry of a message's dead-letter history.
type Death struct {
	Reason     DeathReason
	Queue      string
	Exchange   string
	RoutingKey string
	At         time.Time
	Count      int
	Expiration time.Duration // the message's own, removed when it was dead-lettered
}

// QueueInfo is a queue's depth as the broker counts it.
type QueueInfo struct {
	Ready     int // not the unsettled ones
	Consumers int
}

// Topology is what must exist, as data.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// ExchangeKind is the routing rule of an exchange.
type ExchangeKind string

// The kinds of exchange Troupe uses.
const (
	Fanout ExchangeKind = "fanout"
	Topic  ExchangeKind = "topic"
	Direct ExchangeKind = "direct"
)

// Exchange is one durable exchange.
type Exchange struct {
	Name string
	Kind ExchangeKind
}

// Queue is one durable queue.
type Queue struct {
	Name string
	// Quorum asks for a replicated queue with at-least-once dead-lettering, where the broker has such.
	Quorum             bool
	TTL                time.Duration // of messages; 0: none
	DeadLetterExchange string        // empty: expired and rejected messages are dropped
	Expires            time.Duration // the queue itself goes after this long without use; 0: never
	MaxLength          int           // then publishing is nacked; 0: no bound
	DeliveryLimit      int           // redeliveries before dead-lettering; 0: no bound
	// Expendable allows to delete the queue with what is in it, and to declare it anew, where the broker cannot use it
	// (ErrBroken): somebody else knows what was in it.
	Expendable bool
}

// Binding binds a queue to an exchange. Topic keys use * and #.
type Binding struct {
	Exchange, Queue, Key string
}
