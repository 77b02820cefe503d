package sqlite

import (
	"context"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// List returns one page. One filter selects the index to walk, in the order of the list. The others are checked on each row. The walk goes
// in parts, and ends with a full page, after Config.WalkMax executions, or when Config.ListFor or the filter's time is over: then the page is
// short, and its Next continues from there.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	var page store.Page
	limit, end := pageSize(f.Limit), f.End(time.Now(), s.cfg.ListFor)
	err := s.read(ctx, "list executions", func(c *conn) (err error) {
		page, err = readPage(c, &f, limit, s.cfg.WalkMax, store.Parts{End: end, Most: partMax, Times: partTimes})
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

// Bounds of the parts of a walk.
const (
	partMax   = 2000 // executions
	partTimes = 2
)

func readPage(c *conn, f *store.Filter, limit, walkMax int, parts store.Parts) (page store.Page, err error) {
	l := &listing{f: f, limit: limit}
	if err = l.begin(c, walkMax); err != nil {
		return page, err
	}
	where, args := l.where()
	walked, seq := 0, int64(0)
	for size := limit + 1; walked < walkMax && len(page.Executions) <= limit && size > 0; {
		size = min(size, walkMax-walked)
		began := time.Now()
		seqs, err := l.next(c, size)
		if err != nil {
			return page, err
		}
		if len(seqs) > 0 {
			some, err := l.check(c, seqs, where, args)
			if err != nil {
				return page, err
			}
			page.Executions = append(page.Executions, some...)
			limit = l.bytes.Limit(limit)
			walked, seq = walked+len(seqs), seqs[len(seqs)-1]
			l.pass(seq)
		}
		if len(seqs) < size {
			page.Passed(limit, walked, math.MaxInt, 0, time.Time{})
			return page, nil
		}
		now := time.Now()
		size = parts.Next(walked, size, now.Sub(began), now)
	}
	at := time.Time{}
	if len(page.Executions) <= limit {
		micros, err := c.number("SELECT requested_at FROM request WHERE seq = ?", seq)
		if err != nil {
			return page, err
		}
		at = time.UnixMicro(micros).UTC()
	}
	page.Passed(limit, walked, walked, seq, at)
	return page, nil
}

// listing walks the index of one list.
type listing struct {
	f            *store.Filter
	limit        int
	drive        store.Drive
	above, below int64   // seqs between these are left
	ids          []int64 // of DriveID, in order
	bytes        store.PageBytes
	branches     []branch
}

// begin finds the part of the executions that the list looks at.
func (l *listing) begin(c *conn, walkMax int) error {
	f := l.f
	l.above, l.below = f.After, math.MaxInt64
	if f.Before > 0 {
		l.below = f.Before
	}
	from, to := f.Requested()
	if !from.IsZero() {
		seq, err := horizon(c, micros(from))
		if err != nil {
			return err
		}
		l.above = max(l.above, seq)
	}
	if !to.IsZero() {
		seq, err := horizon(c, micros(to))
		if err != nil {
			return err
		}
		l.below = min(l.below, seq+1)
	}
	narrow, err := l.prefix(c, walkMax)
	l.drive = f.Drive(narrow)
	return err
}

// prefix reads the executions whose ids begin as asked for, and reports whether those were all.
func (l *listing) prefix(c *conn, walkMax int) (narrow bool, err error) {
	if len(l.f.IDPrefixes) == 0 {
		return false, nil
	}
	for _, ids := range store.IDRanges(l.f.IDPrefixes) {
		if err = c.query("SELECT seq FROM request INDEXED BY request_id WHERE id >= ? AND id <= ? LIMIT ?", func(row row) error {
			l.ids = append(l.ids, row.integer(0))
			return nil
		}, ids[0][:], ids[1][:], int64(walkMax+1-len(l.ids))); err != nil || len(l.ids) > walkMax {
			return false, err
		}
	}
	l.ids = l.ordered(l.ids)
	return true, nil
}

// pass goes on behind a seq.
func (l *listing) pass(seq int64) {
	if l.f.Oldest {
		l.above = seq
	} else {
		l.below = seq
	}
}

// ordered sorts seqs in the list's order.
func (l *listing) ordered(seqs []int64) []int64 {
	slices.Sort(seqs)
	if !l.f.Oldest {
		slices.Reverse(seqs)
	}
	return seqs
}

// tail is the end of every walk. Its parameters are above, below and the number of seqs.
func (l *listing) tail() string {
	if l.f.Oldest {
		return "seq > ? AND seq < ? ORDER BY seq LIMIT ?"
	}
	return "seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?"
}

// take reads the next seqs of an index. The last arguments are those of tail.
func (l *listing) take(c *conn, from string, args ...any) (seqs []int64, err error) {
	err = c.query("SELECT seq FROM "+from+" AND "+l.tail(), func(row row) error {
		seqs = append(seqs, row.integer(0))
		return nil
	}, args...)
	return seqs, err
}

// next returns the next seqs to look at, in the list's order.
func (l *listing) next(c *conn, n int) (seqs []int64, err error) {
	take := func(from string, args ...any) error {
		some, err := l.take(c, from, append(args, l.above, l.below, int64(n))...)
		seqs = append(seqs, some...)
		return err
	}
	f := l.f
	switch l.drive {
	case store.DriveKey:
		seqs, err = l.each(c, "request INDEXED BY request_key WHERE idempotency_key = ?", f.Keys, n)
	case store.DriveID:
		for _, seq := range l.ids {
			if seq > l.above && seq < l.below && len(seqs) < n {
				seqs = append(seqs, seq)
			}
		}
	case store.DriveLabel:
		set := f.LabelSets()[0]
		seqs, err = l.each(c, "execution_label WHERE key = ? AND value = ?", set.Values, n, set.Name)
	case store.DriveSession:
		seqs, err = l.each(c, "execution INDEXED BY execution_session WHERE session = ?", f.Sessions, n)
	case store.DriveStatuses:
		if err = l.statuses(c, take); err == nil {
			seqs = l.ordered(seqs)
			seqs = seqs[:min(len(seqs), n)]
		}
	case store.DriveAction:
		seqs, err = l.each(c, "request INDEXED BY request_action WHERE action = ?", f.Actions, n)
	default:
		err = take("request NOT INDEXED WHERE true")
	}
	return seqs, err
}

// statuses takes the next ones of each status except completed, from the indexes of the three stages.
func (l *listing) statuses(c *conn, take func(from string, args ...any) error) error {
	for _, s := range l.f.Walked() {
		var err error
		switch {
		case stage(s) == stageEnded:
			err = take("execution INDEXED BY execution_unusual WHERE unusual = ?", int64(s))
		case stage(s) == stageActive:
			err = l.active(s, take)
		case s == messages.Requested && len(l.f.Pools) == 0:
			err = l.waiting(c, 0, math.MaxInt64, take)
		case s == messages.Requested:
			err = l.waitingOf(c, take)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// active takes the next ones on workers. These are few.
func (l *listing) active(s messages.Status, take func(from string, args ...any) error) error {
	const onWorkers = "execution INDEXED BY execution_active WHERE on_worker = 1 AND status = ?"
	if len(l.f.Pools) == 0 {
		return take(onWorkers, int64(s))
	}
	return take(onWorkers+" AND "+isOne("pool", l.f.Pools), append([]any{int64(s)}, texts(l.f.Pools)...)...)
}

// waitingOf takes the next waiting ones of the filter's pools.
func (l *listing) waitingOf(c *conn, take func(from string, args ...any) error) error {
	for _, name := range store.Each(l.f.Pools) {
		pool, err := c.number("SELECT n FROM pool WHERE name = ?", name)
		if err == nil && pool != 0 {
			err = l.waiting(c, pool*rankPool-1, (pool+1)*rankPool-1, take)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waiting takes the next ones of each rank above rank, up to last, because ranks are not in order of time. A pool has at most three lanes of
// ten priorities, and a million rows may wait.
func (l *listing) waiting(c *conn, rank, last int64, take func(from string, args ...any) error) error {
	for {
		next, err := c.number("SELECT min(rank) FROM execution INDEXED BY execution_waiting WHERE rank > ? AND rank <= ?", rank, last)
		if err != nil || next == 0 {
			return err
		}
		rank = next
		if err = take("execution INDEXED BY execution_waiting WHERE rank = ?", rank); err != nil {
			return err
		}
	}
}

// ofRequest finds a column of the request.
var ofRequest = regexp.MustCompile(`\br\.`)

// check reads those of the executions that match, up to one more than a page has. It finds them by the tables that the filters are about:
// most executions that a long walk looks at do not match, and each table costs a look for each of them.
func (l *listing) check(c *conn, seqs []int64, where string, args []any) (out []messages.Execution, err error) {
	if where != "" {
		from := "SELECT e.seq FROM execution e"
		if ofRequest.MatchString(where) {
			from += " JOIN request r ON r.seq = e.seq"
		}
		in, all := l.among(seqs, args)
		seqs = nil
		if err = c.query(from+" WHERE e.seq IN "+in+where+l.first(), func(row row) error {
			seqs = append(seqs, row.integer(0))
			return nil
		}, all...); err != nil || len(seqs) == 0 {
			return nil, err
		}
	}
	in, all := l.among(seqs, nil)
	err = c.query(listed+" WHERE e.seq IN "+in+l.first(), func(row row) error {
		var r record
		err := scanWorking(row, &r)
		if err == nil && l.bytes.Takes(&r.Execution) {
			out = append(out, r.Execution)
		}
		return err
	}, all...)
	return out, err
}

// first is the end of a statement over seqs, and has the last argument of among.
func (l *listing) first() string {
	if l.f.Oldest {
		return " ORDER BY e.seq LIMIT ?"
	}
	return " ORDER BY e.seq DESC LIMIT ?"
}

// among is a set of seqs, and the arguments of a statement with that set first. Few lengths need few prepared statements.
func (l *listing) among(seqs []int64, args []any) (in string, all []any) {
	all = make([]any, 1<<bits.Len(uint(len(seqs)-1)), 1<<bits.Len(uint(len(seqs)-1))+len(args)+1)
	for i, seq := range seqs {
		all[i] = seq
	}
	return "(?" + strings.Repeat(", ?", len(all)-1) + ")", append(append(all, args...), int64(l.limit)+1)
}
