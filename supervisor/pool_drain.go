package supervisor

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/supervisor/part"
)

// drain is a pool's end in progress. Its question is answered once; nil: it has been.
type drain struct{ question *DrainQuestion }

// startDrain stops placing, hands back what has not started, and retires every worker once it is idle.
func (p *Pool) startDrain(q *DrainQuestion) {
	if p.Draining {
		q.Reply(struct{}{}, fmt.Errorf("pool %s is draining already", p.Config.Name))
		return
	}
	p.Draining, p.drain = true, &drain{question: q}
	p.link.Resign()
	p.World.After(q.Ask.Until.Sub(p.World.Now()), p.workers.StopRuns)
	p.workers.Drain(q.Ask.By)
	p.drained()
}

// drained answers the drain once no worker is left and nothing is under way.
func (p *Pool) drained() {
	if p.drain == nil || p.drain.question == nil || !p.workers.Gone() {
		return
	}
	if !p.link.HandedOn() || !p.router.Drained() || p.router.Unbinding() || !p.workers.Written() {
		return
	}
	p.Config.Logger.Info("pool stopped", "workers", p.workers.Slots())
	p.leaveQueues(p.drain.question)
	p.drain.question = nil
}

// leaveQueues removes the queues of a drained pool's workers, which would outlive them for twice their TTL, and answers
// the drain. What is still in them was taken back: nobody else publishes to an incarnation's queues.
func (p *Pool) leaveQueues(question *DrainQuestion) {
	queues := p.link.Queues()
	if p.Halts() {
		queues = nil // they expire
	}
	last := p.link.LastReport()
	p.World.Beside(part.LeaveTimeout, func(ctx context.Context) func() {
		if last != nil {
			last(ctx)
		}
		for _, queue := range queues {
			if err := p.Config.Broker.Delete(ctx, queue); err != nil {
				p.Config.Logger.Debug("queue of a drained pool not removed, it expires", "queue", queue, "error", err)
				break
			}
		}
		question.Reply(struct{}{}, nil)
		return nil
	})
}
