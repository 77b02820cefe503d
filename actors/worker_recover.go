package actors

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// recovery makes the decisions that follow from the end of a run, a probe and a dead letter, by the recovery table: the worker
// is ready again, degraded, or at its end.
type recovery struct {
	*workerShell
	worker    recovered
	condition *condition
	prober    *prober
	held      *checkin // a check-in that waits for a probe
	shaky     bool     // the run was taken while degraded: its check-in probes first
}

// recovered is the worker, as its recovery sees it.
type recovered interface {
	flow
	// worn reports whether the worker takes no more runs, because its program is to be replaced. wear makes it so.
	worn() bool
	wear()
	// record asks for changes.
	record(items []Item)
	// goOn is settle where the worker leaves, and next where it does not.
	goOn(items []Item)
	// leave begins the worker's end.
	leave(reason lifecycle.Reason, cause lifecycle.Cause, why string, wanted bool)
	// probe has the worker probed.
	probe(q *ProbeQuestion)
	// leaves reports whether the worker's end has begun, and why.
	leaves() (why string, leaves bool)
	// retires reports whether it begins with the end of the run.
	retires() bool
}

// checkin is what is known when a run has ended and its worker must be judged.
type checkin struct {
	outcome messages.Outcome
	fault   bool
}

// checkout begins the lifecycle's side of a run.
func (v *recovery) checkout(e *messages.Execution) {
	v.shaky = v.condition.machine.State() == lifecycle.Degraded
	v.condition.transition(lifecycle.Checkout, lifecycle.Metadata{
		Execution: e.ID, Attempt: e.Attempt, Session: e.Session, Caller: e.CreatedBy,
	})
}

// checkinStep is what follows from the end of a run.
type checkinStep uint8

const (
	checkinStays  checkinStep = iota // the worker stays, and is judged by the outcome
	checkinEnds                      // the worker leaves anyway
	checkinFails                     // the run's end is a failure, and the recovery table says what follows
	checkinProbes                    // the worker is probed before it is judged
)

// runEnd is what decides a check-in.
type runEnd struct {
	stop        stopCause
	stopText    string
	crashed     string
	unstarted   bool
	restoring   bool
	close       bool
	leaves      bool // the worker's end has begun
	retires     bool // it begins now
	probesFirst bool // the worker was degraded, or is to be probed
}

// decide is the one decision that follows a run. Ending wins.
func (e runEnd) decide() (checkinStep, lifecycle.Failure) {
	switch {
	case e.leaves, e.stop == stopHalt:
		return checkinEnds, lifecycle.Failure{}
	case e.restoring: // whatever its times were
		return checkinFails, lifecycle.Failure{Kind: lifecycle.RestoreDied, Text: e.crashed}
	case e.stop == stopTimeout, e.stop == stopStalled: // also where stopping it took the worker along
		return checkinFails, lifecycle.Failure{Kind: lifecycle.CommandTimedOut, Text: e.stopText}
	case e.unstarted && e.stop != stopCancel:
		return checkinFails, lifecycle.Failure{Kind: lifecycle.CheckoutFailed, Text: e.crashed}
	case e.crashed != "":
		return checkinFails, lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: e.crashed, Asked: e.stop == stopCancel}
	case e.close:
		return checkinFails, lifecycle.Failure{Kind: lifecycle.CloseRequested, Text: "the code asked for a new worker"}
	case e.probesFirst && !e.retires:
		return checkinProbes, lifecycle.Failure{}
	}
	return checkinStays, lifecycle.Failure{}
}

// checkin makes the one decision that follows a run, and does it.
func (v *recovery) checkin(r *Run, m *ended, c *checkin, items []Item) {
	_, leaves := v.worker.leaves()
	step, failure := runEnd{
		stop: r.stop, stopText: r.stopText, crashed: m.crashed, unstarted: m.unstarted, restoring: m.restoring, close: m.close,
		leaves: leaves, retires: v.worker.retires(), probesFirst: v.shaky || v.prober.due && v.runner.Traits().Probes,
	}.decide()
	switch step {
	case checkinEnds:
		v.worker.record(items)
		v.worker.settle()
	case checkinFails:
		v.worker.record(items)
		v.carry(failure, lifecycle.Metadata{})
	case checkinProbes:
		v.held = c
		v.worker.record(items)
		v.worker.probe(nil)
	case checkinStays:
		v.stay(c, items)
	}
}

