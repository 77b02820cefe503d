package supervisor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// member is one generation of a slot.
type member struct {
	pid     *actor.PID
	gen     messages.Generation
	state   lifecycle.State
	health  lifecycle.Health
	grade   health.Grade
	report  health.Capabilities
	osPid   int
	since   time.Time
	ready   bool
	told    bool   // its end has been told
	spent   bool   // it takes no more work, having run as much as the pool's recycling allows
	version string // the pool's fingerprint at its start
	// shownStale is what its actor's status says of its heartbeat.
	shownStale bool
	cell       *actors.Cell
}

// slot is one place for a worker: its current generation and, while it is being replaced, the next.
type slot struct {
	number      messages.Slot
	id          messages.WorkerID
	key         messages.WorkerKey
	cur, next   *member
	queue       string
	cordoned    bool
	retiring    bool
	by          string // who asked for the end of cur; empty: nobody
	renewedBy   string // who asked for the reload that cur is to be replaced for
	probeAt     time.Time
	beat        time.Time
	lostAt      time.Time // when its worker was lost that no other has replaced yet; zero: none was
	stale       bool      // its heartbeat is too old, and the log says so
	future      bool      // its heartbeat is ahead of the clock, and the log says so
	recycleAt   time.Time
	replaceAt   time.Time // not before, after a replacement that did not start
	restarts    int
	lastFailure string
	lastTrace   string // where its code failed, of the start that failed last
	timer       actors.Timer
	counted     bool // in the first start round
	dead        bool // not to be started again
	// parting: the sessions that were bound to the generation before are being unbound in the store, the partings-th time.
	parting  bool
	partings int
}

// spawnBatch is how many workers are started before the pool looks at its mailbox again; startingMax is how many
// processes may be starting at once.
const (
	spawnBatch  = 256
	startingMax = 16
)

func (p *Pool) startSlots() {
	p.round.missing = p.cfg.Workers
	p.slots = make([]*slot, 0, p.cfg.Workers)
	for i := range p.cfg.Workers {
		p.addSlot(messages.Slot(i))
	}
	if p.shared() {
		p.attach(p.cfg.Settings.PoolQueueName(p.cfg.Node, p.cfg.Name, p.cfg.Incarnation), len(p.slots))
	}
	p.journal.workers = make([]store.Worker, 0, len(p.slots))
	p.spawnMore(0)
	p.endRound()
}

func (p *Pool) addSlot(n messages.Slot) {
	id := messages.NewWorkerID(p.cfg.Node, p.cfg.Name, n)
	p.slots = append(p.slots, &slot{
		number: n, id: id, cordoned: p.memory.cordoned[n],
		key: messages.WorkerKey{Incarnation: p.cfg.Incarnation, Pool: p.cfg.Name, Slot: n},
	})
	p.tracker.Add(n)
}

// shared reports whether the pool's workers share one queue.
func (p *Pool) shared() bool {
	return p.cfg.Runtime.SharedQueue || max(p.cfg.Workers, p.cfg.WorkersMax) > ownQueueMax
}

// spawnMore starts slots that have no worker yet: all of them in batches, or, where each is a process, as many as may
// be starting at once; a start that ends brings the next.
func (p *Pool) spawnMore(from int) {
	starting, spawned := p.starting(), 0
	for i := from; i < len(p.slots); i++ {
		s := p.slots[i]
		if s.cur != nil || s.dead || s.timer != nil {
			continue
		}
		if p.cfg.Runtime.LongLived() && starting >= startingMax {
			return
		}
		if spawned == spawnBatch {
			p.world.After(0, func() { p.spawnMore(i) })
			return
		}
		p.spawn(s)
		starting, spawned = starting+1, spawned+1
	}
}

func (p *Pool) starting() int {
	if !p.cfg.Runtime.LongLived() {
		return 0
	}
	n := 0
	for _, s := range p.slots {
		if s.cur != nil && s.cur.state == lifecycle.Initializing {
			n++
		}
	}
	return n
}

// spawn starts the next generation of a slot as its current one.
func (p *Pool) spawn(s *slot) {
	if p.draining != nil || s.dead {
		return
	}
	s.cur = p.spawnMember(s)
	if !p.shared() && s.queue == "" {
		s.queue = p.cfg.Settings.WorkerQueueName(s.id, p.cfg.Incarnation)
		p.attach(s.queue, 1)
	}
	p.seen(s)
}

func (p *Pool) spawnMember(s *slot) *member {
	gen := p.memory.generations[s.number] + 1
	p.memory.generations[s.number] = gen
	m := &member{gen: gen, grade: health.Healthy, cell: &actors.Cell{}, version: p.cfg.Fingerprint}
	m.cell.Update(func(st *actors.Status) { st.Restarts, st.LastFailure = s.restarts, s.lastFailure })
	pid, err := p.cfg.System.Spawn(p.actor, actors.NewWorker(p.crew, s.number, gen, s.id, m.cell))
	if err != nil { // a generation is never reused, so its name is free
		panic(err)
	}
	m.pid = pid
	return m
}

// respawn starts a slot again whose back-off is over.
func (p *Pool) respawn(s *slot) {
	s.timer = nil
	if s.cur == nil {
		p.spawn(s)
	}
}

