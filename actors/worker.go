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
// placements that were delivered to it until it is free, and claims one only then. The actor has the mailbox; what it knows
// and does is in its parts.
type Worker struct {
	workerShell
	real *RealWorld

	condition condition
	queue     workQueue
	slot      runSlot
	sessions  sessionStates
	last      *lastStates // nil: the worker does not leave
	prober    prober
	recovery  recovery
	ending    ending
	initial   Timer // until the runner must have begun
}

// NewWorker returns the child to spawn for one generation of a slot.
func NewWorker(cfg *WorkerConfig, slot messages.Slot, gen messages.Generation, id messages.WorkerID, cell *Cell) Child {
	return Child{Name: fmt.Sprintf("%d.%d", slot, gen), Kind: "worker", Cell: cell, New: func() actor.Actor {
		return newWorker(cfg, slot, gen, id, cell)
	}}
}

// newWorker makes the parts and what each knows of the others.
func newWorker(cfg *WorkerConfig, slot messages.Slot, gen messages.Generation, id messages.WorkerID, cell *Cell) *Worker {
	w := &Worker{workerShell: workerShell{
		cfg: cfg, id: id, number: slot, gen: gen, out: cfg.System,
	}}
	s := &w.workerShell
	w.condition = condition{workerShell: s, work: w, cell: cell, grade: health.Healthy}
	w.queue = workQueue{workerShell: s, flow: w, slot: &w.slot}
	w.slot = runSlot{workerShell: s, sessions: &w.sessions, worker: w}
	w.sessions = sessionStates{workerShell: s, flow: w}
	w.prober = prober{workerShell: s, worker: w}
	w.recovery = recovery{workerShell: s, worker: w, condition: &w.condition, prober: &w.prober}
	w.ending = ending{workerShell: s}
	return w
}

// Receive implements actor.Actor.
func (w *Worker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.real = NewWorld(w.cfg.System, ctx.Self())
		w.start(ctx.Self(), w.real)
	case *actor.Stopping:
		w.stopping()
	case *actor.Stopped:
	case *Resume:
		w.real.Resume(m)

	case *Execute: // of the pool
		w.execute(m)
	case *Take:
		w.take(m)
	case *HoldClaims:
		w.holdClaims(m)
	case *Drop:
		w.queue.drop(m.Placement)
	case *CancelRun:
		w.cancel(m)
	case *Probe:
		w.probe(m.Answer)
	case *EndSession:
		w.sessions.forget(m)
	case *Retire:
		w.retire(m)
	case *Halt:
		w.halt(m)
	case *Expired:
		w.expired(m)
	case *Echo:
		w.out.Send(w.cfg.Pool, &EchoAnswered{ID: m.ID})
	case *InspectQuestion:
		m.Reply(w.condition.inspect(), nil)

	case *Recorded: // of the recorder
		w.recorded(m)
	case *Deferred:
		w.deferred(m)

	case *begun: // of the runner
		w.begun(m)
	case *stateAnswered:
		w.slot.answered(m.placement)
	case *sign:
		w.slot.signed()
	case *ended:
		w.ended(m)
	case *gone:
		w.gone(m)
	case *lateFailure:
		w.failedLate(m)
	case *probed:
		w.prober.answered(m)
	case *snapshot:
		w.snapshot(m)
	default:
		w.cfg.System.Registry.Unknown(ctx)
	}
}

func (w *Worker) start(self *actor.PID, world World) {
	w.self, w.world = self, world
	w.condition.start()
	w.runner = w.cfg.Runner(w.cfg, w.id, w.gen)
	if w.runner.Traits().LongLived {
		w.initial = w.cfg.Awake.after(w.world, w.cfg.InitTimeout, func() { w.begun(&begun{err: errInitTimeout}) })
	}
	w.runner.Begin(w.post)
}

// post hands a message of the runner to the worker. A generation has an address of its own, so what comes late finds
// nobody and is counted.
func (w *Worker) post(message any) { w.out.Send(w.self, message) }

func (w *Worker) begun(m *begun) {
	if w.condition.machine.State() != lifecycle.Initializing {
		return
	}
	stopTimer(w.initial)
	if m.err != nil {
		w.startFailed(m.err)
		return
	}
	w.condition.ready = true
	w.condition.transition(lifecycle.InitComplete, lifecycle.Metadata{})
	w.next(nil)
}

// startFailed ends a worker that never became ready.
func (w *Worker) startFailed(err error) {
	kind, reason := startFailure(err)
	if kind == lifecycle.NodeShort {
		w.tellShort(err)
	}
	verdict := lifecycle.Recover(lifecycle.Failure{Kind: kind, Text: err.Error()}, w.condition.facts())
	failure := startErrorOf(err, w.runner)
	w.ending.trace = failure.Traceback
	w.leave(reason, verdict.Cause, "worker initialization failed: "+failure.Why, false)
}

// startFailure is what the error of a start is for the recovery table, and the reason that the worker ends for.
func startFailure(err error) (lifecycle.FailureKind, lifecycle.Reason) {
	switch {
	case errors.Is(err, errInitTimeout):
		return lifecycle.InitTimedOut, lifecycle.Timeout
	case errors.Is(err, process.ErrShortage):
		return lifecycle.NodeShort, lifecycle.Error
	}
	return lifecycle.InitFailed, lifecycle.Error
}

// stopping releases what outlives the actor: its timers. A runner's process is ended by the guardian's order that
// leave gave, or, when this actor is stopped out of turn, by a hard stop here.
func (w *Worker) stopping() {
	if w.real == nil {
		return // it has not been started
	}
	w.real.End()
	stopTimer(w.initial)
	w.prober.stop()
	w.queue.stop()
	w.sessions.endPause()
	w.slot.disarm()
	if w.runner != nil && w.ending.aborts(w.slot.run != nil) {
		w.ending.abort(w.slot.run)
	}
}

