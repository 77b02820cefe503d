package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
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

// graces is how long a stop ladder takes at most.
func graces(g process.Graces) time.Duration {
	total := time.Duration(0)
	for _, d := range []struct{ set, otherwise time.Duration }{
		{g.Cancel, 5 * time.Second}, {g.Shutdown, time.Second}, {g.Terminate, 5 * time.Second},
	} {
		orElse(&d.set, d.otherwise)
		total += d.set
	}
	return total
}

// monitors are the tree's regular rounds. All their times stand in the rows.
func (n *Node) monitors() []supervisor.ChildSpec {
	monitor := func(name string, every time.Duration, do func(context.Context) error) supervisor.ChildSpec {
		return func() actors.Child {
			return actors.NewMonitor(actors.MonitorConfig{
				System: n.system, Name: name, Every: every, Jitter: 0.1, Do: do, Logger: n.logger.Named(name),
			})
		}
	}
	specs := []supervisor.ChildSpec{
		monitor("heartbeat", n.cfg.HeartbeatInterval, n.heartbeat),
		monitor("timeout", n.cfg.TimeoutCheckInterval, n.timeoutRound),
		monitor("deadlines", n.cfg.SweepInterval, n.deadlineRound),
		monitor("orphans", n.cfg.SweepInterval, n.rescueOrphans),
		monitor("cancels", n.cfg.SweepInterval, n.repeatCancels),
		monitor("homeless", n.cfg.HeartbeatInterval, n.homelessRound),
		monitor("cordons", n.cfg.HeartbeatInterval, n.operator.Cordons.Read),
		monitor("retention", n.cfg.RetentionInterval, n.retentionRound),
	}
	if n.leads() {
		specs = append(specs, monitor("routers", n.cfg.BeatEvery, n.leadRound))
	}
	if n.cfg.full() { // more often than a new router waits before it fails anything for want of workers
		specs = append(specs, monitor("elsewhere", n.cfg.HeartbeatInterval/2, n.lookElsewhere),
			monitor("queues", n.cfg.HeartbeatInterval, n.queuesRound))
	}
	if !n.cfg.ClaimSweepOff && sweeps("claims") {
		specs = append(specs, monitor("claims", n.cfg.SweepInterval, n.claimRound))
	}
	return specs
}

