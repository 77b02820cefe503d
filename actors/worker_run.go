package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/store"
)

// runSlot is the place of a worker for its one run: it starts a run, watches its times, and stops it.
type runSlot struct {
	*workerShell
	sessions restorer
	worker   finishing
	run      *Run
	begun    int  // runs, in this generation
	worn     bool // it may begin no other: its program is to be replaced
}

// finishing is the worker, as its slot sees it.
type finishing interface {
	// ended takes the end of a run whose runner has not heard of it.
	ended(m *ended)
}

// restorer is what a worker knows of its sessions, as its slot sees it.
type restorer interface {
	// lacks reports whether the execution's session may have a state to be given back before the run.
	lacks(e *messages.Execution) bool
	// entered notes that the execution's code is given its run.
	entered(e *messages.Execution)
}

// NotServed begins what is said of an execution that came to a worker whose node does not serve its action.
const NotServed = "this node does not serve action "

// put takes an execution on.
func (s *runSlot) put(e *messages.Execution) *Run {
	now := s.world.Now()
	s.run = &Run{Execution: e, Started: now, span: s.cfg.Tracer.Run(e, s.id, s.gen, now)}
	s.run.Trace = s.run.span.Trace(e.Trace)
	s.begun++
	return s.run
}

// start starts the run that was put on the slot. Cancelled: somebody has cancelled it before.
func (s *runSlot) start(cancelled bool) {
	r, e := s.run, s.run.Execution
	action, ok := s.cfg.Action(e.Action, e.Version)
	if !ok {
		s.world.After(0, func() { s.worker.ended(&ended{placement: r.Placement(), unserved: NotServed + e.Action}) })
		return
	}
	r.Action = action
	if cancelled {
		r.stop, r.stopText = stopCancel, "cancelled before it started"
		s.neverRan(r, cancelledBy(r))
		return
	}
	s.arm(r)
	if e.SessionLost && e.SessionHit && s.sessions.lacks(e) {
		s.fetchSnapshot(r)
		return
	}
	s.give(r)
}

// give gives the run to the runner.
func (s *runSlot) give(r *Run) {
	s.sessions.entered(r.Execution)
	s.runner.Run(r)
}

// neverRan ends a run that its runner has not heard of.
func (s *runSlot) neverRan(r *Run, err *messages.Error) {
	s.world.After(0, func() { s.worker.ended(&ended{placement: r.Placement(), neverRan: true, outcome: failed(err)}) })
}

// cancelledBy is the error of a run that is stopped before its runner has heard of it.
func cancelledBy(r *Run) *messages.Error {
	return &messages.Error{Code: messages.CodeCancelled, Message: r.stopText, FailedBy: messages.FailedByWorker}
}

// arm sets the run's timers. The run deadline in the row is the store's; this one counts from the start here.
func (s *runSlot) arm(r *Run) {
	if r.Execution.Timeout > 0 {
		r.deadline = s.cfg.Awake.after(s.world, r.Execution.Timeout, func() {
			if s.run == r {
				s.stop(stopTimeout, fmt.Sprintf("ran longer than its timeout of %s", r.Execution.Timeout))
			}
		})
	}
	if r.Execution.StallTimeout > 0 {
		s.watch(r, r.Execution.StallTimeout)
	}
}

// watch stops the run if it has given no sign of progress for its stall timeout after a while.
func (s *runSlot) watch(r *Run, after time.Duration) {
	r.stall = s.cfg.Awake.after(s.world, after, func() {
		if s.run != r {
			return
		}
		if left := stallLeft(r.Execution.StallTimeout, r.sign, s.awake()); left > 0 {
			s.watch(r, left)
			return
		}
		s.stop(stopStalled, fmt.Sprintf("no progress for %s", r.Execution.StallTimeout))
	})
}

// stallLeft is how long a run whose last sign of progress came at a time may go on without another; zero: there was none.
func stallLeft(timeout time.Duration, sign, now time.Time) time.Duration {
	if sign.IsZero() {
		return 0
	}
	return timeout - now.Sub(sign)
}

// awake is the time without that in which the node was frozen.
func (s *runSlot) awake() time.Time {
	now := s.world.Now()
	return now.Add(-s.cfg.Awake.Frozen(now))
}

// signed notes a sign of progress of the run.
func (s *runSlot) signed() {
	if r := s.run; r != nil && r.stall != nil {
		r.sign = s.awake()
	}
}

// fetchWithin bounds the reading of a session's kept state.
const fetchWithin = 5 * time.Second

// fetchSnapshot reads the session's kept state beside the actor, and starts the run with what it found.
func (s *runSlot) fetchSnapshot(r *Run) {
	e := r.Execution
	s.world.Beside(fetchWithin, func(ctx context.Context) func() {
		found, err := s.cfg.kept(ctx, e)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
			s.cfg.Logger.Warn("session snapshot not read", "session", e.Session, "error", err)
		}
		return func() { s.restored(r, found) }
	})
}

