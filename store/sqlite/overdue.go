package sqlite

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// notLive is true if the worker's node is unknown or dead. The store's lock ensures that only one node uses it, so
// leases are not evaluated.
const notLive = " NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = e.worker_inc AND n.state <> 'dead')"

// overdue holds, for each deadline, the condition on (now = ?1, now - age = ?2) and the time that orders it. Deadlines
// of executions on workers walk the active index, whose size is at most the node's capacity.
var overdue = map[store.Deadline]struct{ where, order string }{
	store.ClaimBy: {store.Statement("e.on_worker = 1 AND e.status = {scheduled} AND e.claim_by <= ?1"), "e.claim_by"},
	store.StartBy: {store.Statement("e.seq IN (SELECT seq FROM deadline WHERE kind = 3 AND at <= ?2" +
		" UNION ALL SELECT seq FROM execution WHERE on_worker = 1 AND status = {scheduled} AND first_placed_at <= ?2 AND started_at = 0)"), "e.first_placed_at"},
	store.QueueBy:  {"e.seq IN (SELECT seq FROM deadline WHERE kind = 1 AND at <= ?1)", "e.queue_deadline"},
	store.WorkerBy: {"e.seq IN (SELECT seq FROM deadline WHERE kind = 2 AND at <= ?1)", "e.worker_deadline"},
	store.RunBy:    {store.Statement("e.on_worker = 1 AND e.status IN ({running}, {cancelling}) AND e.run_deadline > 0 AND e.run_deadline <= ?2"), "e.run_deadline"},
	store.Orphaned: {"e.on_worker = 1 AND" + notLive, "e.scheduled_at"},
}

// Overdue returns executions past a deadline, oldest first.
func (s *Store) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	d, ok := overdue[q.Deadline]
	if !ok {
		return nil, fmt.Errorf("overdue: %w: unknown deadline %d", store.ErrInvalid, q.Deadline)
	}
	now := s.clock.now()
	where, args := d.where, []any{micros(now), micros(now.Add(-q.Age)), int64(pageSize(q.Limit))}
	if q.After.Seq != 0 {
		where += " AND (" + d.order + ", e.seq) > (?4, ?5)"
		args = append(args, micros(q.After.At), q.After.Seq)
	}
	var out []messages.Execution
	err := s.read(ctx, "read overdue executions", func(c *conn) (err error) {
		out, err = readMany(c, listed+" WHERE "+where+" AND ?1 >= ?2 ORDER BY "+d.order+", e.seq LIMIT ?3", args...)
		return err
	})
	return out, err
}
