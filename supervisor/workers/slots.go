package workers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/runtime"
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
	first   bool   // it has become ready, and has not changed since then
	told    bool   // its end has been told
	spent   bool   // it takes no more work, having run as much as the pool's recycling allows
	version string // the pool's fingerprint at its start
	// shownStale is what its actor's status says of its heartbeat.
	shownStale bool
	cell       *actors.Cell
}

// slot is one place for a worker: its current generation and, while it is being replaced, the next. A pool may have thousands that run
// nothing, so what few slots ever have is apart.
type slot struct {
	number    messages.Slot
	cordoned  bool
	retiring  bool
	stale     bool // its heartbeat is too old, and the log says so
	future    bool // its heartbeat is ahead of the clock, and the log says so
	counted   bool // in the first start round
	dead      bool // not to be started again
	unbinding bool // the sessions that were bound to the generation before are being unbound in the store
	id        messages.WorkerID
	cur, next *member
	queue     string
	beat      time.Time
	timer     actors.Timer
	rare      *rare // nil: nothing of it
}

// rare is what a slot has once it has been probed, recycled, ended or lost.
type rare struct {
	by          string // who asked for the end of cur; empty: nobody
	renewedBy   string // who asked for the reload that cur is to be replaced for
	probeAt     time.Time
	lostAt      time.Time // when its worker was lost that no other has replaced yet; zero: none was
	recycleAt   time.Time
	replaceAt   time.Time // not before, after a replacement that did not start
	restarts    int
	lastFailure string
	lastTrace   string           // where its code failed, of the start that failed last
	starts      lifecycle.Starts // that failed since it was ready
	crashes     lifecycle.Crashes
	unbindings  int // how often sessions were begun to be unbound
}

// had is what the slot has of what is rare, to be read.
func (s *slot) had() rare {
	if s.rare == nil {
		return rare{}
	}
	return *s.rare
}

// has is what the slot has of what is rare, to be changed.
func (s *slot) has() *rare {
	if s.rare == nil {
		s.rare = &rare{}
	}
	return s.rare
}

// key is the key of the slot's workers.
func (w *Workers) key(s *slot) messages.WorkerKey {
	return messages.WorkerKey{Incarnation: w.Config.Incarnation, Pool: w.Config.Name, Slot: s.number}
}

// slots are all slots of a pool on this node, by number.
type slots []*slot

// at is the slot of a number; nil: there is none.
func (all slots) at(n messages.Slot) *slot {
	if n < 0 || int(n) >= len(all) {
		return nil
	}
	return all[n]
}

// wanted is how many workers the pool is to have now.
func (all slots) wanted() (count int) {
	for _, s := range all {
		if !s.dead {
			count++
		}
	}
	return count
}

// starting is how many processes are starting.
func (all slots) starting(of runtime.Spec) (count int) {
	if !of.LongLived() {
		return 0
	}
	for _, s := range all {
		if s.cur != nil && s.cur.state == lifecycle.Initializing {
			count++
		}
	}
	return count
}

// gone reports whether no slot has a worker any more.
func (all slots) gone() bool {
	return !slices.ContainsFunc(all, func(s *slot) bool { return s.cur != nil || s.next != nil })
}

// spawnBatch is how many workers are started before the pool looks at its mailbox again; startingMax is how many
// processes may be starting at once.
const (
	spawnBatch  = 256
	startingMax = 16
)

func (w *Workers) startSlots() {
	w.round.missing = w.Config.Workers
	w.slots = make(slots, 0, w.Config.Workers)
	for i := range w.Config.Workers {
		w.addSlot(messages.Slot(i))
		if w.memory.generations[messages.Slot(i)] > 0 { // a worker of the actor before this one went with it
			w.slots[i].unbindAll(w)
		}
	}
	if w.shared() {
		w.link.Attach(w.poolQueue, len(w.slots))
	}
	w.history.workers = make([]store.Worker, 0, len(w.slots))
	w.spawnMore(0)
	w.round.end(w)
}

func (w *Workers) addSlot(n messages.Slot) {
	id := messages.NewWorkerID(w.Config.Node, w.Config.Name, n)
	w.slots = append(w.slots, &slot{number: n, id: id, cordoned: w.memory.cordoned[n]})
	w.tracker.Add(n)
}

// shared reports whether the pool's workers share one queue.
func (w *Workers) shared() bool {
	return w.Config.Runtime.SharedQueue || max(w.Config.Workers, w.Config.WorkersMax) > ownQueueMax
}

// spawnMore starts slots that have no worker yet: all of them in batches, or, where each is a process, as many as may
// be starting at once; a start that ends brings the next.
func (w *Workers) spawnMore(from int) {
	starting, spawned := w.slots.starting(w.Config.Runtime), 0
	for i := from; i < len(w.slots); i++ {
		s := w.slots[i]
		if s.cur != nil || s.dead || s.timer != nil {
			continue
		}
		if w.Config.Runtime.LongLived() && starting >= startingMax {
			return
		}
		if spawned == spawnBatch {
			w.World.After(0, func() { w.spawnMore(i) })
			return
		}
		w.spawn(s)
		starting, spawned = starting+1, spawned+1
	}
}