func (s *runSlot) restored(r *Run, found kept) {
	switch {
	case s.run != r:
	case r.stop != notStopped:
		if found.state != nil {
			s.endTry(r.Execution)
		}
		s.neverRan(r, cancelledBy(r))
	case found.broken && r.Execution.Affinity == messages.AffinityStrictFail:
		s.neverRan(r, &messages.Error{
			Code: messages.CodeSessionStateBroken, FailedBy: messages.FailedByWorker,
			Message: fmt.Sprintf("the stored state of session %s ended each worker that it was given back to, and is set aside: `troupe sessions state export %s/%s` shows it",
				r.Execution.Session, s.cfg.PoolName, r.Execution.Session),
		})
	default:
		r.Restore, r.Behind, r.tries = found.state, found.behind, found.tries
		s.give(r)
	}
}

// answered notes that the program has answered to its session's state: what ends it from here on is the run's.
func (s *runSlot) answered(p messages.Placement) {
	if r := s.run; r != nil && r.Placement() == p && r.tries > 0 {
		r.tries = 0
		s.endTry(r.Execution)
	}
}

// endTry has the store end its count of tries. The worker's own end does not cut that short.
func (s *runSlot) endTry(e *messages.Execution) {
	s.world.Beside(0, func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchWithin)
		defer cancel()
		if err := s.cfg.Sessions.StateAnswered(ctx, s.cfg.PoolName, e.Session); err != nil {
			s.cfg.Logger.Warn("tries of a session's state are still counted", "session", e.Session, "error", err)
		}
		return nil
	})
}

// kept is the state that a session is given back, and how many finished runs it lacks: with any, its loss is told all
// the same. Broken: there is none, because it was set aside.
type kept struct {
	state  json.RawMessage
	behind int64
	tries  int // in a row without an answer, this one included
	broken bool
}

// kept reads what there is of a session: nothing where a run has finished in the epoch already, whose state is newer. What is to be given back
// is counted first: a death before the answer is charged to the state, on whichever node it happens.
func (c *WorkerConfig) kept(ctx context.Context, e *messages.Execution) (kept, error) {
	session, err := c.Sessions.GetSession(ctx, c.PoolName, e.Session)
	if err != nil || session.FinishedEpoch >= e.SessionEpoch {
		return kept{}, err
	}
	if session.SnapshotEpoch == 0 && e.Affinity != messages.AffinityStrictFail {
		return kept{}, nil
	}
	if session.SnapshotEpoch == 0 {
		trouble, err := c.Sessions.StateTrouble(ctx, c.PoolName, e.Session)
		return kept{broken: trouble.Aside != nil && trouble.Aside.SessionEpoch == e.SessionEpoch}, err
	}
	state, of, err := c.Sessions.Snapshot(ctx, c.PoolName, e.Session)
	if err != nil || of != session.SnapshotEpoch {
		return kept{}, err
	}
	tries, err := c.Sessions.TryState(ctx, store.StateTry{
		Pool: c.PoolName, Session: e.Session, Epoch: session.SnapshotEpoch, Runs: session.SnapshotRuns, SessionEpoch: e.SessionEpoch,
		Worker: e.WorkerID, By: e.Placement(),
	})
	if err != nil {
		return kept{}, err
	}
	if tries > store.StateTriesMax {
		c.Logger.Error("session state set aside: it ended each worker that it was given back to", "session", e.Session, "pool", c.PoolName, "tries", tries-1)
		return kept{broken: true}, nil
	}
	return kept{state: state, behind: session.Runs - session.SnapshotRuns, tries: tries}, nil
}

// stop begins the stop ladder of the run. The first cause counts.
func (s *runSlot) stop(cause stopCause, why string) {
	r := s.run
	if r == nil || r.stop != notStopped {
		return
	}
	r.stop, r.stopText = cause, why
	if r.tries > 0 && (cause == stopCancel || cause == stopHalt) { // Troupe ends the program, and not the state
		r.tries = 0
		s.endTry(r.Execution)
	}
	r.ladder = process.StopRun(s.target(r), s.world.Now(), s.runner.Traits().Cancels, s.cfg.Graces)
	s.step()
}

func (s *runSlot) step() { s.run.ladder = s.climb(s.run.ladder, s.run, s.stepDue) }

// stepDue takes the next step of the ladder of a run, where that still runs.
func (s *runSlot) stepDue(target process.Target) {
	if s.run != nil && s.run.ladder.Stops(target) {
		s.step()
	}
}

// take takes the run off the slot; nil: what has ended is another one.
func (s *runSlot) take(p messages.Placement) *Run {
	r := s.run
	if r == nil || r.Placement() != p {
		return nil
	}
	s.disarm()
	s.run = nil
	return r
}

// disarm ends the run's timers.
func (s *runSlot) disarm() {
	if r := s.run; r != nil {
		stopTimer(r.deadline)
		stopTimer(r.stall)
	}
}

// free implements occupancy.
func (s *runSlot) free() bool { return s.run == nil }

// holds implements occupancy.
func (s *runSlot) holds(p messages.Placement) bool { return s.run != nil && s.run.Placement() == p }

// ran implements occupancy.
func (s *runSlot) ran() time.Duration {
	if s.run == nil {
		return 0
	}
	return s.world.Now().Sub(s.run.Started)
}

// left implements occupancy.
func (s *runSlot) left() int {
	if s.worn {
		return 0
	}
	if s.cfg.RunsMax <= 0 {
		return -1
	}
	return max(s.cfg.RunsMax-s.begun, 0)
}
