package faulty

import (
	"context"

	"github.com/troupe-run/troupe/broker"
)

// Consume implements broker.Broker. Some settlements of its deliveries are delayed.
func (f *Broker) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	inner, err := f.Broker.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	c := &consumer{
		Consumer: inner, broker: f, out: make(chan broker.Delivery, prefetch), done: make(chan struct{}),
	}
	f.mu.Lock()
	f.consumers[c] = true
	f.mu.Unlock()
	go c.pass()
	return c, nil
}

// Close implements broker.Broker.
func (f *Broker) Close() error {
	err := f.Broker.Close()
	f.mu.Lock()
	consumers := f.consumers
	f.consumers = map[*consumer]bool{}
	f.mu.Unlock()
	for c := range consumers {
		c.end()
	}
	return err
}

// consumer passes deliveries on. Its channel never fills, since the prefetch bounds the unsettled deliveries.
type consumer struct {
	broker.Consumer
	broker *Broker
	out    chan broker.Delivery
	done   chan struct{} // closed after out
}

// Deliveries implements broker.Consumer.
func (c *consumer) Deliveries() <-chan broker.Delivery { return c.out }

// Cancel implements broker.Consumer.
func (c *consumer) Cancel() error {
	err := c.Consumer.Cancel()
	c.end()
	return err
}

// end waits until the wrapped consumer has ended, and gives back the deliveries that were not read.
func (c *consumer) end() {
	<-c.done
	for d := range c.out {
		_ = d.Nack(true) // a lost connection gives it back too
	}
}

// pass passes deliveries on until the wrapped consumer ends.
func (c *consumer) pass() {
	defer close(c.done)
	defer close(c.out)
	for d := range c.Consumer.Deliveries() {
		if c.broker.hooks.drop(d) {
			continue
		}
		d.Settler = late{d.Settler, c.broker}
		c.out <- d
	}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	delete(c.broker.consumers, c)
}

// late delays some settlements.
type late struct {
	broker.Settler
	broker *Broker
}

// Ack implements broker.Settler.
func (l late) Ack() error {
	_ = l.broker.linger(context.Background()) // only its own delay ends it
	return l.Settler.Ack()
}

// Nack implements broker.Settler.
func (l late) Nack(requeue bool) error {
	_ = l.broker.linger(context.Background()) // as above
	return l.Settler.Nack(requeue)
}