// spawn starts the next generation of a slot as its current one.
func (w *Workers) spawn(s *slot) {
	if w.Draining || s.dead {
		return
	}
	s.cur = w.spawnMember(s)
	s.holdClaims(w)
	if !w.shared() && s.queue == "" {
		s.queue = w.Config.Settings.WorkerQueueName(s.id, w.Config.Incarnation)
		w.link.Attach(s.queue, 1)
	}
	w.seen(s)
}

func (w *Workers) spawnMember(s *slot) *member {
	gen := w.memory.generations[s.number] + 1
	w.memory.generations[s.number] = gen
	m := &member{gen: gen, grade: health.Healthy, cell: &actors.Cell{}, version: w.Config.Fingerprint}
	had := s.had()
	m.cell.Update(func(st *actors.Status) { st.Restarts, st.LastFailure = had.restarts, had.lastFailure })
	pid, err := w.Config.System.Spawn(w.Actor, actors.NewWorker(w.WorkerConfig, s.number, gen, s.id, m.cell))
	if err != nil { // a generation is never reused, so its name is free
		panic(err)
	}
	m.pid = pid
	return m
}

// respawn starts a slot again whose back-off is over.
func (w *Workers) respawn(s *slot) {
	s.timer = nil
	if s.cur == nil {
		w.spawn(s)
	}
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

// WorkerChanged takes a worker's word on itself.
func (w *Workers) WorkerChanged(c *actors.WorkerChanged) {
	s := w.slots.at(c.Slot)
	m := s.member(c.Generation)
	if m == nil {
		return
	}
	m.state, m.health, m.grade, m.report, m.osPid = c.State, c.Health, c.Grade, c.Report, c.Pid
	if c.Pid > 0 {
		w.memory.pids[s.number] = c.Pid
	}
	if c.Entry != nil {
		m.since = time.UnixMilli(c.Entry.AtMillis)
		w.history.transition(w, s, m, c.Entry)
		m.first = c.Entry.Reason == lifecycle.InitComplete
		if c.Entry.Reason == lifecycle.InitComplete {
			w.becameReady(s, m)
		}
	}
	last := c.Spent && !m.spent
	m.spent = c.Spent
	if m == s.cur {
		w.seen(s)
		if m.state >= lifecycle.Terminating {
			w.link.GiveBack(s.number, "worker_gone", s.had().by)
		}
	}
	if last {
		w.lastRun(s)
	}
}

// becameReady notes a successful start; a replacement takes the place of the one it replaces.
func (w *Workers) becameReady(s *slot, m *member) {
	now := w.World.Now()
	m.ready = true
	s.beat = now
	w.probeNext(s, now)
	s.backAgain(w, now)
	w.memory.losses.returned(w.Shared, s.number, now)
	if state, changed := w.tracker.Started(s.number, now); changed {
		w.stateChanged(state, "")
	}
	if r := s.rare; r != nil {
		r.starts = lifecycle.Starts{}
	}
	w.history.ready(w, s, m)
	w.round.done(w, s)
	s.planRecycle(w, now)
	if m == s.next {
		w.countReplaced()
		if r := s.rare; r != nil {
			r.by = cmp.Or(r.by, r.renewedBy)
		}
		w.retire(s, "replaced by generation "+fmt.Sprint(m.gen))
		w.replacing.goOn(w) // a long run on the old one must not hold up the others
	}
	w.spawnMore(0)
}

// stateChanged shows a change of the pool's restarts, and reports whether its workers count.
func (w *Workers) stateChanged(state restart.State, why string) {
	if why == "" {
		why = w.link.Routing()
	}
	w.cell.Update(func(s *actors.Status) { s.State, s.Why, s.Since = state.String(), why, w.World.Now() })
	if state == restart.Broken {
		w.Config.Logger.Error("pool is broken: every worker keeps failing", "reason", why)
	} else {
		w.Config.Logger.Info("pool changed", "state", state)
	}
	for _, s := range w.slots {
		w.seen(s)
	}
}

// seen reports how a slot stands.
func (w *Workers) seen(s *slot) {
	if s.dead && s.cur == nil {
		return
	}
	w.link.Tell(w.standing(s))
}

// standing is how a slot stands.
func (w *Workers) standing(s *slot) roster.WorkerSeen {
	seen := roster.WorkerSeen{
		Worker: w.key(s), ID: s.id, Queue: w.queueOf(s), BeatAt: s.beat, BeatEvery: w.Config.BeatEvery, Grade: health.Healthy, Starting: true,
		Active: !s.cordoned && !s.retiring && !w.cordoned && !w.nodeCordoned && !w.Draining,
		Broken: w.tracker.State() == restart.Broken, Generation: w.memory.generations[s.number], Direct: w.Config.Direct,
	}
	if m := s.cur; m != nil && m.ready && !s.unbinding {
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
		seen.Accepts = seen.Accepts && !m.spent && w.link.Brings(w.queueOf(s))
	}
	return seen
}

func (w *Workers) queueOf(s *slot) string {
	if s.queue != "" {
		return s.queue
	}
	return w.poolQueue
}

func (r *firstRound) done(w *Workers, s *slot) {
	if !s.counted {
		s.counted = true
		r.missing--
		r.end(w)
	}
}

func (r *firstRound) end(w *Workers) {
	if r.missing <= 0 && !r.ended {
		r.ended = true
		ready := 0
		for _, s := range w.slots {
			if s.cur != nil && s.cur.ready {
				ready++
			}
		}
		w.Config.Logger.Info("pool started", "workers", len(w.slots), "ready", ready)
	}
}
