package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/throttle"
	"github.com/troupe-run/troupe/store"
)

// Item is one change with what its pool wants to know about it.
type Item struct {
	Change store.Change
	Worker messages.WorkerKey
	Took   time.Duration // of the run that a Finish ends
	// Restored: a snapshot that was not behind was restored for the run.
	Restored bool
	// Lost: the run was told that its session's state was lost.
	Lost bool
	// Session is the one whose state the run that a Finish ends has left with its worker; zero: none.
	Session store.SessionRef
	// Fault: the run's end is the worker's fault.
	Fault bool
	// Told, where set, is called by the worker that has asked, with what became of the change; by nobody if the worker has ended.
	Told func(*store.Result)
	// Written, where set, is called by the recorder with what became of the change. It must not block.
	Written func(*store.Result)
}

// Record asks the recorder to make changes. They are made in order, together with what others ask for.
type Record struct {
	Items []Item
	// Pool, where set, gets a Committed with every Recorded of a transaction that concerns it.
	Pool *actor.PID
	// Reply, where set, gets the Recorded.
	Reply *actor.PID
}

// Recorded says what became of a Record. It is shared and must not be changed.
type Recorded struct {
	Items   []Item
	Results []store.Result
	Late    bool // a Deferred was sent for it
}

// Deferred tells who asked that changes cannot be made for now, such as for a row that is locked. The recorder keeps and
// repeats them; nobody need wait for them. Their Recorded comes when they are made.
type Deferred struct {
	Changes int
	Claims  int // of the changes
}

// Committed carries everything of one transaction that concerns one pool.
type Committed struct{ Records []*Recorded }

// ChangeQuestion asks for changes from outside the tree, with the answer.
type ChangeQuestion = Question[*Record, []store.Result]

// repeatTold is how often the log repeats that the store does not take changes.
const repeatTold = time.Minute

// RecorderConfig is what a recorder needs.
type RecorderConfig struct {
	System   *System
	Store    store.Executions
	Outcomes *Outcomes
	Logger   hclog.Logger
	// Lanes is how many transactions may be under way at once; 0: one. A store with one writer gains nothing by more.
	Lanes int
	// Observe, where set, is told of each transaction: its changes and how long it took.
	Observe func(changes int, took time.Duration)
	// OnResult, where set, is told of every result, for the counters of stale writes, outcomes and take-backs.
	OnResult func(Item, store.Result)
	// OnTransaction, where set, is told of all that a transaction made, once.
	OnTransaction func([]Recorded)
	// Elsewhere, where set, is told of every outcome that this recorder has stored, as Outcomes.Publish is. It must not block.
	Elsewhere func(*messages.Execution)
	// Webhooks, where set, is told after a transaction that gave an outcome to an execution with a webhook.
	Webhooks func()
	// Notices, where set, is told after a transaction that gave an outcome to an execution with Notify set.
	Notices func()
	// Backlog holds what is asked of the recorder over its restarts; nil: its own, lost with it.
	Backlog *Backlog
}

// Recorder groups every execution change of this node into few transactions: while one is in flight the next
// collects, so nobody waits for a timer and one caller alone pays one commit. Where the store has several lanes, a large
// group begins beside another: whoever asks for an execution's next change waits for the one before, and what comes to
// it from elsewhere, such as a cancel, waits for it too. After a store error, whose commit is unknown, the group is repeated
// until the store answers; the changes are made for that. Where something in the group may be to blame, it is divided until
// that stands alone, and the others pass (see apart).
type Recorder struct {
	cfg     RecorderConfig
	real    *RealWorld
	world   World
	cell    *Cell
	backlog *Backlog
	gathers bool // what waits is let grow for a moment

	wakes     time.Time // when it looks at the parts that wait for their time; zero: they wait for something else
	apartTold time.Time // when the log was last told of changes that are apart
	panicTold time.Time // when the log was last told of a telling that panicked
	abandoned Repeated
}

// abandonedLines bounds the lines about abandoned executions, a minute: a node that dies may leave many.
const abandonedLines = 10

// recorded is the end of one transaction; err says why the store did not make it.
type recorded struct {
	flight  *flight
	results []store.Result
	err     error
}

// NewRecorder returns the child to spawn.
func NewRecorder(cfg RecorderConfig) Child {
	cell := &Cell{}
	backlog := cfg.Backlog
	if backlog == nil {
		backlog = &Backlog{}
	}
	return Child{Name: "recorder", Kind: "recorder", Cell: cell, Keep: backlog.keep, New: func() actor.Actor {
		return &Recorder{cfg: cfg, cell: cell, backlog: backlog, abandoned: Repeated{gate: throttle.Gate{Burst: abandonedLines}}}
	}}
}

