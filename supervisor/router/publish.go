package router

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// batch is what goes by one message: the work of one worker, or of several that share a queue.
type batch struct {
	queue      string
	expiration time.Duration
	work       []broker.Work
	count      int // placements
}

func (c *batch) placements() []messages.Placement {
	all := make([]messages.Placement, 0, c.count)
	for i := range c.work {
		all = append(all, c.work[i].Placements...)
	}
	return all
}

// aheadP90 is how short nine of ten runs of a pool are where what may be repeated is claimed ahead. The worker decides how early, by
// its last runs. Behind longer runs a claim is short beside the run. Claims ahead are given back as rescues when a worker dies.
const aheadP90 = 200 * time.Millisecond

// pack puts orders for one queue with one expiration into as few messages as they fit.
func (r *Router) pack(orders []roster.Publish) []batch {
	type kind struct {
		queue      string
		expiration time.Duration
	}
	var batchs []batch
	last := map[kind]int{} // the batch that a further order may join
	for _, o := range orders {
		k := kind{o.Queue, r.Config.Settings.Expiration(o.Timeout)}
		i, open := last[k]
		if !open || batchs[i].count+len(o.Placements) > broker.PlacementsMax {
			i = len(batchs)
			batchs, last[k] = append(batchs, batch{queue: k.queue, expiration: k.expiration}), i
		}
		c := &batchs[i]
		c.work = append(c.work, r.workOf(&o))
		c.count += len(o.Placements)
	}
	return batchs
}

// workOf is what a message tells of one order.
func (r *Router) workOf(o *roster.Publish) broker.Work {
	p90 := r.roster.P90()
	work := broker.Work{Worker: o.Worker, Placements: o.Placements, Ahead: o.Idempotent && p90 > 0 && p90 <= aheadP90}
	if o.Direct {
		work.By = r.Config.Incarnation
	}
	return work
}

// Flush sends what was gathered: what is handed directly to workers of this node by no message, and all else by one publish.
func (r *Router) Flush() {
	for len(r.publish) > 0 {
		orders := r.publish
		r.publish = nil
		var handed []broker.Work
		rest := orders[:0]
		for i := range orders {
			switch o := &orders[i]; {
			case o.Queue == "": // its node has left meanwhile
				r.step(roster.Published{Placements: o.Placements})
			case o.Direct && o.Worker.Incarnation == r.Config.Incarnation:
				handed = append(handed, r.workOf(o))
				r.step(roster.Published{Placements: o.Placements, OK: true})
			default:
				rest = append(rest, *o)
			}
		}
		if len(handed) > 0 {
			r.link.Hand(handed)
		}
		if len(rest) > 0 {
			r.publishAll(rest)
		}
	}
}

// publishAll sends the placements' messages beside the pool and brings back what the broker said.
func (r *Router) publishAll(orders []roster.Publish) {
	batches := r.pack(orders)
	out := make([]broker.Message, 0, len(batches))
	sent := batches[:0]
	var headers map[string]string
	if r.WorkerConfig.Tracer != nil {
		headers = broker.PublishedNow(r.World.Now())
	}
	for i := range batches {
		body, err := broker.EncodeWork(batches[i].work)
		if err != nil {
			r.Config.Logger.Error("placements not encoded", "queue", batches[i].queue, "error", err)
			r.step(roster.Published{Placements: batches[i].placements()})
			continue
		}
		out = append(out, broker.Message{RoutingKey: batches[i].queue, Body: body, Expiration: batches[i].expiration, Headers: headers})
		sent = append(sent, batches[i])
	}
	r.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		confirms, err := r.Config.Broker.Publish(ctx, out)
		if err != nil && !r.Halts() { // while a server is away, the node says so
			r.unpublished.Warn(r.Config.Logger, "placements not published, taking them back", "error", err)
		}
		return func() { r.published(sent, confirms) }
	})
}

// published takes the broker's word on messages. Where one was not taken the broker may have gone, and what is taken back
// must not be placed again at once.
func (r *Router) published(batches []batch, confirms []broker.Confirm) {
	for i := range batches {
		ok := i < len(confirms) && confirms[i] == broker.Confirmed
		if !ok {
			r.link.Halt()
		}
		r.step(roster.Published{Placements: batches[i].placements(), OK: ok})
	}
}
