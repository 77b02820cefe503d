package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// drain is a pool's end in progress. Its question is answered once; nil: it has been.
type drain struct{ question *DrainQuestion }

// startDrain stops placing, hands back what has not started, and retires every worker once it is idle.
func (p *Pool) startDrain(q *DrainQuestion) {
	if p.draining {
		q.Reply(struct{}{}, fmt.Errorf("pool %s is draining already", p.cfg.Name))
		return
	}
	p.draining, p.drain = true, &drain{question: q}
	p.link.resign()
	p.world.After(q.Ask.Until.Sub(p.world.Now()), p.workers.drainOver)
	p.workers.drain(q.Ask.By)
	p.drained()
}

// drained answers the drain once no worker is left and nothing is under way.
func (p *Pool) drained() {
	if p.drain == nil || p.drain.question == nil || !p.workers.slots.gone() {
		return
	}
	if !p.link.handedOn() || !p.router.Drained() || p.router.unbinding > 0 || !p.workers.history.written(p.workers) {
		return
	}
	p.cfg.Logger.Info("pool stopped", "workers", len(p.workers.slots))
	p.leaveQueues(p.drain.question)
	p.drain.question = nil
}

// leaveTimeout bounds the removal of a drained pool's queues.
const leaveTimeout = 2 * time.Second

// leaveQueues removes the queues of a drained pool's workers, which would outlive them for twice their TTL, and answers
// the drain. What is still in them was taken back: nobody else publishes to an incarnation's queues.
func (p *Pool) leaveQueues(question *DrainQuestion) {
	queues := slices.Sorted(maps.Keys(p.link.attached))
	if p.halts() {
		queues = nil // they expire
	}
	last := p.link.outbox.lastReport()
	p.world.Beside(leaveTimeout, func(ctx context.Context) func() {
		if last != nil {
			last(ctx)
		}
		for _, queue := range queues {
			if err := p.cfg.Broker.Delete(ctx, queue); err != nil {
				p.cfg.Logger.Debug("queue of a drained pool not removed, it expires", "queue", queue, "error", err)
				break
			}
		}
		question.Reply(struct{}{}, nil)
		return nil
	})
}
