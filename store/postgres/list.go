package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// List returns one page. One filter selects the index to walk, in the order of the list. The others are checked on each row. If other
// filters remain, the walk goes in parts, and ends with a full page, after Config.WalkMax executions, or when Config.ListFor or the filter's
// time is over: then the page is short, and Next continues from there.
func (s *executionRows) List(ctx context.Context, f store.Filter) (store.Page, error) {
	began := time.Now()
	limit, parts := pageSize(f.Limit), store.Parts{End: f.End(began, s.cfg.ListFor), Most: partMax, Times: partTimes}
	stretch, err := s.stretch(ctx, &f)
	if err != nil {
		return store.Page{}, err
	}
	if f.Alone(f.Drive(stretch.narrow)) {
		return s.wholePage(ctx, &f, stretch, limit)
	}
	var page store.Page
	var bytes store.PageBytes
	walked := 0
	for size := limit + 1; ; {
		size = min(size, s.cfg.WalkMax-walked)
		began = time.Now()
		part, err := s.part(ctx, &f, stretch, limit+1-len(page.Executions), size, &bytes)
		if err != nil {
			return store.Page{}, err
		}
		page.Executions = append(page.Executions, part.found...)
		walked += part.walked
		limit = bytes.Limit(limit)
		if part.walked < size || len(page.Executions) > limit {
			page.Passed(limit, walked, math.MaxInt, 0, time.Time{})
			return page, nil
		}
		now := time.Now()
		if size = parts.Next(walked, size, now.Sub(began), now); size == 0 || walked >= s.cfg.WalkMax {
			page.Passed(limit, walked, walked, part.seq, part.at)
			return page, nil
		}
		if f.Oldest {
			stretch.above = part.seq
		} else {
			stretch.below = part.seq
		}
	}
}

// Bounds of the parts of a walk. The first has as many executions as the page, and each further one is four times as large at most: a page of
// which all match costs no more than it has, and one that needs all of the walk takes few statements.
const (
	partMax   = 4000
	partTimes = 4
)

// wholePage reads a page whose filter an index answers.
func (s *executionRows) wholePage(ctx context.Context, f *store.Filter, stretch stretch, limit int) (page store.Page, err error) {
	l := newListing(f, stretch, limit+1, s.cfg.WalkMax)
	var bytes store.PageBytes
	err = s.query(ctx, "list executions", func(v *scanner) {
		var r record
		if scanWhole(v, &r); bytes.Takes(&r.Execution) {
			page.Executions = append(page.Executions, r.Execution)
		}
	}, "WITH w AS NOT MATERIALIZED ("+l.walked+") "+l.matching(limit+1), l.args...)
	limit = bytes.Limit(limit)
	page.Passed(limit, len(page.Executions), math.MaxInt, 0, time.Time{})
	return page, err
}

// part is what a part of a walk has found.
type part struct {
	found  []messages.Execution
	walked int // executions that it looked at
	// Of the last one of them.
	seq int64
	at  time.Time
}

// part walks over at most size executions, and finds at most most of them.
func (s *executionRows) part(ctx context.Context, f *store.Filter, stretch stretch, most, size int, bytes *store.PageBytes) (p part, err error) {
	l := newListing(f, stretch, size, s.cfg.WalkMax)
	last := "min"
	if f.Oldest {
		last = "max"
	}
	found := l.matching(most)
	// A part that finds nothing has one row all the same, which says how far it went.
	err = s.query(ctx, "list executions", func(v *scanner) {
		var r record
		p.seq, p.walked, p.at = v.integer(), int(v.integer()), v.time()
		if scanWhole(v, &r); r.Seq != 0 && bytes.Takes(&r.Execution) {
			p.found = append(p.found, r.Execution)
		}
	}, "WITH w AS MATERIALIZED ("+l.walked+") SELECT k.seq, k.n, r.requested_at, m.* FROM (SELECT "+last+"(seq) AS seq, count(*) AS n FROM w) k LEFT JOIN request r ON r.seq = k.seq LEFT JOIN ("+
		found+") m ON true ORDER BY m.seq"+l.order(), l.args...)
	return p, err
}

