package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// Worker is one generation of one slot: an explicit lifecycle, one runner, at most one run at a time. It holds the
// placements that were delivered to it until it is free, and claims one only then.
type Worker struct {
	cfg  *WorkerConfig
	key  messages.WorkerKey
	id   messages.WorkerID
	gen  messages.Generation
	cell *Cell

	self    *actor.PID
	runner  Runner
	machine lifecycle.Machine
	counts  health.Counters
	grade   health.Grade
	ready   bool // has been ready once

	queue    []queued              // delivered, not claimed
	claimed  []*messages.Execution // claimed ahead, not started
	lingers  *time.Timer           // until what is claimed ahead is looked at; nil: nothing is
	cancels  map[messages.Placement]struct{}
	claiming int // claims under way
	writing  int // changes under way
	runs     int // begun, in this generation
	run      *Run
	held     *checkin // a check-in that waits for a probe
	shaky    bool     // the run was taken while degraded: its check-in probes first

	probe         probing
	retire        *Retire
	snapshots     int  // answers still to come before a retired worker ends
	parting       bool // it waits for them, or is about to ask
	knownSessions map[string]*knownSession
	pause         *keepPause
	pauses        uint64 // how many there were
	saving        bool   // what a pause brought is being written
	leaving       *leaving
	by            string // who asked for its end; empty: nobody
	trace         string // where its code failed, of a worker that never became ready
	initial       *time.Timer
	suspended     *time.Timer // until the lease is looked at again; nil: nothing waits for it
}

// NewWorker returns the child to spawn for one generation of a slot.
func NewWorker(cfg *WorkerConfig, slot messages.Slot, gen messages.Generation, id messages.WorkerID, cell *Cell) Child {
	return Child{Name: fmt.Sprintf("%d.%d", slot, gen), Kind: "worker", Cell: cell, New: func() actor.Actor {
		return &Worker{
			cfg: cfg, id: id, gen: gen, cell: cell, grade: health.Healthy,
			key: messages.WorkerKey{Incarnation: cfg.Incarnation, Pool: cfg.PoolName, Slot: slot},
		}
	}}
}

// Receive implements actor.Actor.
func (w *Worker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.start(ctx)
	case *actor.Stopping:
		w.stopping()
	case *actor.Stopped:
	case *Execute:
		w.execute(m)
	case *Deferred:
		w.deferred(ctx, m)
	case *Recorded:
		w.recorded(ctx, m)
	case *ended:
		w.ended(ctx, m)
	case *sign:
		w.signed()
	case *Drop:
		w.drop(m.Placement)
	case *CancelRun:
		w.cancel(ctx, m)
	case *ladderDue:
		w.climb(ctx, m)
	case *deadline:
		w.deadline(ctx, m)
	case *begun:
		w.begun(ctx, m)
	case *gone:
		w.gone(ctx, m)
	case *Probe:
		w.startProbe(m.Answer)
	case *probed:
		w.probed(ctx, m)
	case *probeLate:
		w.probeLate(ctx, m)
	case *restoring:
		w.restored(m)
	case *EndSession:
		w.forgetSession(m)
	case *lingering:
		w.lingering()
	case *lookAgain:
		w.suspended = nil
		w.next(nil)
	case *snapshot:
		w.snapshot(ctx, m)
	case *pauseOver:
		w.pauseOver(m)
	case *pauseSaved:
		w.pauseSaved(ctx)
	case *snapshotSaved:
		w.snapshotSaved(ctx)
	case *snapshotLate:
		w.snapshotsLate(ctx)
	case *Retire:
		w.retiring(ctx, m)
	case *Halt:
		w.halt(ctx, m)
	case *Expired:
		w.expired(ctx, m)
	case *Echo:
		ctx.Send(w.cfg.Pool, &EchoAnswered{ID: m.ID})
	case *InspectQuestion:
		m.Reply(w.inspect(), nil)
	default:
		w.cfg.System.Registry.Unknown(ctx)
	}
}

func (w *Worker) start(ctx actor.Context) {
	w.self = ctx.Self()
	now := time.Now()
	w.machine = lifecycle.New(w.id, now)
	w.show()
	w.runner = w.cfg.Runner(w.cfg, w.id, w.gen)
	if w.runner.Traits().LongLived {
		w.initial = w.later(w.cfg.InitTimeout, &begun{err: errInitTimeout})
	}
	w.runner.Begin(w.post)
}

// post hands a message of the runner to the worker. A generation has an address of its own, so what comes late finds
// nobody and is counted.
func (w *Worker) post(message any) { w.cfg.System.Send(w.self, message) }

func (w *Worker) later(d time.Duration, message any) *time.Timer {
	self, system := w.self, w.cfg.System
	return time.AfterFunc(d, func() { system.Send(self, message) })
}

func (w *Worker) begun(ctx actor.Context, m *begun) {
	if w.machine.State() != lifecycle.Initializing {
		return
	}
	stopTimer(w.initial)
	if m.err != nil {
		w.startFailed(ctx, m.err)
		return
	}
	w.ready = true
	w.transition(lifecycle.InitComplete, lifecycle.Metadata{})
	w.next(nil)
}

