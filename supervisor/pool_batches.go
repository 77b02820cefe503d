package supervisor

import (
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// parcel is what goes by one message: the work of one worker, or of several that share a queue.
type parcel struct {
	queue      string
	expiration time.Duration
	work       []broker.Work
	count      int // placements
}

func (c *parcel) placements() []messages.Placement {
	all := make([]messages.Placement, 0, c.count)
	for i := range c.work {
		all = append(all, c.work[i].Placements...)
	}
	return all
}

// pack puts orders for one queue with one expiration into as few messages as they fit.
func (p *Pool) pack(orders []roster.Publish) []parcel {
	type kind struct {
		queue      string
		expiration time.Duration
	}
	var parcels []parcel
	last := map[kind]int{} // the parcel that a further order may join
	short := p.runsShort()
	for _, o := range orders {
		queue := p.routingKey(o.Worker)
		if queue == "" { // its node has left meanwhile
			p.step(roster.Published{Placements: o.Placements})
			continue
		}
		k := kind{queue, p.cfg.Settings.Expiration(o.Timeout)}
		i, open := last[k]
		if !open || parcels[i].count+len(o.Placements) > broker.PlacementsMax {
			i = len(parcels)
			parcels, last[k] = append(parcels, parcel{queue: k.queue, expiration: k.expiration}), i
		}
		c := &parcels[i]
		c.work = append(c.work, broker.Work{Worker: o.Worker, Placements: o.Placements, Ahead: short && o.Idempotent})
		c.count += len(o.Placements)
	}
	return parcels
}

// runsShort reports whether the pool's runs are short enough to be claimed ahead.
func (p *Pool) runsShort() bool {
	p90 := p.roster.P90()
	return p90 > 0 && p90 <= aheadP90
}

// routingKey is the queue that brings work to a worker; empty: it is not known any more.
func (p *Pool) routingKey(key messages.WorkerKey) string {
	if key.Incarnation != p.cfg.Incarnation {
		return p.queueAbroad(key)
	}
	if s := p.slot(key.Slot); s != nil {
		return p.queueOf(s)
	}
	return p.cfg.Settings.PoolQueueName(p.cfg.Node, p.cfg.Name, p.cfg.Incarnation)
}
