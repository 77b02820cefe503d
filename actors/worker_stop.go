package actors

import (
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// ending is a worker's end: that it is to leave when its run has ended, that it leaves, and the stop of its runner.
type ending struct {
	*workerShell
	retire  *Retire
	halted  bool // its run is being stopped
	leaving *leaving
	by      string // who asked for it; empty: nobody
	trace   string // where its code failed, of a worker that never became ready
}

// leaving is a worker's end in progress.
type leaving struct {
	cause  lifecycle.Cause
	why    string
	wanted bool
	ladder process.Ladder
	down   bool // the ladder has begun
	gone   bool // the runner has nothing left that lives
	told   bool // the pool knows; the actor is being stopped
}

// begun reports whether the worker leaves, or is to leave when its run has ended. It takes nothing more then.
func (e *ending) begun() bool { return e.leaving != nil || e.retire != nil }

// leave begins the end. A process that is only being started has no pid yet, and is killed at once.
func (e *ending) leave(cause lifecycle.Cause, why string, wanted bool) {
	lives := e.runner.Traits().LongLived
	e.leaving = &leaving{cause: cause, why: why, wanted: wanted, gone: !lives || e.runner.Pid() == 0}
	if e.leaving.gone && lives {
		e.runner.Step(process.StepKill, nil)
	}
}

// gone notes that the runner has nothing left that lives.
func (e *ending) gone() {
	if e.leaving != nil {
		e.leaving.gone = true
	}
}

// endStep is what a worker that leaves does next.
type endStep uint8

const (
	endWaits endStep = iota
	endStopsRunner
	endTells // nothing is left: the pool is told, and the actor ends
)

// next is what a worker that leaves does next: it ends once no run is on it, its process is gone, and no claim is under way
// that would have to be given back. A finish is written whether or not the worker waits for it.
func (l *leaving) next(runs bool, claiming int) endStep {
	switch {
	case runs, l.told:
		return endWaits
	case !l.gone && !l.down:
		return endStopsRunner
	case !l.gone, claiming > 0:
		return endWaits
	}
	return endTells
}

// stopRunner begins the ladder for the worker's process; frames: it has been ready once, and knows the shutdown frame.
func (e *ending) stopRunner(frames bool) {
	e.leaving.down = true
	e.leaving.ladder = process.StopWorker(e.target(nil), e.world.Now(), frames, e.cfg.Graces)
	e.step()
}

func (e *ending) step() { e.leaving.ladder = e.climb(e.leaving.ladder, nil, e.stepDue) }

// stepDue takes the next step of the worker's ladder, unless its process is gone.
func (e *ending) stepDue(target process.Target) {
	if e.leaving != nil && !e.leaving.gone && e.leaving.ladder.Stops(target) {
		e.step()
	}
}

// abort ends the runner at once, with its run where there is one; what it would post finds nobody.
func (e *ending) abort(r *Run) { e.runner.Step(process.StepKill, r) }

// aborts reports whether the runner has to be ended at once where the actor is stopped out of turn.
func (e *ending) aborts(runs bool) bool { return runs || e.leaving == nil || !e.leaving.gone }
