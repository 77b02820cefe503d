package sqlite

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// List returns one page, newest first. One filter selects the index to walk. The others are checked on each row. If no
// index answers (by pool, by worker, of completed executions), the walk goes back from the newest and ends after
// Config.WalkMax executions: then the page is short, and its Next continues from there.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	var page store.Page
	limit := pageSize(f.Limit)
	if f.Before <= 0 {
		f.Before = math.MaxInt64
	}
	err := s.read(ctx, "list executions", func(c *conn) (err error) {
		sql, args := listSQL(f)
		switch {
		case walks(f):
			page, err = walk(c, f, limit, int64(s.cfg.WalkMax))
			return err
		case byStatus(f):
			seqs, err := statusPage(c, f, limit+1)
			if err != nil || len(seqs) == 0 {
				return err
			}
			sql, args = listed+" WHERE e.seq IN (?"+strings.Repeat(", ?", len(seqs)-1)+") ORDER BY e.seq DESC LIMIT ?", seqs
		}
		page.Executions, err = readMany(c, sql, append(args, int64(limit)+1)...)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	cut(&page, limit)
	return page, nil
}

// cut shortens a page to its limit and sets its Next.
func cut(page *store.Page, limit int) {
	if len(page.Executions) > limit {
		page.Executions = page.Executions[:limit]
		page.Next = page.Executions[limit-1].Seq
	}
}

// walks reports whether a filter is set and no index answers one.
func walks(f store.Filter) bool {
	if f.Label[0] != "" || f.Session != "" || f.Action != "" || poolWaits(f) {
		return false
	}
	return f.Pool != "" || f.Worker != "" || slices.Contains(f.Statuses, messages.Completed)
}

// walk looks at one stretch of executions, the newest below the cursor.
func walk(c *conn, f store.Filter, limit int, stretch int64) (store.Page, error) {
	newest, err := c.number("SELECT max(seq) FROM execution WHERE seq < ?", f.Before)
	if err != nil {
		return store.Page{}, err
	}
	floor := newest - stretch
	sql, args := listSQL(f)
	var page store.Page
	page.Executions, err = readMany(c, sql, append([]any{floor}, append(args, int64(limit)+1)...)...)
	cut(&page, limit)
	if err != nil || page.Next != 0 || floor < 1 {
		return page, err
	}
	below, err := c.number("SELECT max(seq) FROM execution WHERE seq <= ?", floor)
	if below > 0 {
		page.Next = below + 1
	}
	return page, err
}

// poolWaits reports whether the list is of one pool's executions that have not ended: ranks contain the pool, and few
// are on workers.
func poolWaits(f store.Filter) bool {
	return f.Pool != "" && len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, messages.Status.Terminal) &&
		f.Label[0] == "" && f.Session == "" && f.Action == "" && f.Worker == ""
}

// byStatus reports whether the indexes of the stages answer.
func byStatus(f store.Filter) bool {
	return poolWaits(f) || len(f.Statuses) > 0 && f.Action == "" && f.Pool == "" && f.Session == "" && f.Worker == "" && f.Label[0] == ""
}

const listColumns = "SELECT " + recordColumns + ", NULL, NULL, coalesce(e.error, o.error) FROM "

// listSQL makes the statement for the most selective filter. Its last parameter is the limit.
func listSQL(f store.Filter) (string, []any) {
	const join = " CROSS JOIN request r ON r.seq = e.seq"
	from, where, args := "execution e NOT INDEXED"+join, "e.seq < ?", []any{f.Before}
	switch {
	case f.Label[0] != "":
		from = "execution_label l CROSS JOIN execution e ON e.seq = l.seq" + join
		where, args = "l.key = ? AND l.value = ? AND l.seq < ?", []any{f.Label[0], f.Label[1], f.Before}
	case f.Session != "":
		from = "execution e INDEXED BY execution_session" + join
	case f.Action != "":
		from, where = "request r INDEXED BY request_action CROSS JOIN execution e ON e.seq = r.seq", "r.seq < ?"
	case walks(f):
		where = "e.seq > ? AND " + where // above the floor of walk, which is the first argument
	}
	for _, and := range [...][2]string{{"r.action", f.Action}, {"e.pool", f.Pool}, {"e.session", f.Session}, {"e.worker_id", string(f.Worker)}} {
		if and[1] != "" {
			where, args = where+" AND "+and[0]+" = ?", append(args, and[1])
		}
	}
	if len(f.Statuses) > 0 {
		where += " AND e.status IN (?" + strings.Repeat(", ?", len(f.Statuses)-1) + ")"
		for _, s := range f.Statuses {
			args = append(args, int64(s))
		}
	}
	order := "e.seq"
	switch {
	case f.Label[0] != "":
		order = "l.seq"
	case f.Session == "" && f.Action != "":
		order = "r.seq"
	}
	return listColumns + from + " LEFT JOIN outcome o ON o.seq = e.seq WHERE " + where + " ORDER BY " + order + " DESC LIMIT ?", args
}

// statusPage returns the newest seqs of the given statuses except completed, from the indexes of the three stages.
func statusPage(c *conn, f store.Filter, limit int) ([]any, error) {
	var seqs []int64
	take := func(sql string, args ...any) error {
		return c.query(sql, func(row row) error {
			seqs = append(seqs, row.integer(0))
			return nil
		}, args...)
	}
	statuses := slices.Compact(slices.Sorted(slices.Values(f.Statuses)))
	for _, s := range statuses {
		var err error
		switch stage(s) {
		case stageEnded:
			err = take("SELECT seq FROM execution INDEXED BY execution_unusual WHERE unusual = ? AND seq < ? ORDER BY seq DESC LIMIT ?", int64(s), f.Before, int64(limit))
		case stageActive:
			err = take("SELECT seq FROM execution INDEXED BY execution_active WHERE on_worker = 1 AND status = ? AND seq < ? AND (?4 = '' OR pool = ?4) ORDER BY seq DESC LIMIT ?3", int64(s), f.Before, int64(limit), f.Pool)
		default:
			if s == messages.Requested {
				err = waitingPage(c, f, limit, take)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	seqs = seqs[:min(len(seqs), limit)]
	if len(seqs) == 0 {
		return nil, nil
	}
	// Few lengths need few prepared statements.
	out := make([]any, 1<<bits.Len(uint(len(seqs)-1)))
	for i, n := range seqs {
		out[i] = n
	}
	return out, nil
}

// waitingPage takes the newest of each rank, because ranks are not in order of time. A pool has at most three lanes of
// ten priorities, and a million rows may wait.
func waitingPage(c *conn, f store.Filter, limit int, take func(string, ...any) error) error {
	rank, last := int64(0), int64(math.MaxInt64)
	if f.Pool != "" {
		pool, err := c.number("SELECT n FROM pool WHERE name = ?", f.Pool)
		if err != nil || pool == 0 {
			return err
		}
		rank, last = pool*rankPool-1, (pool+1)*rankPool-1
	}
	for {
		next, err := c.number("SELECT min(rank) FROM execution INDEXED BY execution_waiting WHERE rank > ? AND rank <= ?", rank, last)
		if err != nil || next == 0 {
			return err
		}
		rank = next
		err = take("SELECT seq FROM execution INDEXED BY execution_waiting WHERE rank = ? AND seq < ? ORDER BY seq DESC LIMIT ?", rank, f.Before, int64(limit))
		if err != nil {
			return err
		}
	}
}
