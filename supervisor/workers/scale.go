package workers

import (
	"time"

	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/scale"
)

// rescale asks, once a second, whether a pool with bounds has the right number of workers.
func (w *Workers) rescale(now time.Time) {
	if w.Config.WorkersMax <= w.Config.Workers || w.Draining {
		return
	}
	at := scale.Sample{Workers: w.slots.wanted(), Waiting: w.link.Waiting(), Idle: w.idle()}
	var target int
	w.scale, target = w.scale.Next(now, w.Config.Workers, w.Config.WorkersMax, at)
	if target == at.Workers {
		return
	}
	w.Config.Logger.Info("pool is resized", "workers", target, "before", at.Workers, "waiting", at.Waiting, "idle", at.Idle)
	w.resize(target)
}

// idle counts the workers that could take work and have none.
func (w *Workers) idle() (count int) {
	engaged := w.link.Engaged()
	for _, s := range w.slots {
		if _, has := engaged[s.number]; !has && s.cur != nil && s.cur.ready && !s.retiring && s.cur.state == lifecycle.Ready {
			count++
		}
	}
	return count
}
