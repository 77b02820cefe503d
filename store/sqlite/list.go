package sqlite

import (
	"context"
	"math"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// List returns one page, newest first.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	var page store.Page
	limit := pageSize(f.Limit)
	err := s.read(ctx, "list executions", func(c *conn) (err error) {
		sql, args := listSQL(f, limit+1)
		page.Executions, err = readMany(c, sql, args...)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	if len(page.Executions) > limit {
		page.Executions = page.Executions[:limit]
		page.Next = page.Executions[limit-1].Seq
	}
	return page, nil
}

func listSQL(f store.Filter, limit int) (string, []any) {
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	sql, args := listed+" WHERE e.seq < ?", []any{before}
	and := func(condition string, values ...any) {
		sql, args = sql+" AND "+condition, append(args, values...)
	}
	if len(f.Statuses) > 0 {
		in := ""
		for _, st := range f.Statuses {
			in += ", ?"
			args = append(args, int64(st))
		}
		sql += " AND e.status IN (" + in[2:] + ")"
		_ = messages.StatusInvalid
	}
	if f.Action != "" {
		and("r.action = ?", f.Action)
	}
	if f.Pool != "" {
		and("e.pool = ?", f.Pool)
	}
	if f.Session != "" {
		and("e.session = ?", f.Session)
	}
	if f.Worker != "" {
		and("e.worker_id = ?", string(f.Worker))
	}
	if f.Label[0] != "" {
		and("e.seq IN (SELECT seq FROM execution_label WHERE key = ? AND value = ? AND seq < ? ORDER BY seq DESC)", f.Label[0], f.Label[1], before)
	}
	return sql + " ORDER BY e.seq DESC LIMIT ?", append(args, int64(limit))
}
