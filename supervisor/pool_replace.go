package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// replacing is the one-by-one replacement of a pool's workers: which slots still wait for theirs.
type replacing struct {
	queue []messages.Slot
	busy  bool
}

// replaceRetry is how long a slot whose replacement did not start waits for the next try.
const replaceRetry = 30 * time.Second

// planRecycle decides when the slot's worker is too old, spread so that a pool started at once is not replaced at once.
func (p *Pool) planRecycle(s *slot, now time.Time) {
	s.recycleAt = time.Time{}
	if p.cfg.Recycle.MaxAge > 0 {
		s.recycleAt = now.Add(p.jitter(p.cfg.Recycle.MaxAge))
	}
}

// recycleDue queues the workers that are too old, have run enough, or have grown too large.
func (p *Pool) recycleDue(now time.Time) {
	for _, s := range p.slots {
		if s.cur == nil || !s.cur.ready || s.next != nil || s.retiring {
			continue
		}
		tooOld := !s.recycleAt.IsZero() && now.After(s.recycleAt)
		if tooOld || s.cur.spent || s.cur.version != p.cfg.Fingerprint {
			p.queueReplacement(s.number)
		}
	}
	if p.cfg.Recycle.MaxMemory > 0 {
		p.readVitals()
	}
	if !p.replacing.busy {
		p.replaced()
	}
}

// lastRun hears that a worker has begun the last run that its recycling allows. It takes no more work, so its replacement
// need not wait for its turn: the others lose nothing by it.
func (p *Pool) lastRun(s *slot) {
	if s.cur == nil || !s.cur.spent || s.next != nil || s.retiring || p.draining != nil {
		return
	}
	p.dropHeld(s, "worker_recycled")
	under := 0
	for _, other := range p.slots {
		if other.next != nil {
			under++
		}
	}
	if under >= startingMax {
		p.queueReplacement(s.number)
		return
	}
	p.startReplacement(s)
}

func (p *Pool) queueReplacement(n messages.Slot) {
	if s := p.slot(n); s == nil || p.world.Now().Before(s.replaceAt) {
		return
	}
	for _, queued := range p.replacing.queue {
		if queued == n {
			return
		}
	}
	p.replacing.queue = append(p.replacing.queue, n)
}

// readVitals measures the pool's processes beside it.
func (p *Pool) readVitals() {
	if p.cfg.Crew.Resident == nil {
		return
	}
	pids := map[messages.Slot]int{}
	for _, s := range p.slots {
		if s.cur != nil && s.cur.osPid > 0 && s.next == nil && !s.retiring {
			pids[s.number] = s.cur.osPid
		}
	}
	measure, limit := p.cfg.Crew.Resident, p.cfg.Recycle.MaxMemory
	p.world.Beside(storeTimeout, func(context.Context) func() {
		grown := map[messages.Slot]int64{}
		for n, pid := range pids {
			if resident, err := measure(pid); err == nil && resident > limit {
				grown[n] = resident
			}
		}
		return func() {
			for n, resident := range grown {
				p.hasGrown(n, pids[n], resident)
			}
		}
	})
}

// hasGrown hears that the process of a worker is too large.
func (p *Pool) hasGrown(n messages.Slot, pid int, resident int64) {
	s := p.slot(n)
	if s == nil || s.cur == nil || s.cur.osPid != pid || s.next != nil || s.retiring {
		return
	}
	p.cfg.Logger.Info("worker has grown past its recycling size", "worker", s.id, "resident", resident,
		"limit", p.cfg.Recycle.MaxMemory)
	p.queueReplacement(n)
}

// replaced goes on with the next slot that waits for a replacement: one at a time, ready before the old one leaves.
func (p *Pool) replaced() {
	p.replacing.busy = false
	if len(p.replacing.queue) > 0 && p.draining == nil {
		p.replacing.busy = true
		p.world.After(0, p.replaceNext)
	}
}

func (p *Pool) replaceNext() {
	if len(p.replacing.queue) == 0 || p.draining != nil {
		p.replacing.busy = false
		return
	}
	s := p.slot(p.replacing.queue[0])
	p.replacing.queue = p.replacing.queue[1:]
	if s == nil || s.cur == nil || s.next != nil {
		p.replaced()
		return
	}
	p.startReplacement(s)
}

