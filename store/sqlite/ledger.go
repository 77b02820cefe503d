package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const countRequested = `SELECT e.status, count(*), count(r.original), sum(e.crash_count > 0), sum(e.take_backs > 0), sum(e.session_flags & 1), max(r.requested_at)
 FROM (SELECT seq, original, requested_at FROM request WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?) r
 JOIN execution e ON e.seq = r.seq GROUP BY e.status ORDER BY e.status`

// CountRequested counts the executions that were requested in a time.
func (s *Store) CountRequested(ctx context.Context, from, to time.Time) (store.Counted, error) {
	var counted store.Counted
	err := s.read(ctx, "count executions", func(c *conn) error {
		counted = store.Counted{}
		above, err := horizon(c, micros(from))
		if err != nil {
			return err
		}
		last, err := horizon(c, micros(to))
		if err != nil {
			return err
		}
		latest := time.Time{}
		err = c.query(countRequested, func(row row) error {
			v := scanner{row: row}
			counted.Statuses = append(counted.Statuses, store.StatusCount{
				Status: messages.Status(v.integer()), N: v.integer(), Retries: v.integer(), Repeated: v.integer(), TakenBack: v.integer(), StateLost: v.integer(),
			})
			if at := v.time(); at.After(latest) {
				latest = at
			}
			return v.err
		}, above, last, int64(store.CountMax))
		if counted.All() >= store.CountMax {
			counted.Until = latest
		}
		return err
	})
	return counted, err
}
