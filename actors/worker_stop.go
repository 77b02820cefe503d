package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// ladderDue says that the next step of a stop ladder is due. It names the target, so it never hits other work.
type ladderDue struct{ target process.Target }

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

func (w *Worker) target(r *Run) process.Target {
	t := process.Target{Generation: w.gen}
	if r != nil {
		t.Execution, t.Attempt = r.Execution.ID, r.Execution.Attempt
	}
	return t
}

// cancel stops the run it names, or keeps the wish for one that is claimed but has not begun.
func (w *Worker) cancel(ctx actor.Context, m *CancelRun) {
	if r := w.run; r != nil && r.Placement() == m.Placement {
		w.stopRun(stopCancel, "cancelled by "+orCaller(m.By))
		return
	}
	for _, e := range w.claimed {
		if e.Placement() == m.Placement {
			w.cancelBeforeStart(m.Placement)
			return
		}
	}
	w.drop(m.Placement)
}

func orCaller(by string) string {
	if by == "" {
		return "a caller"
	}
	return by
}

// stopRun begins the ladder for the current run. The first cause counts.
func (w *Worker) stopRun(cause stopCause, why string) {
	r := w.run
	if r == nil || r.stop != notStopped {
		return
	}
	r.stop, r.stopText = cause, why
	r.ladder = process.StopRun(w.target(r), time.Now(), w.runner.Traits().Cancels, w.cfg.Graces)
	w.step()
}

// step carries out the step of the run's ladder that is due and sets the timer for the next.
func (w *Worker) step() {
	step, ladder := w.run.ladder.Next(time.Now())
	w.run.ladder = ladder
	if step != process.StepNone {
		w.runner.Step(step, w.run)
	}
	w.schedule(ladder)
}

func (w *Worker) schedule(l process.Ladder) {
	if due, more := l.Due(); more {
		w.later(time.Until(due), &ladderDue{target: l.Target})
	}
}

// climb takes the next step of whichever ladder the timer belongs to.
func (w *Worker) climb(_ actor.Context, m *ladderDue) {
	switch {
	case w.run != nil && w.run.ladder.Stops(m.target):
		w.step()
	case w.leaving != nil && !w.leaving.gone && w.leaving.ladder.Stops(m.target):
		w.stepDown()
	}
}

func (w *Worker) deadline(_ actor.Context, m *deadline) {
	r := w.run
	if r == nil || r.Placement() != m.placement {
		return
	}
	if m.stalled {
		if left := r.Execution.StallTimeout - time.Since(r.sign); !r.sign.IsZero() && left > 0 {
			r.stall.Reset(left) // a sign came while this message was on its way
			return
		}
		w.stopRun(stopStalled, fmt.Sprintf("no progress for %s", r.Execution.StallTimeout))
		return
	}
	w.stopRun(stopTimeout, fmt.Sprintf("ran longer than its timeout of %s", r.Execution.Timeout))
}

// leave begins the worker's end: it takes nothing more, what it had claimed goes back, and its runner is stopped by
// the ladder. A run that is on it ends first.
func (w *Worker) leave(ctx actor.Context, reason lifecycle.Reason, cause lifecycle.Cause, why string, wanted bool) {
	if w.leaving != nil {
		return
	}
	w.leaving = &leaving{cause: cause, why: why, wanted: wanted, gone: !w.runner.Traits().LongLived || w.runner.Pid() == 0}
	if w.leaving.gone && w.runner.Traits().LongLived {
		w.runner.Step(process.StepKill, nil) // one that is only being started has no pid yet
	}
	w.queue, w.held = nil, nil
	w.endPause()
	w.answerIfEnding()
	w.giveBack("its worker leaves")
	to := lifecycle.Terminating // by name: a failed probe, for one, has a milder end too
	if w.machine.State() == lifecycle.Initializing {
		to = lifecycle.Terminated
	}
	w.transitionTo(to, reason, lifecycle.Metadata{Reason: why})
	w.settle(ctx)
}

// stopRunner begins the ladder for the worker's process.
func (w *Worker) stopRunner() {
	w.leaving.down = true
	w.leaving.ladder = process.StopWorker(w.target(nil), time.Now(), w.ready, w.cfg.Graces)
	w.stepDown()
}

func (w *Worker) stepDown() {
	step, ladder := w.leaving.ladder.Next(time.Now())
	w.leaving.ladder = ladder
	if step != process.StepNone {
		w.runner.Step(step, nil)
	}
	w.schedule(ladder)
}

// abort ends the runner at once; what it would post finds nobody.
func (w *Worker) abort() { w.runner.Step(process.StepKill, w.run) }

