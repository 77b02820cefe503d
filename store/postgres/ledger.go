package postgres

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// countRequestedSQL counts a slice by minute and status. Seqs are nearly in order of time, so the bounds on seq are wider, and what was
// requested at another time has no minute. Its LEFT JOIN finds the end of the slice also where the last requests have no execution.
const countRequestedSQL = `SELECT CASE WHEN r.requested_at >= $4 AND r.requested_at < $5 THEN date_bin('1 minute', r.requested_at, '2000-01-01') END AS minute, e.status,
 count(*), count(*) FILTER (WHERE r.requested_at < date_bin('1 minute', r.requested_at, '2000-01-01') + $6::interval), count(r.original),
 count(*) FILTER (WHERE e.crash_count > 0), count(*) FILTER (WHERE e.take_backs > 0), count(*) FILTER (WHERE e.session_lost), max(r.seq), max(r.requested_at)
 FROM (SELECT seq, id, original, requested_at FROM request WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3) r
 LEFT JOIN execution e ON e.id = r.id GROUP BY 1, 2`

// CountRequested counts the executions that were requested in a time. Each slice is a statement of its own.
func (s *executionRows) CountRequested(ctx context.Context, q store.CountQuery) (store.Counted, error) {
	above, err := s.seqBefore(ctx, q.From.Add(-statementTimeout))
	if err != nil {
		return store.Counted{}, err
	}
	last, err := s.seqBefore(ctx, q.To.Add(statementTimeout))
	if err != nil {
		return store.Counted{}, err
	}
	return q.Slices(above, last, statementTimeout, func(c *store.Count, above int64, size int) (slice store.CountedSlice, err error) {
		err = s.query(ctx, "count executions", func(v *scanner) {
			m := store.MinuteCount{
				Minute: v.time(), Status: messages.Status(v.integer()), N: v.integer(), Edge: v.integer(), Retries: v.integer(),
				Repeated: v.integer(), TakenBack: v.integer(), StateLost: v.integer(),
			}
			slice.Looked, slice.Last = slice.Looked+int(m.N), max(slice.Last, v.integer())
			if at := v.time(); at.After(slice.Latest) {
				slice.Latest = at
			}
			if !m.Minute.IsZero() && m.Status != 0 {
				c.Add(&m)
			}
		}, countRequestedSQL, above, last, size, timeOf(q.From), timeOf(q.To), intervalOf(store.CountEdge))
		return slice, err
	})
}

const countPurgedSQL = `SELECT coalesce(sum(n) FILTER (WHERE minute >= $1 AND minute < $2), 0)::bigint, coalesce(sum(tail) FILTER (WHERE minute < $1), 0)::bigint,
 coalesce(sum(edge) FILTER (WHERE minute = $2), 0)::bigint, (SELECT at FROM purged_from) FROM purged WHERE minute >= $1 - interval '1 minute' AND minute <= $2`

// CountPurged says how many executions of a time were deleted.
func (s *executionRows) CountPurged(ctx context.Context, from, to time.Time) (c store.PurgedCount, err error) {
	err = s.query(ctx, "count what was purged", func(v *scanner) {
		c = store.PurgedCount{N: v.integer(), Before: v.integer(), Behind: v.integer(), From: v.time()}
	}, countPurgedSQL, timeOf(from), timeOf(to))
	return c, err
}
