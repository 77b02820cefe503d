package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
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
	// Attached says that a queue delivers, or why it does not.
	Attached struct {
		Queue string
		OK    bool
		Why   string
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

// attachTo asks the delivery bridge for a queue and watches it: when it ends, the actor gets Terminated, and asks the next one after
// attachWait, which knows nothing of who was attached.
func attachTo(ctx actor.Context, delivery *actor.PID, a *Attach) {
	ctx.Watch(delivery)
	ctx.Send(delivery, a)
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
	real      *RealWorld
	world     World
	consumers map[string]*consumption
}

type consumption struct {
	attach *Attach
	cancel context.CancelFunc
	tries  int // in a row that delivered nothing
	waits  bool
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
		d.real = NewWorld(d.cfg.System, ctx.Self())
		d.world = d.real
	case *actor.Stopping:
		d.real.End()
	case *actor.Stopped:
	case *Resume:
		d.real.Resume(m)
	case *Attach:
		d.attach(m)
	case *Detach:
		d.detach(m.Queue)
	case *Reattach:
		d.reattach()
	default:
		d.cfg.System.Registry.Unknown(ctx)
	}
}

func (d *Delivery) attach(a *Attach) {
	c := &consumption{attach: a}
	if old := d.consumers[a.Queue]; old != nil {
		old.cancel()
		c.tries = old.tries
	}
	d.consumers[a.Queue] = c
	wanted, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	d.world.Beside(0, func(ctx context.Context) func() {
		defer context.AfterFunc(ctx, cancel)()
		attached, err := d.consume(wanted, a)
		return func() { d.ended(c, attached, err) }
	})
}

// reattach attaches at once what waits for its next try.
func (d *Delivery) reattach() {
	for _, c := range d.consumers {
		if c.waits {
			d.attach(c.attach)
		}
	}
}

func (d *Delivery) detach(queue string) {
	if c := d.consumers[queue]; c != nil {
		c.cancel()
		delete(d.consumers, queue)
	}
}

// ended hears that a consumer has ended or could not be made; attached: it had been made.
func (d *Delivery) ended(c *consumption, attached bool, err error) {
	queue := c.attach.Queue
	if d.consumers[queue] != c {
		return
	}
	d.cfg.System.Send(c.attach.Pool, &Attached{Queue: queue, Why: whyEnded(err)})
	if errors.Is(err, broker.ErrClosed) {
		return
	}
	c.waits = true
	wait := min(attachWait<<min(c.tries, 8), attachWaitMax)
	if c.tries++; attached {
		c.tries, wait = 0, attachWait
	}
	level := hclog.Warn
	if !d.cfg.Broker.Status().Up || errors.Is(err, broker.ErrBroken) {
		level = hclog.Debug // that the broker is away is told once, not for each of its queues; of a broken one the adapter tells
	}
	d.cfg.Logger.Log(level, "queue no longer delivers, attaching again", "queue", queue, "after", wait, "error", err)
	d.world.After(wait, func() {
		if d.consumers[queue] == c {
			d.attach(c.attach)
		}
	})
}

// whyMax bounds the text of why a queue does not deliver.
const whyMax = 500

func whyEnded(err error) string {
	if err == nil {
		return "its consumer ended"
	}
	return messages.ClipText(err.Error(), whyMax)
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
