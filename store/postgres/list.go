package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// List returns one page, newest first. One filter selects the index to walk. The others are checked on each row. A walk
// goes back from the newest. If other filters remain, it ends after Config.WalkMax executions: then the page is short,
// and Next continues from there.
func (s *executionRows) List(ctx context.Context, f store.Filter) (store.Page, error) {
	limit := pageSize(f.Limit)
	if f.Before <= 0 {
		f.Before = math.MaxInt64
	}
	l := newListing(f, limit, s.cfg.WalkMax)
	var page store.Page
	var err error
	page.Executions, err = s.executions(ctx, "list executions", l.sql, l.args...)
	switch {
	case err != nil:
		return store.Page{}, err
	case len(page.Executions) > limit:
		page.Executions = page.Executions[:limit]
		page.Next = page.Executions[limit-1].Seq
	case l.size >= s.cfg.WalkMax:
		page.Next, err = s.floor(ctx, f, limit)
	}
	return page, err
}

// floor returns where a walk ended that met its bound; 0: it reached the oldest.
func (s *executionRows) floor(ctx context.Context, f store.Filter, limit int) (int64, error) {
	l := &listing{}
	walk := l.walk(f, limit, s.cfg.WalkMax)
	var floor int64
	err := s.query(ctx, "list executions", func(v *scanner) {
		lowest, walked := v.integer(), int(v.integer())
		if walked >= s.cfg.WalkMax {
			floor = lowest
		}
	}, "SELECT min(w.seq), count(*) FROM ("+walk+") w", l.args...)
	return floor, err
}

// listing is the statement of one list.
type listing struct {
	sql  string
	args []any
	size int // greatest number of seqs to walk
}

func (l *listing) arg(v any) string {
	l.args = append(l.args, v)
	return fmt.Sprint("$", len(l.args))
}

// newListing makes the statement for the most selective filter. Its inner part walks one index back over at most
// stretch seqs, in order, so that the outer part reads only as many of them as it needs for a page.
func newListing(f store.Filter, limit, stretch int) *listing {
	l := &listing{}
	walk := l.walk(f, limit, stretch)
	where := l.where(f)
	l.sql = "SELECT " + listedAll + " FROM (" + walk + ") w JOIN request r ON r.seq = w.seq JOIN execution e ON e.id = r.id" +
		" LEFT JOIN outcome o ON o.seq = r.seq WHERE true" + where + " ORDER BY w.seq DESC LIMIT " + l.arg(limit+1)
	return l
}

// walk selects the seqs to look at, newest first.
func (l *listing) walk(f store.Filter, limit, stretch int) string {
	// The index answers a single filter, so the walk is no longer than a page.
	size := stretch
	if alone(f) {
		size = limit + 1
	}
	l.size = size
	before := l.arg(f.Before) + "::bigint"
	tail := " ORDER BY seq DESC LIMIT " + l.arg(size)
	switch {
	case f.Label[0] != "":
		return "SELECT seq FROM execution_label WHERE key = " + l.arg(encodeText(f.Label[0])) + " AND value = " +
			l.arg(encodeText(f.Label[1])) + " AND seq < " + before + tail
	case f.Session != "":
		return "SELECT seq FROM execution WHERE session = " + l.arg(encodeText(f.Session)) + " AND seq < " + before + tail
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, messages.Completed):
		return l.statuses(f, before, tail)
	case f.Action != "":
		return "SELECT seq FROM request WHERE action = " + l.arg(encodeText(f.Action)) + " AND seq < " + before + tail
	}
	return "SELECT seq FROM request WHERE seq < " + before + tail
}

// alone reports whether the filter of the walk is the only one.
func alone(f store.Filter) bool {
	if poolWaits(f) {
		return true
	}
	n := 0
	for _, set := range []bool{f.Label[0] != "", f.Session != "", f.Action != "", f.Pool != "", f.Worker != "", len(f.Statuses) > 0} {
		if set {
			n++
		}
	}
	return n == 0 || n == 1 && f.Pool == "" && f.Worker == "" && !slices.Contains(f.Statuses, messages.Completed)
}

// poolWaits reports whether the list is of one pool's executions that have not ended. The pool leads the indexes of
// both stages.
func poolWaits(f store.Filter) bool {
	return f.Pool != "" && len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, messages.Status.Terminal) &&
		f.Label[0] == "" && f.Session == "" && f.Action == "" && f.Worker == ""
}

// statuses walks the indexes of the stages: unusual ends by status, waiting executions rank by rank, executions on
// workers.
func (l *listing) statuses(f store.Filter, before, tail string) string {
	var parts []string
	active, ranks, ofPool := false, ranksSQL, ""
	if f.Pool != "" {
		pool := l.arg(encodeText(f.Pool))
		ranks, ofPool = strings.ReplaceAll(ranksSQL, "rank IS NOT NULL", "rank IS NOT NULL AND pool = "+pool), " AND pool = "+pool
	}
	for _, st := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
		switch {
		case st.Terminal():
			parts = append(parts, "(SELECT seq FROM execution WHERE unusual = "+l.arg(int16(st))+" AND seq < "+before+tail+")")
		case st >= messages.Scheduled:
			active = true
		case st == messages.Requested:
			parts = append(parts, "(SELECT w.seq FROM ("+ranks+") k CROSS JOIN LATERAL (SELECT e.seq FROM execution e WHERE e.pool = k.pool AND e.rank = k.rank AND e.seq < "+
				before+" ORDER BY e.seq DESC LIMIT "+l.lastArg()+") w)")
		}
	}
	if active {
		parts = append(parts, "(SELECT seq FROM execution WHERE on_worker IS NOT NULL"+ofPool+" AND status = ANY("+l.arg(numbers(f.Statuses))+") AND seq < "+before+tail+")")
	}
	if len(parts) == 0 {
		return "SELECT 0::bigint AS seq WHERE " + before + " < 0" + tail
	}
	return "SELECT seq FROM (" + strings.Join(parts, " UNION ALL ") + ") u" + tail
}

// lastArg is the walk's bound, the second argument.
func (l *listing) lastArg() string { return "$2" }

// ranksSQL lists the pools and ranks with waiting executions, one step of the index each; with "AND pool = " those of
// one pool.
const ranksSQL = `WITH RECURSIVE k AS (
 (SELECT pool, rank FROM execution WHERE rank IS NOT NULL ORDER BY pool, rank LIMIT 1)
 UNION ALL SELECT n.pool, n.rank FROM k CROSS JOIN LATERAL (SELECT e.pool, e.rank FROM execution e
  WHERE e.rank IS NOT NULL AND (e.pool, e.rank) > (k.pool, k.rank) ORDER BY e.pool, e.rank LIMIT 1) n) SELECT * FROM k`

// where checks all filters on each row.
func (l *listing) where(f store.Filter) string {
	var b strings.Builder
	for _, and := range [...][2]string{{"r.action", f.Action}, {"e.pool", f.Pool}, {"e.session", f.Session}, {"e.worker_id", string(f.Worker)}} {
		if and[1] != "" {
			b.WriteString(" AND " + and[0] + " = " + l.arg(encodeText(and[1])))
		}
	}
	if len(f.Statuses) > 0 {
		b.WriteString(" AND e.status = ANY(" + l.arg(numbers(f.Statuses)) + ")")
	}
	return b.String()
}

func numbers(statuses []messages.Status) []int16 {
	out := make([]int16, len(statuses))
	for i, s := range statuses {
		out[i] = int16(s)
	}
	return out
}
