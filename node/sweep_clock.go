package node

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// trulyDue are those of the overdue executions for which the time has passed. After the store's clock was set forward, its
// statements find deadlines passed whose time has not: what was granted 15 s of time keeps them. Rows are read anew with each round,
// so what is left out comes again. The clock is asked only where there is something to be judged.
func (s *sweeper) trulyDue(ctx context.Context, q store.OverdueQuery, rows []messages.Execution) ([]messages.Execution, error) {
	if len(rows) == 0 || q.Deadline == store.Orphaned {
		return rows, nil
	}
	if q.Deadline == store.RunBy && s.awake.Thawed(time.Now(), q.Age) {
		return nil, nil // this node was frozen, and its workers' timers go on for as long
	}
	if _, err := s.store.Now(ctx); err != nil { // its clock may just have been set
		return nil, err
	}
	if !s.clock.Stepped() {
		return rows, nil
	}
	return slices.DeleteFunc(rows, func(e messages.Execution) bool {
		from, granted := granted(&e, q)
		return !from.IsZero() && s.clock.Since(from) < granted
	}), nil
}

// granted is how long an execution may take for the step that the query is about, and since when, by the store's clock; zero:
// the row does not say.
func granted(e *messages.Execution, q store.OverdueQuery) (from time.Time, d time.Duration) {
	due := e.Due()
	switch q.Deadline {
	case store.ClaimBy:
		return e.ScheduledAt, e.ClaimBy.Sub(e.ScheduledAt)
	case store.StartBy:
		return e.FirstPlacedAt, q.Age
	case store.QueueBy:
		return due, e.QueueDeadline.Sub(due)
	case store.WorkerBy:
		return due, e.WorkerDeadline.Sub(due)
	case store.RunBy:
		return e.StartedAt, e.RunDeadline.Sub(e.StartedAt) + q.Age
	}
	return time.Time{}, 0
}
