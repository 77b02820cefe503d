package workers

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/scale"
	"github.com/troupe-run/troupe/supervisor/part"
)

// Workers supervises the workers of one pool on one node: their slots and generations, restarts, replacements, probes,
// number and cordons. What is placed on them and where, it does not know.
type Workers struct {
	*part.Shared

	link         Link
	memory       *Memory
	cell         *actors.Cell // of the pool
	poolQueue    string       // that all workers share, where they have none of their own
	slots        slots
	tracker      *restart.Tracker
	cordoned     bool
	nodeCordoned bool
	leaked       int
	round        firstRound
	replacing    replacing
	scale        scale.State
	history      history
	echo         echo
}

// Link is the link, as the workers see it.
type Link interface {
	// Tell reports a worker that is seen, or gone, to whoever routes for it.
	Tell(e roster.Event)
	// Attach has a queue deliver for so many workers; Brings says whether it does by now, and Unattached since when and why it does not.
	Attach(queue string, workers int)
	Brings(queue string) bool
	Unattached(queue string) (since time.Time, why string)
	// GiveBack takes back what a slot holds and has not claimed.
	GiveBack(n messages.Slot, reason, by string)
	// GiveBackUntaken gives back what was claimed for a slot's worker as it was stored, and has not come to it: all after the last Take
	// that did.
	GiveBackUntaken(n messages.Slot, last uint64, by string)
	// Lost settles what ran on a slot whose worker failed, once its process is gone.
	Lost(n messages.Slot, process int)
	// Engaged are the slots that hold or run something, Waiting is how much work waits for workers.
	Engaged() map[messages.Slot]struct{}
	Waiting() int
	// Routing says who routes, where several nodes share the pool.
	Routing() string
}

// firstRound is the pool's first start round: it ends when every slot has become ready or failed once.
type firstRound struct {
	missing int
	ended   bool
}

// New returns the workers of the pool that the memory and the cell are of.
func New(s *part.Shared, memory *Memory, cell *actors.Cell, link Link) *Workers {
	if memory.generations == nil {
		memory.generations, memory.pids = map[messages.Slot]messages.Generation{}, map[messages.Slot]int{}
		memory.cordoned = map[messages.Slot]bool{}
	}
	queue := s.Config.Settings.PoolQueueName(s.Config.Node, s.Config.Name, s.Config.Incarnation)
	return &Workers{Shared: s, memory: memory, cell: cell, poolQueue: queue, link: link}
}

// Start starts the workers.
func (w *Workers) Start() {
	w.tracker = restart.New(w.Config.Restart)
	if w.Config.Cordoned != nil {
		w.cordoned, w.nodeCordoned = w.Config.Cordoned()
	}
	w.WorkerConfig = w.makeWorkerConfig()
	w.startSlots()
	w.memory.losses.reading = false // the answer may have gone with the actor before this one
	w.memory.losses.read(w.Shared)
}

// Stop ends the workers' timers; the actor's end stops the workers.
func (w *Workers) Stop() {
	for _, s := range w.slots {
		part.StopTimer(s.timer)
	}
}

// Tick is the workers' regular second.
func (w *Workers) Tick(now time.Time) {
	w.probeDue(now)
	w.recycleDue(now)
	w.echo.due(w, now)
	w.watchBeats(now)
	w.memory.losses.due(w.Shared, now)
	w.rescale(now)
	w.history.flush(w)
}

// NodeDown hears that another incarnation has ended: it may have been the boot of this node before this one.
func (w *Workers) NodeDown() { w.memory.losses.read(w.Shared) }

// makeWorkerConfig completes what new workers get.
func (w *Workers) makeWorkerConfig() *actors.WorkerConfig {
	c := w.Config.Worker
	c.System, c.Recorder, c.Pool = w.Config.System, w.Config.Recorder, w.Self
	c.PoolName = w.Config.Name
	c.Node, c.Incarnation = w.Config.Node, w.Config.Incarnation
	self, system, outer := w.Self, w.Config.System, w.Config.Worker.Leaked
	c.Leaked = func(pool string, change int) {
		system.Send(self, &LeakChange{change})
		if outer != nil {
			outer(pool, change)
		}
	}
	return &c
}

// Memory is what a pool's workers keep over the restart of the pool's actor.
type Memory struct {
	generations map[messages.Slot]messages.Generation
	pids        map[messages.Slot]int  // of the processes that its workers had last
	cordoned    map[messages.Slot]bool // by operators
	losses      losses
}

// Left is what the actor before this one had when it failed: the last generations of its slots, and their processes. Without
// generations this is the first actor.
func (m *Memory) Left() (generations map[messages.Slot]messages.Generation, processes []int) {
	return maps.Clone(m.generations), slices.Collect(maps.Values(m.pids))
}
