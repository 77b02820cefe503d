package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/store"
)

// workerShell is what the parts of a worker share: which worker it is, and how it reaches everything else.
type workerShell struct {
	cfg    *WorkerConfig
	number messages.Slot
	gen    messages.Generation
	id     messages.WorkerID
	self   *actor.PID
	world  World
	out    outside
	runner Runner
}

// outside is the system of a worker, as the worker sees it.
type outside interface {
	Send(to *actor.PID, message any)
	Stop(pid *actor.PID)
}

// flow is what a part has the worker do once it has changed something.
type flow interface {
	// next begins the next run where the slot is free, and claims more. The items are changes that must be written anyway.
	next(items []Item)
	// settle ends the worker where it leaves and nothing is left of it.
	settle()
}

// key is the key of the worker's slot.
func (s *workerShell) key() messages.WorkerKey {
	return messages.WorkerKey{Incarnation: s.cfg.Incarnation, Pool: s.cfg.PoolName, Slot: s.number}
}

func (s *workerShell) item(change store.Change) Item { return Item{Change: change, Worker: s.key()} }

func (s *workerShell) tellShort(err error) {
	if s.cfg.Shortage != nil {
		s.cfg.Shortage(s.cfg.PoolName, err)
	}
}

// target is what a ladder stops: a run of this generation or, without one, the worker itself.
func (s *workerShell) target(r *Run) process.Target {
	t := process.Target{Generation: s.gen}
	if r != nil {
		t.Execution, t.Attempt = r.Execution.ID, r.Execution.Attempt
	}
	return t
}

// climb carries out the step of a ladder that is due, on a run or, with nil, on the worker. When the next step is due, again
// gets the ladder's target, and compares it with what there is to stop by then.
func (s *workerShell) climb(l process.Ladder, r *Run, again func(process.Target)) process.Ladder {
	now := s.world.Now()
	step, l := l.Next(now)
	if step != process.StepNone {
		s.runner.Step(step, r)
	}
	if due, more := l.Due(); more {
		s.world.After(due.Sub(now), func() { again(l.Target) })
	}
	return l
}
