package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
	"github.com/troupe-run/troupe/tracing"
)

// How much one round of a sweep may do: sweepBatches batches of sweepBatch rows.
const (
	sweepBatch   = 500
	sweepBatches = 20
)

const (
	failedByMonitor = "execution_timeout_monitor"
	failedBySweep   = "sweep"
)

// sweep is one line of the table of sweeps: which executions are past a time that stands in their rows, and the change that follows.
type sweep struct {
	monitor string        // whose rounds it is part of
	every   time.Duration // between two rounds
	query   store.OverdueQuery
	change  func(context.Context, *messages.Execution) store.Change // nil: leave it alone
	done    func(count int)                                         // told how many were changed; nil: nobody is
}

// sweeper runs the sweeps. It asks the store which rows are due, and has the recorder make the changes.
type sweeper struct {
	store     overdue
	clock     *clock.Clock // the store's
	awake     *actors.Awake
	record    operate.Record
	judge     *actors.WorkerConfig
	takenBack func(pool, reason string)
	tracer    func() *tracing.Tracer // nil: it makes no spans
	logger    hclog.Logger

	sweeps []sweep
	places sweepPlaces
}

// overdue is what a sweeper asks of the store.
type overdue interface {
	Now(ctx context.Context) (time.Time, error)
	Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error)
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error)
}

func newSweeper(b *base, record operate.Record, judge *actors.WorkerConfig, takenBack func(pool, reason string)) *sweeper {
	s := &sweeper{store: b.store, clock: &b.clock, awake: &b.awake, record: record, judge: judge, takenBack: takenBack, logger: b.logger}
	s.tracer = func() *tracing.Tracer { return b.tracer } // the node makes it when it starts
	s.sweeps = s.table(&b.cfg)
	return s
}

// table is every sweep of a node.
func (s *sweeper) table(cfg *Config) []sweep {
	table := []sweep{
		{"orphans", cfg.SweepInterval, store.OverdueQuery{Deadline: store.Orphaned}, s.rescue, s.rescued},
		{"timeout", cfg.TimeoutCheckInterval, store.OverdueQuery{Deadline: store.StartBy, Age: cfg.ScheduledTimeout}, s.neverStarted, nil},
		{"timeout", cfg.TimeoutCheckInterval, store.OverdueQuery{Deadline: store.RunBy, Age: graces(cfg.Graces) + 30*time.Second}, s.overrun, nil},
		{"claims", cfg.SweepInterval, store.OverdueQuery{Deadline: store.ClaimBy}, s.unclaimed, nil},
		{"deadlines", cfg.SweepInterval, store.OverdueQuery{Deadline: store.QueueBy}, s.waitedForBusy, nil},
		{"deadlines", cfg.SweepInterval, store.OverdueQuery{Deadline: store.WorkerBy}, s.waitedForAny, nil},
	}
	if cfg.ClaimSweepOff {
		table = slices.DeleteFunc(table, func(of sweep) bool { return of.monitor == "claims" })
	}
	return table
}

// monitors are the names of the monitors that the sweeps need, in the table's order, and the time between two of their rounds.
func (s *sweeper) monitors() (names []string, every map[string]time.Duration) {
	every = map[string]time.Duration{}
	for i := range s.sweeps {
		name := s.sweeps[i].monitor
		if every[name] == 0 {
			names = append(names, name)
		}
		every[name] = s.sweeps[i].every
	}
	return names, every
}