// stay returns the worker to ready, or degrades or ends it for its faults.
func (v *recovery) stay(c *checkin, items []Item) {
	v.release()
	v.condition.regrade()
	failure, fails := c.failure(v.condition.faultGrade(), v.cfg.Thresholds.Off)
	if !fails {
		v.condition.transition(lifecycle.CheckinSuccess, lifecycle.Metadata{})
		v.worker.goOn(items)
		return
	}
	v.carry(failure, lifecycle.Metadata{Error: failure.Text, FailureCount: int32(v.condition.counts.Faults())})
	v.worker.goOn(items)
}

// failure is what a check-in is for the recovery table; false: a success. Off: health decides nothing.
func (c *checkin) failure(grade health.Grade, off bool) (lifecycle.Failure, bool) {
	f := lifecycle.Failure{Kind: lifecycle.ActionError}
	switch {
	case grade == health.Unhealthy:
		f.Kind = lifecycle.UnhealthyGrade
	case c.fault && !off:
		f.Kind = lifecycle.WorkerFault
	case c.outcome.Status == messages.Completed:
		return lifecycle.Failure{}, false
	}
	if c.outcome.Error != nil {
		f.Text = c.outcome.Error.Message
	}
	return f, true
}

// release forgets the check-in that waits for a probe: what it waits for is decided.
func (v *recovery) release() { v.held, v.shaky = nil, false }

// carry asks the recovery table what follows from a failure and does it.
func (v *recovery) carry(f lifecycle.Failure, meta lifecycle.Metadata) lifecycle.Verdict {
	c := v.condition
	verdict := lifecycle.Recover(f, c.facts())
	if verdict.Unhealthy {
		c.machine.SetHealth(lifecycle.Unhealthy)
	}
	switch {
	case verdict.To == lifecycle.Terminating:
		v.worker.leave(verdict.Reason, verdict.Cause, f.Error(), verdict.Wanted)
		return verdict
	case verdict.To == lifecycle.Degraded && verdict.Moves():
		c.machine.SetHealth(lifecycle.Unhealthy)
		c.transitionTo(verdict.To, verdict.Reason, meta)
		if verdict.Cause != lifecycle.CauseNodeShort { // the node tells that, for all of its workers
			v.cfg.Logger.Warn("Degrading worker", "worker", v.id, "cause", verdict.Cause, "reason", f.Error())
		}
	case verdict.Moves():
		c.transitionTo(verdict.To, verdict.Reason, meta)
	}
	if verdict.Action == lifecycle.Degrade || verdict.Unhealthy {
		c.regrade()
		v.prober.after(verdict.Delay)
	}
	return verdict
}

// probed takes what a probe has found.
func (v *recovery) probed(err error, took time.Duration) {
	if errors.Is(err, errCannotAnswer) {
		v.prober.due = true
		v.prober.answer(err.Error())
		if v.held != nil { // the run has ended meanwhile, and its check-in waits
			v.worker.probe(nil)
		}
		return
	}
	if why, leaves := v.worker.leaves(); leaves {
		v.prober.answer(endsFor(why))
		return
	}
	v.prober.last = v.world.Now()
	if v.cfg.Probes != nil {
		v.cfg.Probes(v.cfg.PoolName, err == nil, took)
	}
	if err == nil {
		v.passed()
	} else {
		v.failed(err)
	}
}

// endsFor is the answer to a probe of a worker that leaves.
func endsFor(why string) string { return "worker is ending: " + why }

func (v *recovery) passed() {
	c := v.condition
	c.counts.ProbePassed()
	if entry, restored := c.machine.ProbePassed(v.world.Now()); restored {
		c.entered(entry)
	} else { // when it was last checked is part of the report, also where nothing else has changed
		c.show()
		c.tell(nil)
	}
	c.regrade()
	v.prober.answer("healthy") // after the report, so that who asked finds it
	v.resume()
}