// sweep reads what is past a deadline, page behind page, and makes the change that change says. A nil change leaves the row
// alone. A round reads a bounded number of pages, and the next one goes on behind them, so that rows which stay hide nothing.
func (n *Node) sweep(ctx context.Context, q store.OverdueQuery, change func(*messages.Execution) store.Change) (int, error) {
	q.Limit, q.After = sweepBatch, n.swept.place(q.Deadline)
	total := 0
	for range sweepBatches {
		rows, err := n.store.Overdue(ctx, q)
		if err != nil {
			return total, err
		}
		more := len(rows) == sweepBatch
		q.After = store.OverdueCursor{}
		if more {
			q.After = store.CursorOf(q.Deadline, &rows[sweepBatch-1])
		}
		if rows, err = n.trulyDue(ctx, q, rows); err != nil {
			return total, err
		}
		done, err := n.sweepBatch(ctx, rows, change)
		total += done
		if err != nil {
			return total, err
		}
		if n.swept.reached(q.Deadline, q.After); !more {
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

// sweepBatch makes one batch's changes, each told to its pool.
func (n *Node) sweepBatch(ctx context.Context, rows []messages.Execution, change func(*messages.Execution) store.Change) (int, error) {
	byPool := map[string][]actors.Item{}
	for i := range rows {
		if c := change(&rows[i]); c != nil {
			item := actors.Item{Change: c, Worker: rows[i].Worker}
			byPool[rows[i].Pool] = append(byPool[rows[i].Pool], item)
		}
	}
	done := 0
	for pool, items := range byPool {
		results, err := n.record(ctx, pool, items)
		if err != nil {
			return done, err
		}
		for i, r := range results {
			if r.Verdict != store.Applied {
				continue
			}
			done++
			if b, ok := items[i].Change.(*store.TakeBack); ok {
				n.metrics.takenBack(pool, b.Reason)
			}
		}
	}
	return done, nil
}

// record has changes made by the recorder, or, before the tree runs, by the store itself.
func (n *Node) record(ctx context.Context, pool string, items []actors.Item) ([]store.Result, error) {
	if n.root.Load() == nil {
		changes := make([]store.Change, len(items))
		for i := range items {
			changes[i] = items[i].Change
		}
		return n.store.Apply(ctx, changes)
	}
	return actors.Ask[*actors.Record, []store.Result](ctx, n.system, n.recorder,
		&actors.Record{Items: items, Pool: n.pools.pid(pool)})
}

// rescueOrphans gives back what dead incarnations had on their workers.
func (n *Node) rescueOrphans(ctx context.Context) error {
	if !sweeps("orphans") {
		return nil
	}
	count, err := n.sweep(ctx, store.OverdueQuery{Deadline: store.Orphaned}, func(e *messages.Execution) store.Change {
		return supervisor.RescueChange(n.judge, e, failedBySweep, "its node ended while it ran")
	})
	if count > 0 {
		n.logger.Warn("work of an ended node given back", "executions", count)
	}
	return err
}

// claimRound takes back what was not claimed in time.
func (n *Node) claimRound(ctx context.Context) error {
	_, err := n.sweep(ctx, store.OverdueQuery{Deadline: store.ClaimBy}, func(e *messages.Execution) store.Change {
		return &store.TakeBack{
			ID: e.ID, Attempt: e.Attempt, Reason: "claim_timeout", Delay: retry.TakeBackDelay(e.TakeBacks + 1),
		}
	})
	return err
}

// deadlineRound ends what has waited past its own deadlines.
func (n *Node) deadlineRound(ctx context.Context) error {
	_, err := n.sweep(ctx, store.OverdueQuery{Deadline: store.QueueBy}, func(e *messages.Execution) store.Change {
		return n.end(e, messages.CodeQueueDeadline, "waited for a busy worker past its queue deadline", failedBySweep)
	})
	_, more := n.sweep(ctx, store.OverdueQuery{Deadline: store.WorkerBy}, func(e *messages.Execution) store.Change {
		return n.end(e, messages.CodeNoWorkers, "no workers available until the end of its wait", failedBySweep)
	})
	return errors.Join(err, more)
}

// homelessRound ends what waits for a pool that no node has any more, because a reload or a new configuration has taken
// it away: nobody routes it, and no worker will come. What fails in a round shows that the store is not steady, so the rounds
// are counted anew.
func (n *Node) homelessRound(ctx context.Context) error {
	if !n.started.Load() || n.draining.Load() {
		return nil
	}
	err := n.endUnserved(ctx)
	if err != nil {
		for _, u := range n.homeless {
			u.since = time.Time{}
		}
	}
	return err
}

// endUnserved ends the work of those pools that rounds enough have found unserved.
func (n *Node) endUnserved(ctx context.Context) error {
	depths, err := n.store.Depths(ctx)
	if err != nil {
		return err
	}
	var homeless []string
	for _, d := range depths {
		if d.Status == messages.Requested && n.pools.pid(d.Pool) == nil && !slices.Contains(homeless, d.Pool) {
			homeless = append(homeless, d.Pool)
		}
	}
	maps.DeleteFunc(n.homeless, func(pool string, _ *unassigned) bool { return !slices.Contains(homeless, pool) })
	if len(homeless) == 0 {
		return nil
	}
	served, err := n.servedElsewhere(ctx)
	if err != nil {
		return err
	}
	homeless = slices.DeleteFunc(homeless, func(pool string) bool {
		if len(served[pool]) > 0 {
			delete(n.homeless, pool)
		}
		return len(served[pool]) > 0
	})
	found, err := n.lateWorkers(ctx, homeless)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, pool := range homeless {
		if n.homeless[pool] == nil {
			n.homeless[pool] = &unassigned{}
		}
		if n.homeless[pool].round(now, found[pool]) {
			err = errors.Join(err, n.endHomeless(ctx, pool))
		}
	}
	return err
}

// endHomeless ends what is due of a pool that nobody serves, page by page of all that waits there. A round goes over a bounded
// number of pages, and the next one goes on behind them, so that what may stay hides nothing.
func (n *Node) endHomeless(ctx context.Context, pool string) error {
	f := store.Filter{Pool: pool, Statuses: []messages.Status{messages.Requested}, Limit: sweepBatch, Before: n.homeless[pool].next}
	for range sweepBatches {
		page, err := n.store.List(ctx, f)
		if err != nil {
			return err
		}
		now := n.clock.Now()
		_, err = n.sweepBatch(ctx, page.Executions, func(e *messages.Execution) store.Change {
			if e.WaitForWorker || e.RunAt.After(now) {
				return nil
			}
			return n.end(e, messages.CodeNoWorkers, "no workers available: this node has no pool "+pool, failedBySweep)
		})
		if err != nil {
			return err
		}
		if f.Before = page.Next; f.Before == 0 {
			break
		}
	}
	n.homeless[pool].next = f.Before
	return nil
}

// timeoutRound is the safety net: what was placed long ago and never started, and what runs past its deadline without
// anybody stopping it.
func (n *Node) timeoutRound(ctx context.Context) error {
	if !sweeps("claims") {
		return nil
	}
	start := store.OverdueQuery{Deadline: store.StartBy, Age: n.cfg.ScheduledTimeout}
	_, err := n.sweep(ctx, start, func(e *messages.Execution) store.Change {
		n.logger.Warn("Execution has been scheduled for too long", "execution", e.ID, "first_placed", e.FirstPlacedAt)
		return n.end(e, messages.CodeStartTimeout, "Execution timeout: worker did not pick up task within timeout", failedByMonitor)
	})
	run := store.OverdueQuery{Deadline: store.RunBy, Age: graces(n.cfg.Graces) + 30*time.Second}
	_, more := n.sweep(ctx, run, n.overrun)
	return errors.Join(err, more)
}

// overrun ends a run whose deadline is long past: its worker would have stopped it.
func (n *Node) overrun(e *messages.Execution) store.Change {
	o := messages.Outcome{Status: messages.TimedOut, Error: &messages.Error{
		Code: messages.CodeTimeout, Message: fmt.Sprintf("ran longer than its timeout of %s", e.Timeout), FailedBy: failedByMonitor,
	}}
	finish := &store.Finish{ID: e.ID, Attempt: e.Attempt}
	finish.Outcome, finish.Retry = n.judge.RetryOf(e, o)
	return finish
}

func (n *Node) end(e *messages.Execution, code messages.Code, text, by string) store.Change {
	o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: code, Message: text, FailedBy: by}}
	end := &store.End{ID: e.ID, Attempt: e.Attempt}
	end.Outcome, end.Retry = n.judge.RetryOf(e, o)
	return end
}

// repeatCancels tells the workers again of the runs that are to be cancelled: the first word may have been lost.
func (n *Node) repeatCancels(ctx context.Context) error {
	page, err := n.store.List(ctx, store.Filter{Statuses: []messages.Status{messages.Cancelling}, Limit: sweepBatch})
	if err != nil {
		return err
	}
	for i := range page.Executions {
		e := &page.Executions[i]
		n.pools.Tell(e.Pool, &supervisor.CancelAgain{Placement: e.Placement(), Slot: e.Worker.Slot})
	}
	return nil
}

// retentionShare is the most of the time between two rounds that one of them takes: past it the next round goes on.
const retentionShare = 3

// retentionRound deletes what is old, in batches, for as long as there is more and its share of the time lasts. What could not
// be deleted of one kind keeps nothing of the others.
func (n *Node) retentionRound(ctx context.Context) error {
	now, err := n.store.Now(ctx)
	if err != nil {
		return err
	}
	before := func(age time.Duration) time.Time {
		if age < 0 {
			return time.Time{}
		}
		return now.Add(-age)
	}
	purge := store.Purge{
		FinishedBefore: before(n.cfg.RetainExecutions), DeadLettersBefore: before(n.cfg.RetainDeadLetters),
		EventsBefore: before(n.cfg.RetainEvents), SessionsBefore: before(n.cfg.RetainSessions),
		NodesBefore: before(n.cfg.RetainNodes), Limit: n.cfg.RetentionBatch,
	}
	end := time.Now().Add(min(n.cfg.RetentionInterval/retentionShare, 20*time.Second))
	var failed error
	for more := true; more && time.Now().Before(end) && ctx.Err() == nil; {
		purged, err := n.store.Purge(ctx, purge)
		if err != nil {
			failed = err // the others go on
		}
		if more = purged.More; purged.Rows > 0 {
			n.logger.Debug("old rows deleted", "rows", purged.Rows)
		}
	}
	return failed
}
