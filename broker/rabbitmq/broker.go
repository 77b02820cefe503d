package rabbitmq

import (
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
	toQueues    chan *request // to the lanes for the default exchange
	toExchanges chan *request // to the lane for named exchanges
	target      target
	suspects    *suspects

	cancel context.CancelFunc
	links  sync.WaitGroup
	closed context.Context // done once Close has been called

	mu     sync.Mutex
	status broker.Status
	alarms throttle.Alarm // a server near its limit raises and ends one many times a second
}

var _ broker.Broker = (*Broker)(nil)

// Open makes a broker and connects it. Settings that cannot work are an error at once, each named. A server that is away
// is none, unless Config.WaitAtOpen is set: the broker then connects when it can, and Status says how it stands.
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

// await waits for the outcome of the first attempts.
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

// Status implements broker.Broker. A server that raises an alarm says so only to a connection that publishes, so Blocked
// is shown from the first message on that it did not take.
func (b *Broker) Status() broker.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// note brings the status up to date.
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

// stand is the status by what the links say, without its time.
func (b *Broker) stand() broker.Status {
	publishing, noPublish := b.publishing.stand()
	_, noConsume := b.consuming.stand()
	switch {
	case noConsume != nil:
		return broker.Status{Reason: noConsume.Error(), Refused: refused(noConsume)}
	case noPublish != nil:
		return broker.Status{Reason: noPublish.Error(), Refused: refused(noPublish)}
	}
	if _, shut, reason := publishing.gate.state(); shut {
		return broker.Status{Up: true, Blocked: true, Reason: reason}
	}
	return broker.Status{Up: true}
}

// Close implements broker.Broker. Settlements made before are sent. A second call does nothing.
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

// closedOr is broker.ErrClosed where the broker was closed meanwhile, else err.
func (b *Broker) closedOr(err error) error {
	if b.isClosed() {
		return broker.ErrClosed
	}
	return err
}