// load implements loaded.
func (w *Worker) load() load {
	return load{
		queued: len(w.queue.delivered), claimed: len(w.queue.claimed), run: w.slot.run, spent: w.slot.left() == 0, checked: w.prober.last,
	}
}

// execute takes placements into the queue, unless the worker leaves: the pool takes them back then.
func (w *Worker) execute(m *Execute) {
	if !w.ending.begun() {
		w.queue.add(m)
		w.next(nil)
	}
}

// holdClaims has the worker claim nothing, or claim again.
func (w *Worker) holdClaims(m *HoldClaims) {
	w.queue.hold = m.Hold
	if !w.ending.begun() {
		w.next(nil)
	}
}

// take takes up what was claimed for the worker as it was stored, unless the worker leaves.
func (w *Worker) take(m *Take) {
	w.queue.take(m)
	if w.ending.begun() {
		w.giveBack()
	}
	w.goOn(nil)
}

// next implements flow.
func (w *Worker) next(items []Item) {
	if len(w.queue.claimed) > 0 && !w.cfg.Lease.Holds() {
		w.queue.giveBack("its node's lease has run out", w.ending.by) // others may have declared the node dead
	}
	if takes := !w.ending.begun() && w.condition.takes(); takes && w.slot.free() && w.sessions.pause == nil {
		if e := w.queue.pop(); e != nil {
			w.begin(e)
		}
	}
	w.queue.linger()
	if !w.ending.begun() && w.recovery.held == nil {
		items = w.queue.claim(items, w.condition.takes())
	}
	w.record(items)
}

// worn implements recovered.
func (w *Worker) worn() bool { return w.slot.worn }

// wear implements recovered.
func (w *Worker) wear() { w.slot.worn = true }

// record implements recovered.
func (w *Worker) record(items []Item) { w.queue.record(items) }

// goOn implements recovered.
func (w *Worker) goOn(items []Item) {
	if !w.ending.begun() {
		w.next(items)
		return
	}
	w.record(items)
	w.settle()
}

// begin starts a claimed execution.
func (w *Worker) begin(e *messages.Execution) {
	w.slot.put(e)
	w.recovery.checkout(e)
	if w.slot.left() == 0 {
		w.condition.tell(nil)
	}
	w.slot.start(w.queue.cancelled(e.Placement()))
}

// recorded hears what became of claims and finishes.
func (w *Worker) recorded(m *Recorded) {
	if !m.Late {
		w.queue.answered(len(m.Items), claims(m.Items))
	}
	for i := range m.Items {
		if m.Items[i].Told != nil {
			m.Items[i].Told(&m.Results[i])
		}
		if claim, ok := m.Items[i].Change.(*store.Claim); ok {
			w.queue.claimAnswered(claim, m.Results[i])
		} else {
			w.sessions.written(&m.Items[i], m.Results[i])
		}
	}
	if w.ending.begun() {
		w.giveBack()
	}
	w.goOn(nil)
}

// deferred goes on without what the recorder cannot write for now and keeps.
func (w *Worker) deferred(m *Deferred) {
	w.queue.answered(m.Changes, m.Claims)
	w.goOn(nil)
}

// giveBack returns what a worker that leaves has claimed.
func (w *Worker) giveBack() { w.queue.giveBack("its worker leaves", w.ending.by) }

// cancel stops the run it names, or keeps the wish for one that is claimed but has not begun.
func (w *Worker) cancel(m *CancelRun) {
	claimed := w.queue.claims(m.Placement)
	switch {
	case w.slot.holds(m.Placement):
		w.tellCancel(w.slot.run.Execution, m)
		w.slot.stop(stopCancel, "cancelled by "+orCaller(m.By))
	case claimed != nil:
		w.tellCancel(claimed, m)
		w.queue.cancel(m.Placement)
	default:
		w.queue.drop(m.Placement)
	}
}

// tellCancel logs that another node has passed on a cancel. The worker does it, which knows the trace of what it runs.
func (w *Worker) tellCancel(e *messages.Execution, m *CancelRun) {
	if !m.Peer.IsZero() {
		w.cfg.Logger.Info("run is to be cancelled, says a peer", append(e.LogFields(), "attempt", e.Attempt, "worker", w.id, "by", m.By, "peer", m.Peer)...)
	}
}

func orCaller(by string) string {
	if by == "" {
		return "a caller"
	}
	return by
}

// probe implements recovered: it sends a health check to the runner, unless one is under way.
func (w *Worker) probe(q *ProbeQuestion) {
	w.prober.await(q)
	if why, leaves := w.leaves(); leaves {
		w.prober.answer(endsFor(why))
		return
	}
	switch {
	case w.prober.running:
	case w.condition.machine.State() == lifecycle.Initializing:
		w.prober.answer("initializing")
	default:
		w.prober.start(!w.slot.free())
	}
}

// probeAgain implements probing.
func (w *Worker) probeAgain() { w.probe(nil) }

// probed implements probing.
func (w *Worker) probed(err error, took time.Duration) { w.recovery.probed(err, took) }

// snapshot takes the program's answer: for the pause that asked, or for the worker's end.
func (w *Worker) snapshot(m *snapshot) {
	if m.id != 0 {
		w.sessions.snapshot(m)
	} else {
		w.lastStates().snapshot(m)
	}
}

// expired counts a dead letter against the worker.
func (w *Worker) expired(m *Expired) {
	w.queue.drop(m.Placement)
	if !w.ending.begun() && w.condition.ready {
		w.recovery.expired()
	}
}