// Receive implements actor.Actor.
func (r *Recorder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.real = NewWorld(r.cfg.System, ctx.Self())
		r.begin(r.real)
	case *actor.Stopping:
		r.real.End()
	case *actor.Stopped:
	case *Resume:
		r.real.Resume(m)
	case *look:
		r.look()
	default:
		r.cfg.System.Registry.Unknown(ctx)
	}
}

// begin goes on with what the recorder before this one has left.
func (r *Recorder) begin(world World) {
	r.world = world
	r.backlog.again()
	r.flush()
	r.world.After(lateTime, r.look)
}

// lateTime is how long a sender may take that has looked the recorder before this one up. Its signal went to that one, so this one
// looks by itself.
const lateTime = time.Second

// look starts what has come.
func (r *Recorder) look() {
	r.backlog.looked()
	r.flush()
}

// gatherTime is how long the next transaction is let grow behind one that had gatherMin changes or more: those it told of
// will ask for their next changes at once, and few large transactions cost less than many small ones.
const (
	gatherTime = 500 * time.Microsecond
	gatherMin  = 8
)

// gather lets the next transaction grow.
func (r *Recorder) gather() {
	r.gathers = true
	r.world.After(gatherTime, func() {
		r.gathers = false
		r.flush()
	})
}

// flush starts the transactions that may begin now.
func (r *Recorder) flush() {
	r.flushApart()
	if r.gathers && r.backlog.few() {
		return
	}
	for f := r.backlog.depart(max(r.cfg.Lanes, 1)); f != nil; f = r.backlog.depart(max(r.cfg.Lanes, 1)) {
		f.began = r.world.Now()
		r.apply(f)
	}
	r.tellParked()
}

// apply asks the store for one transaction.
func (r *Recorder) apply(f *flight) {
	r.world.Beside(0, func(ctx context.Context) func() {
		results, err := r.ask(ctx, f)
		return func() { r.applied(f, results, err) }
	})
}

// applied takes the store's answer. A transaction whose answer says nothing of it is repeated until there is one that does.
func (r *Recorder) applied(f *flight, results []store.Result, err error) {
	if err == nil || errors.Is(err, store.ErrClosed) || store.MayPassInParts(err) && !r.backlog.crowded(f) { // it will never take them, or not together
		r.done(&recorded{flight: f, results: results, err: err})
		return
	}
	f.unsure = true
	r.cell.Update(func(s *Status) { s.State, s.Why = "waiting", "store: "+err.Error() })
	if now := r.world.Now(); now.Sub(f.told) >= repeatTold {
		f.told = now
		r.cfg.Logger.Warn("store did not take changes, repeating", "changes", f.changes, "since", f.began, "error", err)
	}
	f.wait = repeatWait(f.wait)
	r.world.After(f.wait, func() { r.apply(f) })
}

// repeatWait is how long the next repetition waits that follows one which has waited so long.
func repeatWait(before time.Duration) time.Duration {
	return min(max(2*before, 20*time.Millisecond), time.Second)
}

// ask asks the store once for a transaction. It runs beside the actor.
func (r *Recorder) ask(ctx context.Context, f *flight) ([]store.Result, error) {
	changes := f.list()
	results, err := r.cfg.Store.Apply(ctx, changes)
	if err == nil && len(results) != len(changes) {
		err = fmt.Errorf("the store answered %d of %d changes", len(results), len(changes))
	}
	if err == nil {
		r.observe(len(changes), r.world.Now().Sub(f.began))
	}
	return results, err
}

func (r *Recorder) observe(changes int, took time.Duration) {
	if r.cfg.Observe == nil {
		return
	}
	if err := Contain(func() { r.cfg.Observe(changes, took) }); err != nil {
		r.cfg.Logger.Error("observer of transactions panicked", "error", err)
	}
}

// done tells everybody concerned, then starts the next transaction. The next one starts first, so that the store
// works while the telling goes on.
func (r *Recorder) done(m *recorded) {
	if m.err != nil {
		r.failed(m)
		return
	}
	made := m.flight
	r.backlog.settle(made, r.divideResults(m), r.world.Now())
	r.cell.Update(func(s *Status) { s.State, s.Why = "", "" })
	if made.changes >= gatherMin && !r.gathers {
		r.gather()
	}
	r.flush()
	r.tell(m)
}
