package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// replacing is the one-by-one replacement of a pool's workers: which slots still wait for theirs.
type replacing struct {
	queue []messages.Slot
	busy  bool
}

// replaceRetry is how long a slot whose replacement did not start waits for the next try.
const replaceRetry = 30 * time.Second

// planRecycle decides when the slot's worker is too old, spread so that a pool started at once is not replaced at once.
func (s *slot) planRecycle(w *Workers, now time.Time) {
	switch {
	case w.Config.Recycle.MaxAge > 0:
		s.has().recycleAt = now.Add(w.Jitter(w.Config.Recycle.MaxAge))
	case s.rare != nil:
		s.rare.recycleAt = time.Time{}
	}
}

// recycleDue queues the workers that are too old, have run enough, or have grown too large.
func (w *Workers) recycleDue(now time.Time) {
	for _, s := range w.slots {
		if s.cur == nil || !s.cur.ready || s.next != nil || s.retiring {
			continue
		}
		tooOld := s.rare != nil && !s.rare.recycleAt.IsZero() && now.After(s.rare.recycleAt)
		if tooOld || s.cur.spent || s.cur.version != w.Config.Fingerprint {
			w.replacing.add(w, s.number)
		}
	}
	if w.Config.Recycle.MaxMemory > 0 {
		w.replacing.measure(w)
	}
	if !w.replacing.busy {
		w.replacing.goOn(w)
	}
}

// lastRun hears that a worker has begun the last run that its recycling allows. It takes no more work, so its replacement
// need not wait for its turn: the others lose nothing by it.
func (w *Workers) lastRun(s *slot) {
	if s.cur == nil || !s.cur.spent || s.next != nil || s.retiring || w.Draining {
		return
	}
	w.link.GiveBack(s.number, "worker_recycled", s.had().by)
	under := 0
	for _, other := range w.slots {
		if other.next != nil {
			under++
		}
	}
	if under >= startingMax {
		w.replacing.add(w, s.number)
		return
	}
	w.startReplacement(s)
}

func (r *replacing) add(w *Workers, n messages.Slot) {
	if s := w.slots.at(n); s == nil || w.World.Now().Before(s.had().replaceAt) {
		return
	}
	for _, queued := range r.queue {
		if queued == n {
			return
		}
	}
	r.queue = append(r.queue, n)
}

// measure measures the pool's processes beside it.
func (r *replacing) measure(w *Workers) {
	if w.Config.Worker.Resident == nil {
		return
	}
	pids := map[messages.Slot]int{}
	for _, s := range w.slots {
		if s.cur != nil && s.cur.osPid > 0 && s.next == nil && !s.retiring {
			pids[s.number] = s.cur.osPid
		}
	}
	measure, limit := w.Config.Worker.Resident, w.Config.Recycle.MaxMemory
	w.World.Beside(part.StoreTimeout, func(context.Context) func() {
		grown := map[messages.Slot]int64{}
		for n, pid := range pids {
			if resident, err := measure(pid); err == nil && resident > limit {
				grown[n] = resident
			}
		}
		return func() {
			for n, resident := range grown {
				r.grown(w, n, pids[n], resident)
			}
		}
	})
}

// grown hears that the process of a worker is too large.
func (r *replacing) grown(w *Workers, n messages.Slot, pid int, resident int64) {
	s := w.slots.at(n)
	if s == nil || s.cur == nil || s.cur.osPid != pid || s.next != nil || s.retiring {
		return
	}
	w.Config.Logger.Info("worker has grown past its recycling size", "worker", s.id, "resident", resident,
		"limit", w.Config.Recycle.MaxMemory)
	r.add(w, n)
}

// goOn goes on with the next slot that waits for a replacement: one at a time, ready before the old one leaves.
func (r *replacing) goOn(w *Workers) {
	r.busy = false
	if len(r.queue) > 0 && !w.Draining {
		r.busy = true
		w.World.After(0, func() { r.next(w) })
	}
}

func (r *replacing) next(w *Workers) {
	if len(r.queue) == 0 || w.Draining {
		r.busy = false
		return
	}
	s := w.slots.at(r.queue[0])
	r.queue = r.queue[1:]
	if s == nil || s.cur == nil || s.next != nil {
		r.goOn(w)
		return
	}
	w.startReplacement(s)
}