// startFailed ends a worker that never became ready.
func (w *Worker) startFailed(ctx actor.Context, err error) {
	kind, reason := lifecycle.InitFailed, lifecycle.Error
	switch {
	case errors.Is(err, errInitTimeout):
		kind, reason = lifecycle.InitTimedOut, lifecycle.Timeout
	case errors.Is(err, process.ErrShortage):
		kind = lifecycle.NodeShort
		w.tellShort(err)
	}
	verdict := lifecycle.Recover(lifecycle.Failure{Kind: kind, Text: err.Error()}, w.snapshotState())
	failure := startErrorOf(err, w.runner)
	w.trace = failure.Traceback
	w.leave(ctx, reason, verdict.Cause, "worker initialization failed: "+failure.Why, false)
}

// stopping releases what outlives the actor: its timers. A runner's process is ended by the guardian's order that
// leave gave, or, when this actor is stopped out of turn, by a hard stop here.
func (w *Worker) stopping() {
	stopTimer(w.initial)
	stopTimer(w.probe.timer)
	stopTimer(w.probe.again)
	stopTimer(w.suspended)
	stopTimer(w.lingers)
	w.endPause()
	if w.run != nil {
		stopTimer(w.run.deadline)
		stopTimer(w.run.stall)
	}
	if w.runner != nil && (w.run != nil || w.leaving == nil || !w.leaving.gone) {
		w.abort()
	}
}

// transition takes an edge that the worker's own logic has made legal, and tells whoever must know. An illegal one is
// a broken invariant of the worker: it is logged and changes nothing.
func (w *Worker) transition(reason lifecycle.Reason, meta lifecycle.Metadata) {
	entry, err := w.machine.Transition(reason, time.Now(), meta)
	if err != nil {
		w.cfg.Logger.Error("illegal transition refused", "worker", w.id, "error", err)
		return
	}
	w.entered(entry)
}

func (w *Worker) transitionTo(to lifecycle.State, reason lifecycle.Reason, meta lifecycle.Metadata) {
	entry, err := w.machine.TransitionTo(to, reason, time.Now(), meta)
	if err != nil {
		w.cfg.Logger.Error("illegal transition refused", "worker", w.id, "error", err)
		return
	}
	w.entered(entry)
}

func (w *Worker) entered(entry lifecycle.Entry) {
	if w.cfg.Transitions != nil {
		w.cfg.Transitions(w.cfg.PoolName, entry)
	}
	w.show()
	if entry.Reason.Quiet() {
		if w.cfg.Logger.IsDebug() {
			w.cfg.Logger.Debug("worker changed", "worker", w.id, "from", entry.From, "to", entry.To, "reason", entry.Reason)
		}
		return
	}
	what := []any{"worker", w.id, "generation", w.gen, "from", entry.From, "to", entry.To, "reason", entry.Reason}
	if entry.News() {
		w.cfg.Logger.Info("worker changed", what...)
	} else {
		w.cfg.Logger.Debug("worker changed", what...)
	}
	w.tell(&entry)
}

// tell brings the pool up to date.
func (w *Worker) tell(entry *lifecycle.Entry) {
	w.cfg.System.Send(w.cfg.Pool, &WorkerChanged{
		Slot: w.key.Slot, Generation: w.gen, Entry: entry, State: w.machine.State(), Health: w.machine.Health(),
		Grade: w.grade, Report: w.report(), Pid: w.runner.Pid(), Spent: w.spent(),
	})
}

func (w *Worker) show() {
	w.cell.Update(func(s *Status) {
		s.State, s.Health, s.Grade = w.machine.State().String(), w.machine.Health().String(), w.grade.String()
		s.Since = w.machine.EnteredAt()
		s.Report = w.report()
		s.Execution = messages.ExecutionID{}
		if w.run != nil {
			s.Execution = w.run.Execution.ID
		}
	})
}

func (w *Worker) report() health.Capabilities {
	return health.Describe(&w.counts, w.grade, len(w.queue)+len(w.claimed), w.probe.last)
}

func (w *Worker) inspect() Inspection {
	i := Inspection{
		Worker: w.id, Generation: w.gen, State: w.machine.State(), Health: w.machine.Health(), Report: w.report(),
		History: w.machine.History(), Pid: w.runner.Pid(),
	}
	if w.run != nil {
		i.Execution = w.run.Execution.ID
	}
	return i
}

func (w *Worker) snapshotState() lifecycle.Snapshot {
	return lifecycle.Snapshot{
		State: w.machine.State(), Executing: w.run != nil, ProbeFailures: w.counts.ProbeFailures(),
		Faults: w.counts.Faults(), FaultLimit: w.cfg.Thresholds.FailuresDegraded,
	}
}

// record asks for changes. A worker that ends waits for the answer to its claims, which it may have to give back.
func (w *Worker) record(items []Item) {
	if len(items) == 0 {
		return
	}
	w.writing += len(items)
	w.claiming += claims(items)
	w.cfg.System.Send(w.cfg.Recorder, &Record{Items: items, Pool: w.cfg.Pool, Reply: w.self})
}

func (w *Worker) item(change store.Change) Item { return Item{Change: change, Worker: w.key} }

// claims counts the claims among changes.
func claims(items []Item) (n int) {
	for i := range items {
		if _, claim := items[i].Change.(*store.Claim); claim {
			n++
		}
	}
	return n
}