// settle ends the worker as soon as nothing of it is left: no run, no process, no claim under way that would have to
// be given back. A finish is written whether or not the worker waits for it.
func (w *Worker) settle(ctx actor.Context) {
	if w.leaving == nil {
		w.retireIfIdle(ctx)
		return
	}
	if w.run == nil && !w.leaving.gone && !w.leaving.down {
		w.stopRunner()
	}
	if w.run != nil || !w.leaving.gone || w.claiming > 0 || w.leaving.told {
		return
	}
	w.leaving.told = true
	if w.machine.State() == lifecycle.Terminating {
		w.transition(lifecycle.CleanupComplete, lifecycle.Metadata{})
	}
	w.cfg.System.Send(w.cfg.Pool, &WorkerEnded{
		Slot: w.key.Slot, Generation: w.gen, Cause: w.leaving.cause, Why: w.leaving.why,
		Wanted: w.leaving.wanted, WasReady: w.ready, Traceback: w.trace,
	})
	ctx.Stop(w.self)
}

// retiring ends the worker once its run has ended.
func (w *Worker) retiring(ctx actor.Context, m *Retire) {
	if w.leaving != nil || w.retire != nil {
		return
	}
	kept := *m
	w.retire, w.by = &kept, m.By
	w.queue = nil
	w.endPause()
	w.giveBack("its worker leaves")
	w.settle(ctx)
}

// retireFor makes the worker leave for a halt's reason when its run has ended.
func (w *Worker) retireFor(m *Halt) {
	retire := &Retire{Reason: m.Reason, Why: m.Why, halted: true}
	if w.retire != nil {
		retire.Sessions = w.retire.Sessions
	}
	w.retire, w.queue = retire, nil
	w.endPause()
	w.giveBack("its worker leaves")
}

// expired counts a dead letter against the worker: it degrades or ends it like any other fault.
func (w *Worker) expired(ctx actor.Context, m *Expired) {
	w.drop(m.Placement)
	if w.leaving != nil || w.retire != nil || !w.ready {
		return
	}
	w.counts.DeadLettered()
	if w.cfg.Thresholds.Off {
		return
	}
	failure := lifecycle.Failure{Kind: lifecycle.DeadLettered, Text: "a message expired on its queue"}
	if w.faultGrade() == health.Unhealthy {
		failure.Kind = lifecycle.UnhealthyGrade
	}
	meta := lifecycle.Metadata{Error: failure.Text, FailureCount: int32(w.counts.Faults())}
	if w.carry(ctx, failure, meta).To == lifecycle.Degraded {
		w.held, w.shaky = nil, false // what a check-in waits for is decided
	}
	w.regrade()
}

// retireIfIdle lets a retired worker go once it is idle and its sessions are kept.
func (w *Worker) retireIfIdle(ctx actor.Context) {
	if w.retire == nil || w.run != nil || w.keepSessions() {
		return
	}
	w.leave(ctx, w.retire.Reason, lifecycle.CauseEnding, w.retire.Why, true)
}

// halt ends the worker now. A worker leaves busy only when no execution is on it, so a run is stopped first, and its
// end lets the worker go.
func (w *Worker) halt(ctx actor.Context, m *Halt) {
	if w.leaving != nil && !m.Hard {
		return
	}
	if m.By != "" {
		w.by = m.By
	}
	if r := w.run; r != nil && w.leaving == nil {
		w.retireFor(m)
		r.stopCode = m.Code
		w.stopRun(stopHalt, m.Why)
	} else {
		if w.leaving == nil && w.awaitsSnapshots() {
			w.dropSnapshots(m.Why)
		}
		w.leave(ctx, m.Reason, lifecycle.CauseEnding, m.Why, true)
	}
	if m.Hard {
		w.abort()
	}
}

// gone hears of the end of the runner's process, which ends the worker whatever it was doing.
func (w *Worker) gone(ctx actor.Context, m *gone) {
	exit := describeExit(m.exit)
	why := "process ended: " + exit
	if m.broken != "" {
		why = "protocol error: " + m.broken
	}
	if w.machine.State() == lifecycle.Initializing && w.leaving == nil {
		w.goneEarly(ctx, why, m.stderr)
		return
	}
	if w.leaving != nil {
		w.leaving.gone = true
	}
	if r := w.run; r != nil {
		o := lost(why, exit, m.stderr)
		w.ended(ctx, &ended{
			placement: r.Placement(), outcome: o, output: m.output, crashed: why, restored: m.restored,
			unstarted: m.running != r.Placement(),
		})
	}
	if w.leaving == nil {
		w.counts.Faulted()
		w.carry(ctx, lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: why}, lifecycle.Metadata{})
	}
	w.leaving.gone = true
	w.settle(ctx)
}

func (w *Worker) goneEarly(ctx actor.Context, why, stderr string) {
	why = withStderr(why, stderr)
	v := lifecycle.Recover(lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: why}, w.snapshotState())
	w.leave(ctx, v.Reason, v.Cause, "worker initialization failed: "+why, v.Wanted)
	w.leaving.gone = true
	w.settle(ctx)
}