// stretch is the part of the executions that a list looks at.
type stretch struct {
	above, below int64 // seqs between these
	narrow       bool  // few ids have the prefix
}

func (s *executionRows) stretch(ctx context.Context, f *store.Filter) (w stretch, err error) {
	w = stretch{above: f.After, below: math.MaxInt64}
	if f.Before > 0 {
		w.below = f.Before
	}
	from, to := f.Requested()
	if !from.IsZero() {
		seq, err := s.seqBefore(ctx, from.Add(-statementTimeout))
		if err != nil {
			return w, err
		}
		w.above = max(w.above, seq)
	}
	if !to.IsZero() {
		seq, err := s.seqBefore(ctx, to.Add(statementTimeout))
		if err != nil {
			return w, err
		}
		w.below = min(w.below, seq+1)
	}
	for ids, few := store.IDRanges(f.IDPrefixes), 0; len(ids) > 0 && few <= s.cfg.WalkMax; ids = ids[1:] {
		if err = s.query(ctx, "list executions", func(v *scanner) { few += int(v.integer()) },
			"SELECT count(*) FROM (SELECT FROM execution WHERE id >= $1 AND id <= $2 LIMIT $3) x", uuidOf(ids[0][0]), uuidOf(ids[0][1]), s.cfg.WalkMax+1); err != nil {
			return w, err
		}
		w.narrow = few <= s.cfg.WalkMax
	}
	return w, err
}

// listing is the statement of one list, or of a part of it.
type listing struct {
	f       *store.Filter
	stretch stretch
	args    []any
	columns string // of the walk
	walked  string // the statement that selects the executions to look at
	within  string
	tail    string // order and bound of a walk
}

// walkedColumns are the columns of a walk by each index. What the index's table has of a row beside the seq spares the outer part a look at
// another table for each execution that does not match.
var walkedColumns = map[store.Drive]string{
	store.DriveAll: "seq, id", store.DriveKey: "seq, id", store.DriveAction: "seq, id", store.DriveLabel: "seq",
	store.DriveID: "seq, id, error", store.DriveSession: "seq, id, error", store.DriveStatuses: "seq, id, error",
}

func (l *listing) arg(v any) string {
	l.args = append(l.args, v)
	return fmt.Sprint("$", len(l.args))
}

// newListing walks the index of the most selective filter over at most size seqs, in order. A filter that names few executions, of which
// no index has the order, reads at most walkMax of them first.
func newListing(f *store.Filter, stretch stretch, size, walkMax int) *listing {
	l := &listing{f: f, stretch: stretch, columns: walkedColumns[f.Drive(stretch.narrow)]}
	l.walked = l.walk(size, walkMax)
	return l
}

// matching selects the first of the walked executions, w, that match.
func (l *listing) matching(most int) string {
	id := "w.id"
	if l.columns == "seq" {
		id = "r.id"
	}
	return "SELECT " + listedAll + " FROM w JOIN request r ON r.seq = w.seq JOIN execution e ON e.id = " + id +
		" LEFT JOIN outcome o ON o.seq = r.seq WHERE true" + l.where() + " ORDER BY w.seq" + l.order() + " LIMIT " + l.arg(most)
}

func (l *listing) order() string {
	if l.f.Oldest {
		return ""
	}
	return " DESC"
}

