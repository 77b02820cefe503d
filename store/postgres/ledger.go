package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// countRequestedSQL counts by status. Seqs are nearly in order of time, so the bounds on seq are wider and the times are checked.
const countRequestedSQL = `SELECT e.status, count(*), count(r.original), count(*) FILTER (WHERE e.crash_count > 0), count(*) FILTER (WHERE e.take_backs > 0),
 count(*) FILTER (WHERE e.session_lost), max(r.requested_at)
 FROM (SELECT id, original, requested_at FROM request WHERE seq > $1 AND seq <= $2 AND requested_at >= $3 AND requested_at < $4 ORDER BY seq LIMIT $5) r
 JOIN execution e ON e.id = r.id GROUP BY e.status ORDER BY e.status`

// CountRequested counts the executions that were requested in a time.
func (s *executionRows) CountRequested(ctx context.Context, from, to time.Time) (store.Counted, error) {
	var counted store.Counted
	above, err := s.seqBefore(ctx, from.Add(-statementTimeout))
	if err != nil {
		return counted, err
	}
	last, err := s.seqBefore(ctx, to.Add(statementTimeout))
	if err != nil {
		return counted, err
	}
	var latest []time.Time
	err = s.query(ctx, "count executions", func(v *scanner) {
		counted.Statuses = append(counted.Statuses, store.StatusCount{
			Status: messages.Status(v.integer()), N: v.integer(), Retries: v.integer(), Repeated: v.integer(), TakenBack: v.integer(), StateLost: v.integer(),
		})
		latest = append(latest, v.time())
	}, countRequestedSQL, above, last, timeOf(from), timeOf(to), store.CountMax)
	if err == nil && counted.All() >= store.CountMax {
		counted.Until = slices.MaxFunc(latest, time.Time.Compare)
	}
	return counted, err
}
