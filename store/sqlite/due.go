package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// promoteMax bounds how many executions with a reached run_at one Due moves to the due lanes.
const promoteMax = 5000

// Due returns the executions that a router may place now. It first moves executions whose run_at was reached since the
// last look to the due lanes, so that a backlog of executions with run_at ahead is never scanned.
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	var page store.DuePage
	now := s.clock.now()
	if err := s.promote(ctx, q.Pool, now); err != nil {
		return page, err
	}
	err := s.read(ctx, "read due executions", func(c *conn) error {
		page = store.DuePage{}
		plain, err := duePlain(c, q)
		if err != nil {
			return err
		}
		heads, err := dueHeads(c, q, headsSQL)
		if err != nil {
			return err
		}
		behind, err := dueHeads(c, q, behindSQL)
		if err != nil {
			return err
		}
		for i := range behind {
			behind[i].Behind = true
		}
		page.More = len(plain) > max(q.Limit, 0) || len(heads) > max(q.Heads, 0) || len(behind) > max(q.Heads, 0)
		page.Candidates = clip(plain, q.Limit)
		page.Candidates = append(page.Candidates, clip(heads, q.Heads)...)
		page.Candidates = append(page.Candidates, clip(behind, q.Heads)...)
		slices.SortFunc(page.Candidates, byRank)
		at, err := c.number("SELECT run_at FROM timer WHERE pool = ? ORDER BY run_at LIMIT 1", q.Pool)
		page.NextAt = moment(at)
		return err
	})
	return page, err
}

func clip(c []messages.Candidate, limit int) []messages.Candidate {
	return c[:min(len(c), max(limit, 0))]
}

// byRank orders candidates by priority, highest first, then by insertion.
func byRank(a, b messages.Candidate) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
}

// promote moves the pool's executions whose run_at was reached.
func (s *Store) promote(ctx context.Context, pool string, now time.Time) error {
	var waiting int64
	err := s.read(ctx, "read timers", func(c *conn) (err error) {
		waiting, err = c.number("SELECT 1 FROM timer WHERE pool = ? AND run_at <= ? LIMIT 1", pool, micros(now))
		return err
	})
	if err != nil || waiting == 0 {
		return err
	}
	return s.write(ctx, "promote executions", promoteMax, func(w *writer) error { return w.promote(pool) })
}

func (w *writer) promote(pool string) error {
	var due []*record
	err := w.c.query(working+" WHERE e.seq IN (SELECT seq FROM timer WHERE pool = ? AND run_at <= ? ORDER BY run_at LIMIT ?)",
		func(row row) error {
			r := &record{}
			due = append(due, r)
			return scanWorking(row, r)
		}, pool, micros(w.now), int64(promoteMax))
	if err != nil {
		return err
	}
	for _, r := range due {
		rank, err := w.rank(&r.Row)
		if err != nil {
			return err
		}
		if err := w.exec("UPDATE execution SET rank = ? WHERE seq = ?", rank, r.Seq); err != nil {
			return err
		}
		from := marksOf(r)
		r.rank = rank
		if err := w.mark(from, r); err != nil {
			return err
		}
		w.cache.drop(r.ID)
	}
	return nil
}

// duePlain reads the executions without turns, one more than the limit.
func duePlain(c *conn, q store.DueQuery) ([]messages.Candidate, error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	pool, err := c.number("SELECT n FROM pool WHERE name = ?", q.Pool)
	if err != nil || pool == 0 {
		return nil, err
	}
	first, last := rankOf(pool, laneDue, messages.PriorityMax), rankOf(pool, laneDue, messages.PriorityMin)
	if q.AfterSeq == 0 {
		return candidates(c, q.Limit+1, plainSQL, first, last, int64(q.Limit)+1)
	}
	at := rankOf(pool, laneDue, q.AfterPriority)
	same, err := candidates(c, q.Limit+1, plainAfterSQL, at, q.AfterSeq, int64(q.Limit)+1)
	if err != nil || len(same) > q.Limit {
		return same, err
	}
	rest := q.Limit + 1 - len(same)
	lower, err := candidates(c, rest, plainSQL, at+1, last, int64(rest))
	return append(same, lower...), err
}

const candidateColumns = `SELECT e.seq, r.id, e.attempt, r.action, r.version, e.priority, e.session, r.affinity, r.avoid, r.flags,
 e.worker_deadline, e.take_backs, r.timeout FROM `

// The executions without turns, from the first rank to the last, and within one rank after a seq.
const (
	waitingRequests = candidateColumns + "execution e INDEXED BY execution_waiting CROSS JOIN request r ON r.seq = e.seq WHERE "
	plainSQL        = waitingRequests + "e.rank BETWEEN ? AND ? ORDER BY e.rank, e.seq LIMIT ?"
	plainAfterSQL   = waitingRequests + "e.rank = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"
)

// behindSQL reads the strict_fail executions behind another one of their session, which is busy or waits.
const behindSQL = candidateColumns + `turn t INDEXED BY turn_fail CROSS JOIN execution e ON e.seq = t.seq
 CROSS JOIN request r ON r.seq = t.seq WHERE t.pool = ? AND t.fail = 1 AND
 NOT EXISTS (SELECT 1 FROM head h WHERE h.pool = t.pool AND h.session = t.session AND h.seq = t.seq) LIMIT ?`

// headsSQL reads the heads, best first.
const headsSQL = candidateColumns + `head h INDEXED BY head_order CROSS JOIN execution e ON e.seq = h.seq
 CROSS JOIN request r ON r.seq = h.seq WHERE h.pool = ? ORDER BY h.priority DESC, h.seq LIMIT ?`

func dueHeads(c *conn, q store.DueQuery, sql string) ([]messages.Candidate, error) {
	if q.Heads <= 0 {
		return nil, nil
	}
	return candidates(c, q.Heads+1, sql, q.Pool, int64(q.Heads)+1)
}

func candidates(c *conn, hint int, sql string, args ...any) ([]messages.Candidate, error) {
	var out []messages.Candidate
	err := c.query(sql, func(row row) error {
		v := scanner{row: row}
		var k messages.Candidate
		k.Seq = v.integer()
		v.id((*[16]byte)(&k.ID))
		k.Attempt, k.Action, k.Version = messages.Attempt(v.integer()), v.interned(), v.interned()
		k.Priority, k.Session, k.Affinity = messages.Priority(v.integer()), v.text(), messages.Affinity(v.interned())
		k.Avoid = messages.WorkerID(v.interned())
		flags := v.integer()
		k.WaitForWorker, k.Idempotent = flags&flagWait != 0, flags&flagIdempotent != 0
		k.WorkerDeadline, k.TakeBacks, k.Timeout = v.time(), int(v.integer()), v.duration()
		if out == nil {
			out = make([]messages.Candidate, 0, min(hint, 1024))
		}
		out = append(out, k)
		return v.err
	}, args...)
	return out, err
}