// walk selects the executions to look at, in the list's order.
func (l *listing) walk(size, walkMax int) string {
	f := l.f
	drive := f.Drive(l.stretch.narrow)
	below, above, limit := l.arg(l.stretch.below)+"::bigint", l.arg(l.stretch.above)+"::bigint", " LIMIT "+l.arg(size)
	l.within, l.tail = "seq < "+below+" AND seq > "+above, " ORDER BY seq"+l.order()+limit
	in := func(rows string) string { return "SELECT " + l.columns + " FROM " + rows + " AND " + l.within + l.tail }
	switch drive {
	case store.DriveKey:
		// The bound within keeps the server from walking all requests in order until it finds the key.
		return l.merged(f.Keys, func(key string) string {
			return in("(SELECT " + l.columns + " FROM request WHERE idempotency_key = " + key + " LIMIT " + l.arg(walkMax) + ") x WHERE true")
		})
	case store.DriveID:
		var walks []string
		for _, ids := range store.IDRanges(f.IDPrefixes) {
			walks = append(walks, in("(SELECT "+l.columns+" FROM execution WHERE id >= "+l.arg(uuidOf(ids[0]))+" AND id <= "+l.arg(uuidOf(ids[1]))+" LIMIT "+l.arg(walkMax)+") x WHERE true"))
		}
		return l.merge(walks)
	case store.DriveLabel:
		set := f.LabelSets()[0]
		name := l.arg(encodeText(set.Name))
		return l.merged(set.Values, func(value string) string { return in("execution_label WHERE key = " + name + " AND value = " + value) })
	case store.DriveSession:
		return l.merged(f.Sessions, func(session string) string { return in("execution WHERE session = " + session) })
	case store.DriveStatuses:
		return l.statuses()
	case store.DriveAction:
		// The index by action alone answers pairs. One plan serves all actions, and expects that each has many executions: by the action
		// itself it would walk all requests in their order, and for an action that has none, to the end.
		return l.merged(f.Actions, func(action string) string {
			return "SELECT " + l.columns + " FROM request WHERE (action, seq) < (" + action + ", " + below + ") AND (action, seq) > (" + action + ", " + above + ")" +
				" ORDER BY action" + l.order() + ", seq" + l.order() + limit
		})
	}
	return in("request WHERE true")
}

// statuses walks the indexes of the stages: unusual ends by status, waiting executions rank by rank, executions on workers.
func (l *listing) statuses() string {
	var parts []string
	active, ranks, ofPool := false, ranksSQL, ""
	walked := l.f.Walked()
	// The server refuses a parameter that no part of the statement uses.
	if len(l.f.Pools) > 0 && slices.ContainsFunc(walked, func(s messages.Status) bool {
		return s == messages.Requested || s >= messages.Scheduled && !s.Terminal()
	}) {
		pools := l.isOne("pool", l.f.Pools)
		if ranks, ofPool = ranksSQL+" WHERE "+pools, " AND "+pools; len(l.f.Pools) == 1 {
			ranks = strings.ReplaceAll(ranksSQL, "rank IS NOT NULL", "rank IS NOT NULL"+ofPool)
		}
	}
	for _, st := range walked {
		switch {
		case st.Terminal():
			parts = append(parts, "(SELECT "+l.columns+" FROM execution WHERE unusual = "+l.arg(int16(st))+" AND "+l.within+l.tail+")")
		case st >= messages.Scheduled:
			active = true
		case st == messages.Requested:
			parts = append(parts, "(SELECT w.* FROM ("+ranks+") k CROSS JOIN LATERAL (SELECT "+l.columns+" FROM execution e WHERE e.pool = k.pool AND e.rank = k.rank AND "+
				l.within+l.tail+") w)")
		}
	}
	if active {
		parts = append(parts, "(SELECT "+l.columns+" FROM execution WHERE on_worker IS NOT NULL"+ofPool+" AND status = ANY("+l.arg(numbers(walked))+") AND "+l.within+l.tail+")")
	}
	if len(parts) == 0 {
		return "SELECT " + l.columns + " FROM execution WHERE false AND " + l.within + l.tail
	}
	return "SELECT " + l.columns + " FROM (" + strings.Join(parts, " UNION ALL ") + ") u" + l.tail
}

// ranksSQL lists the pools and ranks with waiting executions, one step of the index each; with "AND pool = " those of
// one pool.
const ranksSQL = `WITH RECURSIVE k AS (
 (SELECT pool, rank FROM execution WHERE rank IS NOT NULL ORDER BY pool, rank LIMIT 1)
 UNION ALL SELECT n.pool, n.rank FROM k CROSS JOIN LATERAL (SELECT e.pool, e.rank FROM execution e
  WHERE e.rank IS NOT NULL AND (e.pool, e.rank) > (k.pool, k.rank) ORDER BY e.pool, e.rank LIMIT 1) n) SELECT * FROM k`
