package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Item is one change with what its pool wants to know about it.
type Item struct {
	Change store.Change
	Worker messages.WorkerKey
	Took   time.Duration // of the run that a Finish ends
	// Restored: a snapshot was restored for the run.
	Restored bool
	// Fault: the run's end is the worker's fault.
	Fault bool
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
}

// Committed carries everything of one transaction that concerns one pool.
type Committed struct{ Records []*Recorded }

// ChangeQuestion asks for changes from outside the tree, with the answer.
type ChangeQuestion = Question[*Record, []store.Result]

// groupMax bounds the changes of one transaction.
const groupMax = 4096

// RecorderConfig is what a recorder needs.
type RecorderConfig struct {
	System   *System
	Store    store.Executions
	Outcomes *Outcomes
	Logger   hclog.Logger
	// Observe, where set, is told of each transaction: its changes and how long it took.
	Observe func(changes int, took time.Duration)
	// OnResult, where set, is told of every result, for the counters of stale writes, outcomes and take-backs.
	OnResult func(Item, store.Result)
}

// Recorder groups every execution change of this node into few transactions: while one is in flight the next
// collects, so nobody waits for a timer and one caller alone pays one commit. After a store error, whose commit is
// unknown, the group is repeated until the store answers; the changes are made for that.
type Recorder struct {
	cfg     RecorderConfig
	ctx     context.Context
	cancel  context.CancelFunc
	cell    *Cell
	waiting []pendingRecord
	busy    bool
}

type pendingRecord struct {
	record *Record
	answer *ChangeQuestion
}

// recorded is the end of one transaction; err is set only when the recorder is being stopped.
type recorded struct {
	group   []pendingRecord
	results []store.Result
	err     error
}

// NewRecorder returns the child to spawn.
func NewRecorder(cfg RecorderConfig) Child {
	cell := &Cell{}
	return Child{Name: "recorder", Kind: "recorder", Cell: cell, New: func() actor.Actor {
		return &Recorder{cfg: cfg, cell: cell}
	}}
}

// Receive implements actor.Actor.
func (r *Recorder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.ctx, r.cancel = context.WithCancel(context.Background())
	case *actor.Stopping:
		r.cancel()
	case *actor.Stopped:
	case *Record:
		r.take(ctx, pendingRecord{record: m})
	case *ChangeQuestion:
		r.take(ctx, pendingRecord{record: m.Ask, answer: m})
	case *recorded:
		r.done(ctx, m)
	default:
		r.cfg.System.Registry.Unknown(ctx)
	}
}

func (r *Recorder) take(ctx actor.Context, p pendingRecord) {
	r.waiting = append(r.waiting, p)
	if !r.busy {
		r.flush(ctx)
	}
}

// flush starts a transaction with what waits, up to the bound.
func (r *Recorder) flush(ctx actor.Context) {
	if len(r.waiting) == 0 {
		return
	}
	n, count := 0, 0
	for n < len(r.waiting) && (n == 0 || count+len(r.waiting[n].record.Items) <= groupMax) {
		count += len(r.waiting[n].record.Items)
		n++
	}
	group := make([]pendingRecord, n)
	copy(group, r.waiting)
	r.waiting = append(r.waiting[:0], r.waiting[n:]...)
	r.busy = true
	self := ctx.Self()
	go r.apply(self, group, count)
}

// apply makes one transaction, repeating it until the store answers or the recorder stops.
func (r *Recorder) apply(self *actor.PID, group []pendingRecord, count int) {
	changes := make([]store.Change, 0, count)
	for _, p := range group {
		for i := range p.record.Items {
			changes = append(changes, p.record.Items[i].Change)
		}
	}
	start := time.Now()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		results, err := r.cfg.Store.Apply(r.ctx, changes)
		if err == nil {
			r.observe(len(changes), time.Since(start))
			r.cfg.System.Send(self, &recorded{group: group, results: results})
			return
		}
		r.cell.Update(func(s *Status) { s.State, s.Why = "waiting", "store: "+err.Error() })
		r.cfg.Logger.Warn("store did not take changes, repeating", "changes", len(changes), "error", err)
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
			r.cfg.System.Send(self, &recorded{group: group, err: err})
			return
		}
	}
}

func (r *Recorder) observe(changes int, took time.Duration) {
	if r.cfg.Observe != nil {
		r.cfg.Observe(changes, took)
	}
}

// done tells everybody concerned, then starts the next transaction. The next one starts first, so that the store
// works while the telling goes on.
func (r *Recorder) done(ctx actor.Context, m *recorded) {
	r.busy = false
	if m.err != nil {
		for _, p := range m.group {
			if p.answer != nil {
				p.answer.Reply(nil, m.err)
			}
		}
		return
	}
	r.cell.Update(func(s *Status) { s.State, s.Why = "", "" })
	r.flush(ctx)
	r.tell(ctx, m)
}

func (r *Recorder) tell(ctx actor.Context, m *recorded) {
	var pools poolRecords
	at := 0
	for _, p := range m.group {
		n := len(p.record.Items)
		done := &Recorded{Items: p.record.Items, Results: m.results[at : at+n]}
		at += n
		r.announce(done)
		if p.answer != nil {
			p.answer.Reply(done.Results, nil)
		}
		if p.record.Reply != nil {
			ctx.Send(p.record.Reply, done)
		}
		if p.record.Pool != nil {
			pools.add(p.record.Pool, done)
		}
	}
	for i, pid := range pools.pids {
		ctx.Send(pid, &Committed{Records: pools.records[i]})
	}
}

// announce hands outcomes to whoever waits for them.
func (r *Recorder) announce(done *Recorded) {
	for i := range done.Results {
		result := &done.Results[i]
		if r.cfg.OnResult != nil {
			r.cfg.OnResult(done.Items[i], *result)
		}
		if result.Verdict == store.Applied && result.Status.Terminal() && result.Execution != nil {
			r.cfg.Outcomes.Publish(result.Execution)
		}
	}
}

// poolRecords groups records by pool. A node has few pools, so a scan beats a map.
type poolRecords struct {
	pids    []*actor.PID
	records [][]*Recorded
}

func (p *poolRecords) add(pid *actor.PID, done *Recorded) {
	for i, known := range p.pids {
		if known.Id == pid.Id {
			p.records[i] = append(p.records[i], done)
			return
		}
	}
	p.pids = append(p.pids, pid)
	p.records = append(p.records, []*Recorded{done})
}

// unknownTotal counts messages that an actor did not understand, over the process's life.
var unknownTotal atomic.Int64

// Unknown counts a message that the actor's switch has no case for. Lifecycle messages of the library that an actor
// need not know are left alone.
func (r *Registry) Unknown(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Terminated, *actor.Watch, *actor.Unwatch, *actor.PoisonPill, *actor.DeadLetterResponse:
	default:
		unknownTotal.Add(1)
	}
}

// UnknownTotal is the number of messages that found no case in their actor's switch.
func UnknownTotal() int64 { return unknownTotal.Load() }