// failed takes a probe that has failed, or that the node lacks what a start takes: that is no failure of the worker's, and none
// is counted.
func (v *recovery) failed(err error) {
	failure := probeFailure(err)
	if failure.Kind == lifecycle.NodeShort {
		v.tellShort(err)
	} else {
		count := v.condition.counts.ProbeFailed()
		v.cfg.Logger.Warn("Worker health check failed", "worker", v.id, "generation", v.gen, "in_a_row", count, "error", err)
	}
	v.prober.answer("unhealthy: " + err.Error())
	if v.cfg.Thresholds.Off { // somebody asked, and nothing follows from it
		v.condition.tell(nil)
		v.resume()
		return
	}
	v.held = nil
	v.carry(failure, lifecycle.Metadata{Error: err.Error()})
	v.condition.tell(nil)
	v.worker.next(nil)
}

// probeFailure is what the error of a probe is for the recovery table.
func probeFailure(err error) lifecycle.Failure {
	switch {
	case errors.Is(err, process.ErrShortage):
		return lifecycle.Failure{Kind: lifecycle.NodeShort, Text: err.Error()}
	case errors.Is(err, errProbeLate):
		return lifecycle.Failure{Kind: lifecycle.ProbeTimedOut}
	}
	return lifecycle.Failure{Kind: lifecycle.ProbeFailed, Text: err.Error()}
}

// resume goes on after a probe: with the check-in that waits for it, or with the next run.
func (v *recovery) resume() {
	if c := v.held; c != nil {
		v.stay(c, nil)
		return
	}
	v.worker.next(nil)
}

// expired counts a dead letter against the worker: it degrades or ends it like any other fault.
func (v *recovery) expired() {
	v.condition.counts.DeadLettered()
	if v.cfg.Thresholds.Off {
		return
	}
	failure := lifecycle.Failure{Kind: lifecycle.DeadLettered, Text: "a message expired on its queue"}
	if v.condition.faultGrade() == health.Unhealthy {
		failure.Kind = lifecycle.UnhealthyGrade
	}
	meta := lifecycle.Metadata{Error: failure.Text, FailureCount: int32(v.condition.counts.Faults())}
	if v.carry(failure, meta).To == lifecycle.Degraded {
		v.release()
	}
	v.condition.regrade()
}

// late counts a failure of code whose run has ended. The one that would make the worker unhealthy is not counted: the sessions of an
// unhealthy worker move at once, without their states. Instead it takes no more work, and is replaced in order after its run.
func (v *recovery) late(text string) {
	if v.worker.worn() {
		return
	}
	if v.condition.counts.LastStraw(v.cfg.Thresholds) {
		v.worker.wear()
		v.cfg.Logger.Warn("worker is to be replaced: code of its ended runs fails again and again", "worker", v.id, "generation", v.gen, "faults", v.condition.counts.Faults())
		v.condition.tell(nil)
		return
	}
	v.condition.counts.Faulted()
	if v.cfg.Thresholds.Off {
		return
	}
	failure := lifecycle.Failure{Kind: lifecycle.LateFailure, Text: text}
	meta := lifecycle.Metadata{Error: failure.Text, FailureCount: int32(v.condition.counts.Faults())}
	if v.carry(failure, meta).To == lifecycle.Degraded {
		v.release()
	}
	v.condition.regrade()
}

// short takes a run whose program the node could not start for want of descriptors, memory or processes: the worker degrades
// until a probe passes.
func (v *recovery) short(err error, items []Item) {
	v.release()
	failure := lifecycle.Failure{Kind: lifecycle.NodeShort, Text: err.Error()}
	if v.cfg.Thresholds.Off { // health decides nothing: the worker goes on
		failure.Kind = lifecycle.ActionError
	}
	v.carry(failure, lifecycle.Metadata{Error: failure.Text})
	v.worker.goOn(items)
}