// round runs the sweeps of one monitor. One that fails keeps no other from its work.
func (s *sweeper) round(ctx context.Context, monitor string) error {
	var errs []error
	for i := range s.sweeps {
		of := &s.sweeps[i]
		if of.monitor != monitor {
			continue
		}
		count, err := s.run(ctx, of.query, of.change)
		if count > 0 && of.done != nil {
			of.done(count)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// rescueOrphans gives back what dead incarnations had on their workers.
func (s *sweeper) rescueOrphans(ctx context.Context) error { return s.round(ctx, "orphans") }

// rescue gives back what a dead incarnation had on a worker. Where it cannot be found out which nodes have ended with it before, it stays
// for the next round.
func (s *sweeper) rescue(ctx context.Context, e *messages.Execution) store.Change {
	if e.Status != messages.Running {
		why := "its node ended before it started"
		if e.Status.Started() {
			why = retry.NodeEnded
		}
		return s.judge.RescueOf(e, failedBySweep, why)
	}
	before, err := s.endedWith(ctx, e)
	if err != nil {
		s.logger.Warn("work of an ended node not given back yet", "execution", e.ID, "error", err)
		return nil
	}
	return s.judge.RescueFromNode(e, before, failedBySweep)
}

// endedWith names the nodes that have ended while they ran the execution or what it retries, oldest first. The first run of the first
// execution of a chain needs no look.
func (s *sweeper) endedWith(ctx context.Context, e *messages.Execution) (nodes []string, err error) {
	chain := []messages.Execution{*e}
	if e.RetryCount > 0 {
		if chain, err = s.store.Chain(ctx, e.ID); err != nil {
			return nil, err
		}
	} else if e.Attempt <= 1 {
		return nil, nil
	}
	for i := range chain {
		events, err := s.store.Events(ctx, chain[i].ID)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, nodeDeaths(&chain[i], events)...)
	}
	return nodes, nil
}

// nodeDeaths names the nodes that ended while they ran an execution: those after which it was placed again, and the one that ended it.
func nodeDeaths(e *messages.Execution, events []store.Event) (nodes []string) {
	for _, v := range events {
		if v.Kind == "rescue" && v.Reason == retry.NodeEnded {
			nodes = append(nodes, messages.WorkerID(v.Worker).Node())
		}
	}
	if e.Status == messages.Abandoned && e.Error != nil && e.Error.FailedBy == failedBySweep {
		nodes = append(nodes, e.WorkerID.Node())
	}
	return nodes
}

func (s *sweeper) rescued(count int) {
	s.logger.Warn("work of an ended node given back", "executions", count)
}

// unclaimed takes back what was not claimed in time.
func (s *sweeper) unclaimed(_ context.Context, e *messages.Execution) store.Change {
	return &store.TakeBack{
		ID: e.ID, Attempt: e.Attempt, Reason: "claim_timeout", Delay: retry.TakeBackDelay(e.TakeBacks + 1),
	}
}

// waitedForBusy ends what has waited past its own deadline for a worker that has room.
func (s *sweeper) waitedForBusy(_ context.Context, e *messages.Execution) store.Change {
	return s.end(e, messages.CodeQueueDeadline, "waited for a busy worker past its queue deadline", failedBySweep)
}

// waitedForAny ends what has waited past its own deadline for a pool to have any worker.
func (s *sweeper) waitedForAny(_ context.Context, e *messages.Execution) store.Change {
	return s.end(e, messages.CodeNoWorkers, "no workers available until the end of its wait", failedBySweep)
}

// neverStarted ends what was placed long ago and never started. It is a safety net, as overrun is.
func (s *sweeper) neverStarted(_ context.Context, e *messages.Execution) store.Change {
	s.logger.Warn("Execution has been scheduled for too long", append(e.LogFields(), "first_placed", e.FirstPlacedAt)...)
	return s.end(e, messages.CodeStartTimeout, "Execution timeout: worker did not pick up task within timeout", failedByMonitor)
}

// overrun ends a run whose deadline is long past: its worker would have stopped it.
func (s *sweeper) overrun(_ context.Context, e *messages.Execution) store.Change {
	o := messages.Outcome{Status: messages.TimedOut, Error: &messages.Error{
		Code: messages.CodeTimeout, Message: fmt.Sprintf("ran longer than its timeout of %s", e.Timeout), FailedBy: failedByMonitor,
	}}
	finish := &store.Finish{ID: e.ID, Attempt: e.Attempt, WorkerID: e.WorkerID}
	finish.Outcome, finish.Retry = s.judge.RetryOf(e, o)
	return finish
}

// end is the change that ends an execution which has not started.
func (s *sweeper) end(e *messages.Execution, code messages.Code, text, by string) store.Change {
	o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: code, Message: text, FailedBy: by}}
	end := &store.End{ID: e.ID, Attempt: e.Attempt}
	end.Outcome, end.Retry = s.judge.RetryOf(e, o)
	return end
}

// run reads what is past a deadline, page behind page, and makes the change that change says. A nil change leaves the row
// alone. A round reads a bounded number of pages, and the next one goes on behind them, so that rows which stay hide nothing.
func (s *sweeper) run(ctx context.Context, q store.OverdueQuery, change func(context.Context, *messages.Execution) store.Change) (int, error) {
	q.Limit, q.After = sweepBatch, s.places.place(q.Deadline)
	total := 0
	for range sweepBatches {
		rows, err := s.store.Overdue(ctx, q)
		if err != nil {
			return total, err
		}
		more := len(rows) == sweepBatch
		q.After = store.OverdueCursor{}
		if more {
			q.After = store.CursorOf(q.Deadline, &rows[sweepBatch-1])
		}
		if rows, err = s.trulyDue(ctx, q, rows); err != nil {
			return total, err
		}
		done, err := s.batch(ctx, rows, change)
		total += done
		if err != nil {
			return total, err
		}
		if s.places.reached(q.Deadline, q.After); !more {
			return total, nil
		}
	}
	return total, nil
}

// sweepPlaces is where the next round of each sweep begins; zero: at the oldest.
type sweepPlaces struct {
	mu sync.Mutex
	at map[store.Deadline]store.OverdueCursor
}

func (s *sweepPlaces) place(d store.Deadline) store.OverdueCursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[d]
}

func (s *sweepPlaces) reached(d store.Deadline, at store.OverdueCursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[store.Deadline]store.OverdueCursor{}
	}
	s.at[d] = at
}

// batch makes one batch's changes, each told to its pool.
func (s *sweeper) batch(ctx context.Context, rows []messages.Execution, change func(context.Context, *messages.Execution) store.Change) (int, error) {
	byPool := map[string][]actors.Item{}
	for i := range rows {
		if c := change(ctx, &rows[i]); c != nil {
			item := actors.Item{Change: c, Worker: rows[i].Worker}
			if s.tracer != nil {
				actors.TraceLost(s.tracer(), &rows[i], &item, time.Now)
			}
			byPool[rows[i].Pool] = append(byPool[rows[i].Pool], item)
		}
	}
	done := 0
	for pool, items := range byPool {
		results, err := s.record(ctx, pool, items)
		if err != nil {
			return done, err
		}
		for i, r := range results {
			if r.Verdict != store.Applied {
				continue
			}
			done++
			if b, ok := items[i].Change.(*store.TakeBack); ok {
				s.takenBack(pool, b.Reason)
			}
		}
	}
	return done, nil
}
