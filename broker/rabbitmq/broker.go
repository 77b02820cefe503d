package rabbitmq

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/rules/throttle"
)

// Broker is a pair of connections to a RabbitMQ server. All methods are safe for concurrent use.
type Broker struct {
	config      Config
	publishing  *link
	consuming   *link
	toQueues    chan *request // requests for the lanes of the default exchange
	toExchanges chan *request // requests for the lane of named exchanges
	target      target
	suspects    *suspects

	cancel context.CancelFunc
	links  sync.WaitGroup
	closed context.Context // done once Close has been called

	mu     sync.Mutex
	status broker.Status
	alarms throttle.Alarm // a server near its limit starts and ends an alarm many times a second
}

var _ broker.Broker = (*Broker)(nil)

// Open makes a broker and connects it. For invalid settings it returns an error that names each of them. An unavailable
// server is an error only if Config.WaitAtOpen is set. Otherwise the broker connects when it can, and Status shows the
// state.
func Open(ctx context.Context, c Config) (*Broker, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	t, err := newTarget(c)
	if err != nil {
		return nil, err
	}
	b := &Broker{
		config: c, publishing: newLink("publish", c, t), consuming: newLink("consume", c, t),
		toQueues: make(chan *request), toExchanges: make(chan *request), target: t, suspects: newSuspects(),
	}
	b.closed, b.cancel = context.WithCancel(context.Background())
	b.publishing.noted, b.consuming.noted, b.publishing.start = b.note, b.note, b.startLanes
	b.status = b.stand()
	b.links.Go(func() { b.publishing.run(b.closed) })
	b.links.Go(func() { b.consuming.run(b.closed) })
	if c.WaitAtOpen {
		if err := b.await(ctx); err != nil {
			_ = b.Close()
			return nil, err
		}
	}
	return b, nil
}

// await waits for the outcome of the first attempts to connect.
func (b *Broker) await(ctx context.Context) error {
	for _, l := range []*link{b.consuming, b.publishing} {
		if _, err := l.get(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) startLanes(s *session) {
	for range b.config.PublishChannels {
		s.lanes.Add(1)
		go (&lane{session: s, work: b.toQueues, window: b.config.PublishWindow}).run()
	}
	s.lanes.Add(1)
	go (&lane{session: s, work: b.toExchanges, window: b.config.exchangeWindow}).run()
}

// Status implements broker.Broker. A server reports an alarm only to a connection that publishes, so Blocked is set
// after the first message that the server did not accept.
func (b *Broker) Status() broker.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// note updates the status.
func (b *Broker) note() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.stand()
	if now.Up == b.status.Up && now.Blocked == b.status.Blocked && now.Reason == b.status.Reason {
		return
	}
	at := time.Now()
	switch {
	case now.Blocked == b.status.Blocked:
	case now.Blocked:
		if pass, withheld := b.alarms.Begin(at); pass {
			b.config.Logger.Warn("the broker takes no messages", append(throttle.LeftOut(withheld), "reason", now.Reason)...)
		}
	case b.alarms.End():
		b.config.Logger.Info("the broker is not blocking any more")
	}
	now.Since = at
	b.status = now
}

// stand returns the status from the state of the links, without its time.
func (b *Broker) stand() broker.Status {
	publishing, published, noPublish := b.publishing.stand()
	_, consumed, noConsume := b.consuming.stand()
	if down := cmp.Or(noConsume, noPublish); down != nil {
		return broker.Status{Reason: down.Error(), Refused: !published && !consumed && refused(down)}
	}
	if _, shut, reason := publishing.gate.state(); shut {
		return broker.Status{Up: true, Blocked: true, Reason: reason}
	}
	return broker.Status{Up: true}
}

// Close implements broker.Broker. Earlier settlements are sent. A second call does nothing.
func (b *Broker) Close() error {
	b.cancel()
	b.links.Wait()
	return nil
}

func (b *Broker) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.isClosed() {
		return broker.ErrClosed
	}
	return nil
}

func (b *Broker) isClosed() bool { return b.closed.Err() != nil }

// closedOr returns broker.ErrClosed if the broker was closed meanwhile, else err.
func (b *Broker) closedOr(err error) error {
	if b.isClosed() {
		return broker.ErrClosed
	}
	return err
}
