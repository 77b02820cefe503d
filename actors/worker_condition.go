package actors

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// condition is how a worker does: its lifecycle, its counters, and the grade that follows from them. It tells the pool of
// what changes, and shows it to whoever looks.
type condition struct {
	*workerShell
	work    loaded
	cell    *Cell
	machine lifecycle.Machine
	counts  health.Counters
	grade   health.Grade
	ready   bool // has been ready once
}

// loaded is the worker, as its condition sees it.
type loaded interface{ load() load }

// load is what is on a worker.
type load struct {
	queued  int // delivered, not claimed
	claimed int // claimed ahead, not begun
	run     *Run
	spent   bool      // it has begun the last run that it may have
	checked time.Time // when its last probe was answered
}

func (c *condition) start() {
	c.machine = lifecycle.New(c.world.Now())
	c.show()
}

// takes reports whether the lifecycle lets the worker start a run.
func (c *condition) takes() bool { return c.machine.CanAcceptWork() || c.machine.CanAcceptLastResort() }

// transition takes an edge that the worker's own logic has made legal, and tells whoever must know. An illegal one is
// a broken invariant of the worker: it is logged and changes nothing.
func (c *condition) transition(reason lifecycle.Reason, meta lifecycle.Metadata) {
	entry, err := c.machine.Transition(reason, c.world.Now(), meta)
	c.taken(entry, err)
}

// transitionTo is transition where a state and a reason have two ends.
func (c *condition) transitionTo(to lifecycle.State, reason lifecycle.Reason, meta lifecycle.Metadata) {
	entry, err := c.machine.TransitionTo(to, reason, c.world.Now(), meta)
	c.taken(entry, err)
}

func (c *condition) taken(entry lifecycle.Entry, err error) {
	if err != nil {
		c.cfg.Logger.Error("illegal transition refused", "worker", c.id, "error", err)
		return
	}
	c.entered(entry)
}

func (c *condition) entered(entry lifecycle.Entry) {
	if c.cfg.Transitions != nil {
		c.cfg.Transitions(c.cfg.PoolName, entry)
	}
	c.show()
	if entry.Reason.Quiet() {
		if c.cfg.Logger.IsDebug() {
			c.cfg.Logger.Debug("worker changed", "worker", c.id, "from", entry.From, "to", entry.To, "reason", entry.Reason)
		}
		return
	}
	what := []any{"worker", c.id, "generation", c.gen, "from", entry.From, "to", entry.To, "reason", entry.Reason}
	if entry.News() {
		c.cfg.Logger.Info("worker changed", what...)
	} else {
		c.cfg.Logger.Debug("worker changed", what...)
	}
	c.tell(&entry)
}

// tell brings the pool up to date.
func (c *condition) tell(entry *lifecycle.Entry) {
	l := c.work.load()
	c.out.Send(c.cfg.Pool, &WorkerChanged{
		Slot: c.number, Generation: c.gen, Entry: entry, State: c.machine.State(), Health: c.machine.Health(),
		Grade: c.grade, Report: c.report(&l), Pid: c.runner.Pid(), Spent: l.spent,
	})
}

func (c *condition) show() {
	l := c.work.load()
	c.cell.Update(func(s *Status) {
		s.State, s.Health, s.Grade = c.machine.State().String(), c.machine.Health().String(), c.grade.String()
		s.Since = c.machine.EnteredAt()
		s.Report = c.report(&l)
		s.Execution = l.execution()
	})
}

func (c *condition) report(l *load) health.Capabilities {
	return health.Describe(&c.counts, c.grade, l.queued+l.claimed, l.checked)
}

// execution is what runs; zero: nothing.
func (l *load) execution() messages.ExecutionID {
	if l.run == nil {
		return messages.ExecutionID{}
	}
	return l.run.Execution.ID
}

func (c *condition) inspect() Inspection {
	l := c.work.load()
	return Inspection{
		Worker: c.id, Generation: c.gen, State: c.machine.State(), Health: c.machine.Health(), Report: c.report(&l),
		History: c.machine.History(), Pid: c.runner.Pid(), Execution: l.execution(),
	}
}

// facts is what the recovery table asks of the worker.
func (c *condition) facts() lifecycle.Snapshot {
	return lifecycle.Snapshot{
		State: c.machine.State(), Executing: c.work.load().run != nil, ProbeFailures: c.counts.ProbeFailures(),
		Faults: c.counts.Faults(), FaultLimit: c.cfg.Thresholds.FailuresDegraded,
	}
}

// faultGrade is the grade that the worker's own faults give it, whatever its queue and heartbeat say.
func (c *condition) faultGrade() health.Grade {
	return health.FaultGrade(c.cfg.Thresholds, c.counts.Sample(0))
}

// regrade evaluates the worker's grade and tells the pool of a change.
func (c *condition) regrade() {
	s := c.counts.Sample(c.work.load().queued)
	s.HeartbeatSeen = true // its age is judged by whoever reads the heartbeat
	s.StateDegraded = c.machine.State() == lifecycle.Degraded
	if grade := health.Evaluate(c.cfg.Thresholds, s).Grade; grade != c.grade {
		c.grade = grade
		c.show()
		c.tell(nil)
	}
}
