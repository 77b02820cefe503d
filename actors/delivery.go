package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
)

// Messages of the delivery bridge.
type (
	// Attach asks for the deliveries of a queue, which is declared first. Answers: Attached, then Delivered.
	Attach struct {
		Queue    string
		Prefetch int
		Topology broker.Topology
		Pool     *actor.PID
	}
	// Detach ends a queue's deliveries. What is unsettled may still be settled.
	Detach struct{ Queue string }
	// Reattach says that the broker is back: what waits to be attached again is, at once.
	Reattach struct{}
	// Attached says that a queue delivers, or has ceased to.
	Attached struct {
		Queue string
		OK    bool
	}
	// Delivered brings messages of one queue, oldest first.
	Delivered struct {
		Queue      string
		Deliveries []broker.Delivery
	}
)

// deliveredMax bounds the messages of one Delivered.
const deliveredMax = 256

// attachWait is how long the bridge waits before it attaches again to a queue that it lost, doubling up to attachWaitMax
// while that fails; declareMax bounds one declaration.
const (
	attachWait    = 250 * time.Millisecond
	attachWaitMax = 4 * time.Second
	declareMax    = 30 * time.Second
)

// attachDue says that a delivery bridge that failed may have been started again.
type attachDue struct{}

// attachTo asks the delivery bridge for a queue and watches it: when it ends, the actor gets Terminated.
func attachTo(ctx actor.Context, delivery *actor.PID, a *Attach) {
	ctx.Watch(delivery)
	ctx.Send(delivery, a)
}

// attachLater answers that Terminated, until the actor itself ends: the next bridge knows nothing of who was attached.
func attachLater(ctx actor.Context, system *System) {
	self := ctx.Self()
	time.AfterFunc(attachWait, func() { system.Send(self, &attachDue{}) })
}

// DeliveryConfig is what the bridge needs.
type DeliveryConfig struct {
	System *System
	Broker broker.Broker
	Logger hclog.Logger
}

// Delivery is the bridge from the broker's deliveries to the pools: one consumer a queue, attached again whenever it
// ends by itself. Prefetch bounds what is under way.
type Delivery struct {
	cfg       DeliveryConfig
	cell      *Cell
	ctx       context.Context
	cancel    context.CancelFunc
	consumers map[string]*consumption
	serial    int // of the last consumption, over all queues
}

type consumption struct {
	attach *Attach
	cancel context.CancelFunc
	serial int
	tries  int // in a row that delivered nothing
	waits  bool
}

// attachEnded says that a consumer has ended or could not be made.
type attachEnded struct {
	queue    string
	serial   int
	attached bool // it had been made
	err      error
}

type attachAgain struct {
	queue  string
	serial int
}

// NewDelivery returns the child to spawn.
func NewDelivery(cfg DeliveryConfig) Child {
	cell := &Cell{}
	return Child{Name: "delivery", Kind: "bridge", Cell: cell, New: func() actor.Actor {
		return &Delivery{cfg: cfg, cell: cell, consumers: map[string]*consumption{}}
	}}
}

// Receive implements actor.Actor.
func (d *Delivery) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.ctx, d.cancel = context.WithCancel(context.Background())
	case *actor.Stopping:
		d.cancel()
	case *actor.Stopped:
	case *Attach:
		d.attach(ctx, m)
	case *Detach:
		d.detach(m.Queue)
	case *Reattach:
		d.reattach(ctx)
	case *attachEnded:
		d.ended(ctx, m)
	case *attachAgain:
		if c := d.consumers[m.queue]; c != nil && c.serial == m.serial {
			d.attach(ctx, c.attach)
		}
	default:
		d.cfg.System.Registry.Unknown(ctx)
	}
}

func (d *Delivery) attach(ctx actor.Context, a *Attach) {
	tries := 0
	if old := d.consumers[a.Queue]; old != nil {
		old.cancel()
		tries = old.tries
	}
	d.serial++
	c := &consumption{attach: a, serial: d.serial, tries: tries}
	var running context.Context
	running, c.cancel = context.WithCancel(d.ctx)
	d.consumers[a.Queue] = c
	self, system := ctx.Self(), d.cfg.System
	end := &attachEnded{queue: a.Queue, serial: c.serial}
	go func() {
		defer system.Carry(self)
		end.attached, end.err = d.consume(running, a)
		system.Send(self, end)
	}()
}

// reattach attaches at once what waits for its next try.
func (d *Delivery) reattach(ctx actor.Context) {
	for _, c := range d.consumers {
		if c.waits {
			d.attach(ctx, c.attach)
		}
	}
}

func (d *Delivery) detach(queue string) {
	if c := d.consumers[queue]; c != nil {
		c.cancel()
		delete(d.consumers, queue)
	}
}

func (d *Delivery) ended(ctx actor.Context, m *attachEnded) {
	c := d.consumers[m.queue]
	if c == nil || c.serial != m.serial {
		return
	}
	ctx.Send(c.attach.Pool, &Attached{Queue: m.queue})
	if errors.Is(m.err, broker.ErrClosed) {
		return
	}
	c.waits = true
	wait := min(attachWait<<min(c.tries, 8), attachWaitMax)
	if c.tries++; m.attached {
		c.tries, wait = 0, attachWait
	}
	level := hclog.Warn
	if !d.cfg.Broker.Status().Up || errors.Is(m.err, broker.ErrBroken) {
		level = hclog.Debug // that the broker is away is told once, not for each of its queues; of a broken one the adapter tells
	}
	d.cfg.Logger.Log(level, "queue no longer delivers, attaching again", "queue", m.queue, "after", wait, "error", m.err)
	self, system := ctx.Self(), d.cfg.System
	again := &attachAgain{queue: m.queue, serial: m.serial}
	time.AfterFunc(wait, func() { system.Send(self, again) })
}

// consume declares the queue and passes its deliveries on, as many as there are at a time, until ctx or the consumer
// ends. It reports whether the queue delivered at all.
func (d *Delivery) consume(ctx context.Context, a *Attach) (attached bool, err error) {
	limited, cancel := context.WithTimeout(ctx, declareMax)
	defer cancel()
	if err := d.cfg.Broker.Declare(limited, a.Topology); err != nil {
		return false, err
	}
	consumer, err := d.cfg.Broker.Consume(ctx, a.Queue, a.Prefetch)
	if err != nil {
		return false, err
	}
	d.cfg.System.Send(a.Pool, &Attached{Queue: a.Queue, OK: true})
	for {
		select {
		case first, open := <-consumer.Deliveries():
			if !open {
				return true, consumer.Err()
			}
			d.cfg.System.Send(a.Pool, &Delivered{Queue: a.Queue, Deliveries: more(first, consumer.Deliveries())})
		case <-ctx.Done():
			return true, errors.Join(consumer.Cancel(), ctx.Err())
		}
	}
}

// more takes what else is there already.
func more(first broker.Delivery, from <-chan broker.Delivery) []broker.Delivery {
	batch := []broker.Delivery{first}
	for len(batch) < deliveredMax {
		select {
		case d, open := <-from:
			if !open {
				return batch
			}
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}
