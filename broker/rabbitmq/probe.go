package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

// probeLife is how long a probe's queue exists if the probe could not delete it.
const probeLife = time.Minute

// Report is the result of Probe. A nil error means that the part works.
type Report struct {
	Product string // the server's own name: RabbitMQ
	Version string
	User    string
	Vhost   string
	// Configure, Write and Read are the rights to declare and delete, to publish and to consume, for names with the
	// prefix. If no queue could be declared, the rest is not tried.
	Configure, Write, Read error
	// Blocked is the server's reason for accepting no messages now, such as "low on memory"; empty: it accepts them.
	Blocked string
	// Quorum says whether the server has quorum queues.
	Quorum error
}

// Problems lists the problems, each with advice.
func (r Report) Problems() []error {
	var problems []error
	for _, p := range []struct {
		err  error
		what string
	}{
		{r.Configure, "the user may not declare queues: set_permissions' first pattern must match the prefix"},
		{r.Write, "the user may not publish to queues: set_permissions' second pattern must match the prefix and amq.default"},
		{r.Read, "the user may not consume: set_permissions' third pattern must match the prefix"},
		{r.Quorum, "the server has no quorum queues: set message_queue.rabbitmq.queue_type to classic"},
	} {
		if p.err != nil {
			problems = append(problems, fmt.Errorf("vhost %s, user %s: %s: %w", r.Vhost, r.User, p.what, p.err))
		}
	}
	return problems
}

// Probe connects once and tests what Troupe needs of a server. It uses its own queues, whose names begin with the
// prefix and ".probe.". It returns an error only when it cannot connect or ctx ends. The report says what is missing.
func Probe(ctx context.Context, c Config, prefix string) (Report, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return Report{}, err
	}
	t, err := newTarget(c)
	if err != nil {
		return Report{}, err
	}
	connection, err := c.dial(ctx, t, "probe")
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = connection.CloseDeadline(time.Now().Add(closeMax)) }()
	stop := context.AfterFunc(ctx, func() { _ = connection.CloseDeadline(time.Now()) })
	defer stop()
	blocked := connection.NotifyBlocked(make(chan amqp.Blocking, 1))
	r := Report{User: t.uri.Username, Vhost: t.uri.Vhost}
	r.Product, _ = connection.Properties["product"].(string)
	r.Version, _ = connection.Properties["version"].(string)
	probe{connection, prefix + ".probe." + uuid.NewString(), blocked}.run(ctx, &r)
	return r, ctx.Err()
}

// run tests everything. If no queue can be declared, the rest is not tested.
func (p probe) run(ctx context.Context, r *Report) {
	if r.Configure = p.declare(p.queue, false); r.Configure != nil {
		return
	}
	if r.Blocked, r.Write = p.publish(ctx); r.Blocked != "" {
		return // its queue expires
	}
	r.Read = p.get()
	r.Configure = p.delete(p.queue)
	quorum := p.queue + ".quorum"
	if r.Quorum = p.declare(quorum, true); r.Quorum == nil {
		r.Quorum = p.delete(quorum)
	}
}

type probe struct {
	connection *amqp.Connection
	queue      string
	blocked    <-chan amqp.Blocking
}

// try runs f on a new channel, since a refusal costs the channel.
func (p probe) try(what string, f func(*amqp.Channel) error) error {
	channel, err := p.connection.Channel()
	if err != nil {
		return asError(what, err)
	}
	defer channel.Close()
	if err := f(channel); err != nil {
		return asError(what, err)
	}
	return nil
}

func (p probe) declare(name string, quorum bool) error {
	return p.try("declare queue "+name, func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(name, true, false, false, false, arguments(broker.Queue{Quorum: quorum, Expires: probeLife}))
		return err
	})
}

func (p probe) delete(name string) error {
	return p.try("delete queue "+name, func(c *amqp.Channel) error {
		_, err := c.QueueDelete(name, false, false, false)
		return err
	})
}

// publish sends a message by the default exchange and waits for its confirm. A server under an alarm sends the reason
// instead.
func (p probe) publish(ctx context.Context) (blocked string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reason := make(chan string, 1)
	go func() {
		select {
		case b := <-p.blocked:
			if b.Active {
				reason <- b.Reason
				cancel()
				_ = p.connection.CloseDeadline(time.Now()) // a blocked server does not read from it
			}
		case <-ctx.Done():
		}
	}()
	err = p.send(ctx)
	select {
	case blocked = <-reason:
		return blocked, nil
	default:
		return "", err
	}
}

func (p probe) send(ctx context.Context) error {
	return p.try("publish to "+p.queue, func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		closed := c.NotifyClose(make(chan *amqp.Error, 1))
		confirmation, err := c.PublishWithDeferredConfirm("", p.queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
		if err != nil {
			return err
		}
		confirmed, err := confirmation.WaitContext(ctx)
		switch {
		case err != nil:
			return err
		case confirmed:
			return nil
		case c.IsClosed():
			return closeReason(closed)
		}
		return errors.New("the server refused the message, perhaps for an alarm")
	})
}

func (p probe) get() error {
	return p.try("read from "+p.queue, func(c *amqp.Channel) error {
		_, _, err := c.Get(p.queue, true)
		return err
	})
}
