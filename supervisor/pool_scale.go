package supervisor

import (
	"time"

	"github.com/troupe-run/troupe/rules/scale"
)

// wanted is how many workers the pool is to have now.
func (p *Pool) wanted() int {
	count := 0
	for _, s := range p.slots {
		if !s.dead {
			count++
		}
	}
	return count
}

// rescale asks, once a second, whether a pool with bounds has the right number of workers.
func (p *Pool) rescale(now time.Time) {
	if p.cfg.WorkersMax <= p.cfg.Workers || p.draining != nil {
		return
	}
	at := scale.Sample{Workers: p.wanted(), Waiting: p.waiting(), Idle: p.idle()}
	var target int
	p.scale, target = p.scale.Next(now, p.cfg.Workers, p.cfg.WorkersMax, at)
	if target == at.Workers {
		return
	}
	p.cfg.Logger.Info("pool is resized", "workers", target, "before", at.Workers, "waiting", at.Waiting, "idle", at.Idle)
	p.resize(target)
}
