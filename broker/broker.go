// Package broker is the port to the message broker that carries work to workers: queues with a time to live, dead
// letters, bounded prefetch, redelivery and publisher confirms, as in AMQP 0-9-1. The store and not the broker holds
// the state: the broker may lose, repeat or delay any message, and a message holds only identities. Adapters
// (broker/memory, broker/rabbitmq) pass the suite in broker/brokertest.
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
	// ErrMessage: a message exceeds a bound of the broker and can never be accepted. No message of the call was
	// published.
	ErrMessage = errors.New("message over the broker's bounds")
	// ErrBroken: the broker has the queue and cannot use it. An attempt to use it costs the connection. Callers go on
	// without the queue and try again later. They need not limit their tries: an adapter does not ask the broker each
	// time. Unbreak says what a person can do.
	ErrBroken = errors.New("the broker cannot use the queue")
)

// Unbreak tells a person how to repair a broken queue.
const Unbreak = "restart the broker; where that does not help, delete the queue with what is in it (rabbitmqctl delete_queue), " +
	"and it is declared anew within a minute"

// Broker is a connection to a broker. All methods are safe for concurrent use.
type Broker interface {
	// Declare makes the exchanges, queues and bindings, idempotently. If a queue exists with other arguments, the error
	// is ErrPrecondition and the queue does not change. Parts that were declared before an error stay declared.
	Declare(ctx context.Context, t Topology) error
	// Delete removes a queue with its messages; none is dead-lettered. It returns no error if the queue does not exist.
	Delete(ctx context.Context, queue string) error
	// Publish sends persistent, mandatory messages and waits for the confirm of each. It returns one confirm for each
	// message, in order, also with an error. The confirm is Unknown if none arrived. Only Confirmed means that a queue
	// has the message. A message to an exchange that does not exist is never Confirmed.
	Publish(ctx context.Context, messages []Message) ([]Confirm, error)
	// Consume starts a consumer with at most prefetch unsettled deliveries, 1 to 65535. An adapter may use a smaller
	// prefetch while it does not know the sizes of the messages, or while they are large, and may give back messages
	// for which it has no room. If the queue does not exist, the error is ErrNoQueue.
	Consume(ctx context.Context, queue string, prefetch int) (Consumer, error)
	// Inspect returns a queue's numbers of ready messages and of consumers, or ErrNoQueue. The numbers may lag behind.
	Inspect(ctx context.Context, queue string) (QueueInfo, error)
	// InspectExchange returns nil if the exchange exists, or ErrNoExchange.
	InspectExchange(ctx context.Context, exchange string) error
	// Status returns the state of the connections, without asking the broker.
	Status() Status
	// Close ends all consumers. Their unsettled messages are redelivered to others. Afterwards every method returns
	// ErrClosed; only a second Close returns nil.
	Close() error
}

// Status is the state of an adapter's connections.
type Status struct {
	Up bool // connected, for publishing and for consuming
	// Blocked: the broker accepts no messages for now (a memory or disk alarm). Consuming goes on.
	Blocked bool
	// Refused: the broker answered that it refuses the connection (user, password, virtual host, certificate), and never
	// accepted one before. Waiting does not help; a person must act.
	Refused bool
	Reason  string    // why it is not up, or why it is blocked; empty otherwise
	Since   time.Time // time of the last change; zero: since the start
}

// Consumer is one subscription.
type Consumer interface {
	// Deliveries returns a channel of messages. It is closed when the consumer ends; Err says why. Its buffer is
	// bounded by the prefetch.
	Deliveries() <-chan Delivery
	// Cancel stops deliveries. Deliveries that were read may still be settled. Those that were not read go back to the
	// queue. A second call does nothing.
	Cancel() error
	// Err returns why Deliveries was closed: nil after Cancel, ErrClosed after Close, ErrNoQueue when the queue was
	// removed.
	Err() error
}

// Delivery is one message that a consumer got. One call of Ack or Nack settles it. A second call, or one after the loss
// of the consumer's connection, returns ErrClosed and does nothing.
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
	// Nack gives the message back to the queue (requeue) or dead-letters it with the reason rejected.
	Nack(requeue bool) error
}

// Ack removes the message from its queue.
func (d Delivery) Ack() error { return d.Settler.Ack() }

// Nack gives the message back to the queue, or dead-letters it with the reason rejected.
func (d Delivery) Nack(requeue bool) error { return d.Settler.Nack(requeue) }

// Message is one message to publish. Do not change Headers and Body afterwards: an adapter need not copy them.
type Message struct {
	Exchange   string // empty: the default exchange, which routes by queue name
	RoutingKey string
	ID         string
	Headers    map[string]string
	Body       []byte
	// ReplyTo is the queue for the answer, and CorrelationID is repeated in the answer; empty: none.
	ReplyTo, CorrelationID string
	// Expiration, where positive, bounds this message's time in a queue. The lower of it and the queue's TTL holds. As
	// in RabbitMQ, a message expires only at the head of the ready messages.
	Expiration time.Duration
}

// Confirm is the broker's answer to one published message.
type Confirm uint8

// The confirms. Unknown means that the connection was lost first: the message may or may not have arrived.
const (
	Confirmed Confirm = iota + 1
	Returned          // no queue matched
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
	Expiration time.Duration // the message's own, which dead-lettering removes
}

// QueueInfo is the broker's count of a queue.
type QueueInfo struct {
	Ready     int // without unsettled messages
	Consumers int
}

// Topology describes exchanges, queues and bindings that must exist.
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
	// Quorum requests a replicated queue with at-least-once dead-lettering, where the broker has such queues.
	Quorum             bool
	TTL                time.Duration // of messages; 0: none
	DeadLetterExchange string        // empty: expired and rejected messages are dropped
	Expires            time.Duration // the queue is removed after this long without use; 0: never
	MaxLength          int           // publishing above it is nacked; 0: no bound
	DeliveryLimit      int           // redeliveries before dead-lettering; 0: no bound
	// Expendable allows an adapter to delete the queue with its messages and to declare it anew, where the broker
	// cannot use it (ErrBroken). The store knows what the messages said.
	Expendable bool
}

// Binding binds a queue to an exchange. Topic keys use * and #.
type Binding struct {
	Exchange, Queue, Key string
}