func (w *Workers) startReplacement(s *slot) {
	w.Config.Logger.Info("Replacing worker", "worker", s.id, "generation", s.cur.gen, "reason", "recycled or reloaded")
	s.next = w.spawnMember(s)
}

func (w *Workers) countReplaced() {
	if w.Config.Hooks.Replaced != nil {
		w.Config.Hooks.Replaced(w.Config.Name)
	}
}

// replacementFailed leaves the old worker where it is and tries again later.
func (w *Workers) replacementFailed(s *slot) {
	if s.cur != nil && s.cur.spent { // it takes nothing any more: its slot starts again as after any other end
		w.retire(s, "recycled")
		w.replacing.goOn(w)
		return
	}
	w.Config.Logger.Warn("replacement did not start; the old worker stays", "worker", s.id, "reason", s.had().lastFailure)
	s.has().replaceAt = w.World.Now().Add(replaceRetry)
	w.World.After(replaceRetry, func() { w.replacing.add(w, s.number) })
	w.replacing.goOn(w)
}

// Replace gives the pool a new configuration. Workers that run by an old version are replaced one by one. Mended: a worker of it has
// just started, so what waits for its next start need not; by is who asked.
func (w *Workers) Replace(c *part.Config, mended bool, by string) {
	same := w.Config.Fingerprint == c.Fingerprint
	w.adopt(c)
	w.WorkerConfig = w.makeWorkerConfig()
	w.resize(max(c.Workers, min(w.slots.wanted(), c.WorkersMax)))
	if mended {
		w.mended()
	}
	if same {
		return
	}
	for _, s := range w.slots {
		switch {
		case s.cur == nil:
		case !s.cur.ready:
			w.replacing.add(w, s.number)
		case !w.Config.Runtime.LongLived():
			// Nothing of the old version lives between two of its runs; the next start takes the new configuration.
			s.has().by = by
			w.retire(s, "reloaded")
		default:
			s.has().renewedBy = by
			w.replacing.add(w, s.number)
		}
	}
	if !w.replacing.busy {
		w.replacing.goOn(w)
	}
}

// mended starts what waits for its next start at once, and takes no account of the failures before.
func (w *Workers) mended() {
	if state, changed := w.tracker.Mended(); changed {
		w.stateChanged(state, "")
	}
	for _, s := range w.slots {
		if s.rare != nil {
			s.rare.replaceAt = time.Time{}
		}
		if s.timer != nil && s.cur == nil {
			part.StopTimer(s.timer)
			s.timer = nil
		}
	}
	w.spawnMore(0)
}

// adopt takes over what a reload may change. The ports, the names and the hooks stay as they are for the actor's life:
// what runs beside the pool reads them.
func (w *Workers) adopt(c *part.Config) {
	w.Config.Workers, w.Config.WorkersMax = c.Workers, c.WorkersMax
	w.Config.Worker, w.Config.Recycle, w.Config.Fingerprint = c.Worker, c.Recycle, c.Fingerprint
	w.Config.Serves = c.Serves
	w.Config.Roster, w.Config.Restart = c.Roster, c.Restart
	w.Config.ClaimTimeout, w.Config.BeatEvery, w.Config.EchoEvery = c.ClaimTimeout, c.BeatEvery, c.EchoEvery
	w.Config.HealthInterval, w.Config.HealthEnabled = c.HealthInterval, c.HealthEnabled
}

// resize changes the number of workers: new slots start at once, those too many leave by drain.
func (w *Workers) resize(workers int) {
	for n := len(w.slots); n < workers; n++ {
		w.addSlot(messages.Slot(n))
		w.slots[n].counted = true
	}
	for i, s := range w.slots {
		was := s.dead
		s.dead = i >= workers
		switch {
		case s.dead && s.cur != nil:
			w.retire(s, fmt.Sprintf("the pool has %d workers now", workers))
		case s.dead && !was:
			w.link.Tell(roster.WorkerGone{Worker: w.key(s)})
			w.dismiss(s)
		case was && !s.dead:
			w.tracker.Add(s.number)
		}
	}
	if w.shared() {
		w.link.Attach(w.poolQueue, workers) // where there are more workers now than may have a queue each
	}
	w.spawnMore(0)
}
