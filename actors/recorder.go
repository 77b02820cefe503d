package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	// Restored: a snapshot that was not behind was restored for the run.
	Restored bool
	// Session is the one whose state the run that a Finish ends has left with its worker; zero: none.
	Session store.SessionRef
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

// askersMax bounds the records that may wait before callers from outside the tree are turned away. What actors ask for
// is bounded by themselves: each waits for its answer.
const askersMax = 20_000

// repeatTold is how often the log repeats that the store does not take changes.
const repeatTold = time.Minute

var errBacklog = fmt.Errorf("too many changes wait for the store: %w", store.ErrUnavailable)

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
	// Notices, where set, is told after a transaction that gave an outcome to an execution with Notify set.
	Notices func()
	// Backlog holds what is asked of the recorder over its restarts; nil: its own, lost with it.
	Backlog *Backlog
}

// Backlog is what a recorder has been asked for and has not told the end of. It outlives the actor: a recorder that
// fails is followed by one that goes on where it was. Changes that were made already say so when they are repeated.
type Backlog struct {
	mu       sync.Mutex
	waiting  []pendingRecord
	flying   []pendingRecord // in the transaction under way
	signaled bool            // a look is in the mailbox
}

// look tells the recorder that its backlog has something new.
type look struct{}

// keep is the recorder's Keep.
func (b *Backlog) keep(message any) (any, bool) {
	var p pendingRecord
	switch m := message.(type) {
	case *Record:
		p.record = m
	case *ChangeQuestion:
		p.record, p.answer = m.Ask, m
	default:
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.answer != nil && len(b.waiting) >= askersMax {
		p.answer.Reply(nil, errBacklog)
		return nil, true
	}
	b.waiting = append(b.waiting, p)
	if b.signaled {
		return nil, true
	}
	b.signaled = true
	return &look{}, true
}

// looked lets the next record signal again.
func (b *Backlog) looked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signaled = false
}

// again puts the transaction that a failed recorder had under way before everything else.
func (b *Backlog) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signaled = false
	b.waiting = append(b.flying, b.waiting...)
	b.flying = nil
}

// group takes what fits into one transaction, and how many changes that is.
func (b *Backlog) group() ([]pendingRecord, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, count := 0, 0
	for n < len(b.waiting) && (n == 0 || count+len(b.waiting[n].record.Items) <= groupMax) {
		count += len(b.waiting[n].record.Items)
		n++
	}
	group := make([]pendingRecord, n)
	copy(group, b.waiting)
	rest := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[rest:])
	b.waiting = b.waiting[:rest]
	b.flying = group
	return group, count
}

// told forgets the transaction that has ended.
func (b *Backlog) told() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flying = nil
}

// Recorder groups every execution change of this node into few transactions: while one is in flight the next
// collects, so nobody waits for a timer and one caller alone pays one commit. After a store error, whose commit is
// unknown, the group is repeated until the store answers; the changes are made for that.
type Recorder struct {
	cfg     RecorderConfig
	ctx     context.Context
	cancel  context.CancelFunc
	cell    *Cell
	backlog *Backlog
	busy    bool
}

type pendingRecord struct {
	record *Record
	answer *ChangeQuestion
}

// recorded is the end of one transaction; err is set only when the recorder is being stopped or the store is closed.
type recorded struct {
	by      *Recorder // an earlier one's end is not this one's
	group   []pendingRecord
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
		return &Recorder{cfg: cfg, cell: cell, backlog: backlog}
	}}
}

// Receive implements actor.Actor.
func (r *Recorder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.ctx, r.cancel = context.WithCancel(context.Background())
		r.backlog.again()
		r.flush(ctx)
	case *actor.Stopping:
		r.cancel()
	case *actor.Stopped:
	case *look:
		r.backlog.looked()
		if !r.busy {
			r.flush(ctx)
		}
	case *recorded:
		if m.by == r {
			r.done(ctx, m)
		}
	default:
		r.cfg.System.Registry.Unknown(ctx)
	}
}

// flush starts a transaction with what waits, up to the bound.
func (r *Recorder) flush(ctx actor.Context) {
	group, count := r.backlog.group()
	if len(group) == 0 {
		return
	}
	r.busy = true
	self := ctx.Self()
	go r.apply(self, group, count)
}

// apply makes one transaction, repeating it until the store answers or the recorder stops.
func (r *Recorder) apply(self *actor.PID, group []pendingRecord, count int) {
	defer r.cfg.System.Carry(self)
	changes := make([]store.Change, 0, count)
	for _, p := range group {
		for i := range p.record.Items {
			changes = append(changes, p.record.Items[i].Change)
		}
	}
	start, told := time.Now(), time.Time{}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		results, err := r.cfg.Store.Apply(r.ctx, changes)
		if err == nil && len(results) != len(changes) {
			err = fmt.Errorf("the store answered %d of %d changes", len(results), len(changes))
		}
		if err == nil {
			r.observe(len(changes), time.Since(start))
			r.cfg.System.Send(self, &recorded{by: r, group: group, results: results})
			return
		}
		if errors.Is(err, store.ErrClosed) { // it will never take them
			r.cfg.System.Send(self, &recorded{by: r, group: group, err: err})
			return
		}
		r.cell.Update(func(s *Status) { s.State, s.Why = "waiting", "store: "+err.Error() })
		if time.Since(told) >= repeatTold {
			told = time.Now()
			r.cfg.Logger.Warn("store did not take changes, repeating", "changes", len(changes), "since", start, "error", err)
		}
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
			r.cfg.System.Send(self, &recorded{by: r, group: group, err: err})
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
	r.backlog.told()
	if m.err != nil {
		for _, p := range m.group {
			if p.answer != nil {
				p.answer.Reply(nil, m.err)
			}
		}
		r.flush(ctx)
		return
	}
	r.cell.Update(func(s *Status) { s.State, s.Why = "", "" })
	r.flush(ctx)
	r.tell(ctx, m)
}

func (r *Recorder) tell(ctx actor.Context, m *recorded) {
	var pools poolRecords
	at, notices := 0, false
	for _, p := range m.group {
		n := len(p.record.Items)
		done := &Recorded{Items: p.record.Items, Results: m.results[at : at+n]}
		at += n
		notices = r.announce(done) || notices
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
	if notices && r.cfg.Notices != nil {
		r.cfg.Notices()
	}
	for i, pid := range pools.pids {
		ctx.Send(pid, &Committed{Records: pools.records[i]})
	}
}

// announce hands outcomes to whoever waits for them, and reports whether one of them has a notice.
func (r *Recorder) announce(done *Recorded) (notices bool) {
	for i := range done.Results {
		result := &done.Results[i]
		if r.cfg.OnResult != nil {
			r.cfg.OnResult(done.Items[i], *result)
		}
		if !result.Status.Terminal() {
			continue
		}
		switch {
		case result.Verdict == store.Applied && result.Execution != nil:
			r.cfg.Outcomes.Publish(result.Execution)
			notices = notices || result.Execution.Notify
		case result.Verdict == store.Already: // made by a transaction whose answer was lost
			r.cfg.Outcomes.Publish(&messages.Execution{ID: done.Items[i].Change.Target(), Status: result.Status})
		}
	}
	return notices
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
