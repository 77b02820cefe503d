package supervisor

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/scale"
)

// Workers supervises the workers of one pool on one node: their slots and generations, restarts, replacements, probes,
// number and cordons. What is placed on them and where, it does not know.
type Workers struct {
	*shell

	link         reports
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

// reports is the link, as the workers see it.
type reports interface {
	// Tell reports a worker that is seen, or gone, to whoever routes for it.
	Tell(e roster.Event)
	// Attach has a queue deliver for so many workers; Brings says whether it does by now.
	Attach(queue string, workers int)
	Brings(queue string) bool
	// GiveBack takes back what a slot holds and has not claimed.
	GiveBack(n messages.Slot, reason, by string)
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

func newWorkers(s *shell) *Workers { return &Workers{shell: s} }

func (w *Workers) start() {
	w.tracker = restart.New(w.cfg.Restart)
	if w.cfg.Cordoned != nil {
		w.cordoned, w.nodeCordoned = w.cfg.Cordoned()
	}
	w.workerConfig = w.makeWorkerConfig()
	w.startSlots()
	w.memory.losses.reading = false // the answer may have gone with the actor before this one
	w.memory.losses.read(w.shell)
}

func (w *Workers) stop() {
	for _, s := range w.slots {
		stopTimer(s.timer)
	}
}

// ticked is the workers' regular second.
func (w *Workers) ticked(now time.Time) {
	w.probeDue(now)
	w.recycleDue(now)
	w.echo.due(w, now)
	w.watchBeats(now)
	w.memory.losses.due(w.shell, now)
	w.rescale(now)
	w.history.flush(w)
}

// makeWorkerConfig completes what new workers get.
func (w *Workers) makeWorkerConfig() *actors.WorkerConfig {
	c := w.cfg.Worker
	c.System, c.Recorder, c.Pool = w.cfg.System, w.cfg.Recorder, w.self
	c.PoolName = w.cfg.Name
	c.Node, c.Incarnation = w.cfg.Node, w.cfg.Incarnation
	self, system, outer := w.self, w.cfg.System, w.cfg.Worker.Leaked
	c.Leaked = func(pool string, change int) {
		system.Send(self, &leakChange{change})
		if outer != nil {
			outer(pool, change)
		}
	}
	return &c
}

// leftBehind is what an actor of the pool had when it failed: the last generations of its slots, and their processes.
type leftBehind struct {
	generations map[messages.Slot]messages.Generation
	processes   []int
}

// leftBehind is what the actor before this one has left; empty generations: this is the first.
func (m *Memory) leftBehind() leftBehind {
	return leftBehind{maps.Clone(m.generations), slices.Collect(maps.Values(m.pids))}
}