func (p *Pool) slot(n messages.Slot) *slot {
	if n < 0 || int(n) >= len(p.slots) {
		return nil
	}
	return p.slots[n]
}

// member finds the generation a message speaks of; nil: it is of the past.
func (s *slot) member(gen messages.Generation) *member {
	switch {
	case s == nil:
		return nil
	case s.cur != nil && s.cur.gen == gen:
		return s.cur
	case s.next != nil && s.next.gen == gen:
		return s.next
	}
	return nil
}

// workerChanged takes a worker's word on itself.
func (p *Pool) workerChanged(c *actors.WorkerChanged) {
	s := p.slot(c.Slot)
	m := s.member(c.Generation)
	if m == nil {
		return
	}
	m.state, m.health, m.grade, m.report, m.osPid = c.State, c.Health, c.Grade, c.Report, c.Pid
	if c.Pid > 0 {
		p.memory.pids[s.number] = c.Pid
	}
	if c.Entry != nil {
		m.since = time.UnixMilli(c.Entry.AtMillis)
		p.journal.transition(p, s, m, c.Entry)
		if c.Entry.Reason == lifecycle.InitComplete {
			p.becameReady(s, m)
		}
	}
	last := c.Spent && !m.spent
	m.spent = c.Spent
	if m == s.cur {
		p.seen(s)
		if m.state >= lifecycle.Terminating {
			p.dropHeld(s, "worker_gone")
		}
	}
	if last {
		p.lastRun(s)
	}
}

// becameReady notes a successful start; a replacement takes the place of the one it replaces.
func (p *Pool) becameReady(s *slot, m *member) {
	now := p.world.Now()
	m.ready = true
	s.beat = now
	s.probeAt = now.Add(p.jitter(p.cfg.HealthInterval))
	p.backAgain(s, now)
	p.returned(s.number, now)
	if state, changed := p.tracker.Started(s.number, now); changed {
		p.stateChanged(state, "")
	}
	p.journal.ready(p, s, m)
	p.roundDone(s)
	p.planRecycle(s, now)
	if m == s.next {
		p.countReplaced()
		s.by = cmp.Or(s.by, s.renewedBy)
		p.retire(s, "replaced by generation "+fmt.Sprint(m.gen))
		p.replaced() // a long run on the old one must not hold up the others
	}
	p.spawnMore(0)
}

// jitter spreads an interval by a tenth either way.
func (p *Pool) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*p.world.Random()))
}

// stateChanged shows a change of the pool's restarts, and tells the roster whether its workers count.
func (p *Pool) stateChanged(state restart.State, why string) {
	if why == "" && p.cfg.Peers != nil {
		why = p.leading().String()
	}
	p.cell.Update(func(s *actors.Status) { s.State, s.Why, s.Since = state.String(), why, p.world.Now() })
	if state == restart.Broken {
		p.cfg.Logger.Error("pool is broken: every worker keeps failing", "reason", why)
	} else {
		p.cfg.Logger.Info("pool changed", "state", state)
	}
	for _, s := range p.slots {
		p.seen(s)
	}
}

// seen tells the roster how a slot stands.
func (p *Pool) seen(s *slot) {
	if s.dead && s.cur == nil {
		return
	}
	p.step(p.standing(s))
}

// standing is how a slot stands.
func (p *Pool) standing(s *slot) roster.WorkerSeen {
	seen := roster.WorkerSeen{
		Worker: s.key, ID: s.id, BeatAt: s.beat, BeatEvery: p.cfg.BeatEvery, Grade: health.Healthy, Starting: true,
		Active: !s.cordoned && !s.retiring && !p.cordoned && !p.nodeCordoned && p.draining == nil,
		Broken: p.tracker.State() == restart.Broken, Generation: p.memory.generations[s.number],
	}
	if m := s.cur; m != nil && m.ready && !s.parting {
		seen.Generation, seen.Grade, seen.Starting = m.gen, m.grade, false
		switch m.state {
		case lifecycle.Ready:
			seen.Accepts = m.health == lifecycle.Healthy
		case lifecycle.Busy:
			seen.Accepts = true
		case lifecycle.Degraded:
			seen.Accepts, seen.Grade = true, health.Degraded.Worse(m.grade)
		case lifecycle.Terminating, lifecycle.Terminated:
			seen.Starting = true
		}
		seen.Accepts = seen.Accepts && !m.spent && p.attached[p.queueOf(s)]
	}
	return seen
}

func (p *Pool) queueOf(s *slot) string {
	if s.queue != "" {
		return s.queue
	}
	return p.cfg.Settings.PoolQueueName(p.cfg.Node, p.cfg.Name, p.cfg.Incarnation)
}

func (p *Pool) roundDone(s *slot) {
	if !s.counted {
		s.counted = true
		p.round.missing--
		p.endRound()
	}
}

func (p *Pool) endRound() {
	if p.round.missing <= 0 && !p.round.ended {
		p.round.ended = true
		ready := 0
		for _, s := range p.slots {
			if s.cur != nil && s.cur.ready {
				ready++
			}
		}
		p.cfg.Logger.Info("pool started", "workers", len(p.slots), "ready", ready)
	}
}