func (p *Pool) startReplacement(s *slot) {
	p.cfg.Logger.Info("Replacing worker", "worker", s.id, "generation", s.cur.gen, "reason", "recycled or reloaded")
	s.next = p.spawnMember(s)
}

func (p *Pool) countReplaced() {
	if p.cfg.Hooks.Replaced != nil {
		p.cfg.Hooks.Replaced(p.cfg.Name)
	}
}

// replacementFailed leaves the old worker where it is and tries again later.
func (p *Pool) replacementFailed(s *slot) {
	if s.cur != nil && s.cur.spent { // it takes nothing any more: its slot starts again as after any other end
		p.retire(s, "recycled")
		p.replaced()
		return
	}
	p.cfg.Logger.Warn("replacement did not start; the old worker stays", "worker", s.id, "reason", s.lastFailure)
	s.replaceAt = p.world.Now().Add(replaceRetry)
	p.world.After(replaceRetry, func() { p.queueReplacement(s.number) })
	p.replaced()
}

// replace gives the pool a new configuration. Workers that run by an old version are replaced one by one.
func (p *Pool) replace(m *Replace) {
	same := p.cfg.Fingerprint == m.Config.Fingerprint
	p.adopt(&m.Config)
	p.crew = p.makeCrew()
	p.resize(max(m.Config.Workers, min(p.wanted(), m.Config.WorkersMax)))
	if m.Mended {
		p.mended()
	}
	if same {
		return
	}
	for _, s := range p.slots {
		switch {
		case s.cur == nil:
		case !s.cur.ready:
			p.queueReplacement(s.number)
		case !p.cfg.Runtime.LongLived():
			// Nothing of the old version lives between two of its runs; the next start takes the new crew.
			s.by = m.By
			p.retire(s, "reloaded")
		default:
			s.renewedBy = m.By
			p.queueReplacement(s.number)
		}
	}
	if !p.replacing.busy {
		p.replaced()
	}
}

// mended starts what waits for its next start at once, and takes no account of the failures before.
func (p *Pool) mended() {
	if state, changed := p.tracker.Mended(); changed {
		p.stateChanged(state, "")
	}
	for _, s := range p.slots {
		s.replaceAt = time.Time{}
		if s.timer != nil && s.cur == nil {
			stopTimer(s.timer)
			s.timer = nil
		}
	}
	p.spawnMore(0)
}

// adopt takes over what a reload may change. The ports, the names and the hooks stay as they are for the actor's life:
// what runs beside the pool reads them.
func (p *Pool) adopt(c *PoolConfig) {
	p.cfg.Workers, p.cfg.WorkersMax = c.Workers, c.WorkersMax
	p.cfg.Crew, p.cfg.Recycle, p.cfg.Fingerprint = c.Crew, c.Recycle, c.Fingerprint
	p.cfg.Serves = c.Serves
	p.cfg.Roster, p.cfg.Restart = c.Roster, c.Restart
	p.cfg.ClaimTimeout, p.cfg.BeatEvery, p.cfg.EchoEvery = c.ClaimTimeout, c.BeatEvery, c.EchoEvery
	p.cfg.HealthInterval, p.cfg.HealthEnabled = c.HealthInterval, c.HealthEnabled
}

// resize changes the number of workers: new slots start at once, those too many leave by drain.
func (p *Pool) resize(workers int) {
	for n := len(p.slots); n < workers; n++ {
		p.addSlot(messages.Slot(n))
		p.slots[n].counted = true
	}
	for i, s := range p.slots {
		was := s.dead
		s.dead = i >= workers
		switch {
		case s.dead && s.cur != nil:
			p.retire(s, fmt.Sprintf("the pool has %d workers now", workers))
		case s.dead && !was:
			p.step(roster.WorkerGone{Worker: s.key})
			p.dismiss(s)
		case was && !s.dead:
			p.tracker.Add(s.number)
		}
	}
	if queue := p.cfg.Settings.PoolQueueName(p.cfg.Node, p.cfg.Name, p.cfg.Incarnation); p.shared() {
		if _, known := p.attached[queue]; !known { // more workers than may have a queue each
			p.attach(queue, workers)
		}
	}
	p.spawnMore(0)
}
