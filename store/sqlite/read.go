package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The ways to read an execution: working has no long parameters, whole has all, listed has neither parameters nor
// result, and the beginning of a long error, chained has no parameters, and fresh is working for rows that no change has touched.
const (
	working = "SELECT " + recordColumns + ", CASE WHEN length(r.parameters) <= 4096 THEN r.parameters END" + recordFrom
	fresh   = "SELECT " + requestColumns + "e.rank, e.priority, e.pool, e.session, e.run_at, e.queue_deadline, e.worker_deadline, CASE WHEN length(r.parameters) <= 4096 THEN r.parameters END" + recordFrom
	whole   = "SELECT " + recordColumns + ", r.parameters, coalesce(e.result, o.result), coalesce(e.error, o.error)" + recordFrom + "LEFT JOIN outcome o ON o.seq = e.seq"
	chained = "SELECT " + recordColumns + ", NULL, coalesce(e.result, o.result), coalesce(e.error, o.error)" + recordFrom + "LEFT JOIN outcome o ON o.seq = e.seq"
)

// sizeSQL is the bytes of what an execution may hold that is long. SQLite reads none of them for that.
const sizeSQL = "coalesce(octet_length(r.parameters), 0) + coalesce(octet_length(coalesce(e.result, o.result)), 0) + coalesce(octet_length(coalesce(e.error, o.error)), 0)"

// weighed is whole where that is short, and else listed, with the size.
var weighed = fmt.Sprintf("SELECT "+recordColumns+", CASE WHEN "+sizeSQL+" <= %[1]d THEN r.parameters END, CASE WHEN "+sizeSQL+" <= %[1]d THEN coalesce(e.result, o.result) END, "+
	"CASE WHEN "+sizeSQL+" <= %[1]d THEN coalesce(e.error, o.error) ELSE substr(coalesce(e.error, o.error), 1, %[2]d) END, "+sizeSQL+recordFrom+
	"LEFT JOIN outcome o ON o.seq = e.seq", store.AdmitFrom, store.ErrorListed)

var listed = fmt.Sprintf("SELECT "+recordColumns+", NULL, NULL, substr(coalesce(e.error, o.error), 1, %d)"+recordFrom+"LEFT JOIN outcome o ON o.seq = e.seq", store.ErrorListed)

// scanWorking reads a row of any of them.
func scanWorking(row row, r *record) error {
	if err := scanRecord(row, r); err != nil {
		return err
	}
	s := scanner{row: row, n: recordWidth}
	if row.columns > recordWidth {
		r.Parameters = s.bytes()
	}
	if row.columns > recordWidth+2 {
		r.Result = s.bytes()
		r.Error = store.DecodeError(s.bytes())
	}
	return s.err
}

// readOne returns the first row, or nil.
func readOne(c *conn, sql string, args ...any) (*record, error) {
	var r *record
	err := c.query(sql, func(row row) error {
		r = &record{}
		return scanWorking(row, r)
	}, args...)
	return r, err
}

func readMany(c *conn, sql string, args ...any) ([]messages.Execution, error) {
	var out []messages.Execution
	err := c.query(sql, func(row row) error {
		var r record
		err := scanWorking(row, &r)
		out = append(out, r.Execution)
		return err
	}, args...)
	return out, err
}

func readBlob(c *conn, sql string, args ...any) ([]byte, error) {
	var b []byte
	err := c.query(sql, func(row row) error {
		s := scanner{row: row}
		b = s.bytes()
		return s.err
	}, args...)
	return b, err
}

func readOutcome(c *conn, e *messages.Execution) error {
	e.Result, e.Error = nil, nil
	return c.query("SELECT coalesce(e.result, o.result), coalesce(e.error, o.error) FROM execution e LEFT JOIN outcome o ON o.seq = e.seq WHERE e.seq = ?", func(row row) error {
		s := scanner{row: row}
		e.Result, e.Error = s.bytes(), store.DecodeError(s.bytes())
		return s.err
	}, e.Seq)
}

// Get returns one execution complete. For a caller it is weighed first.
func (s *Store) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if store.AdmissionOf(ctx) != nil {
		return s.getWeighed(ctx, id)
	}
	return s.getFrom(ctx, s.readers, id)
}

func (s *Store) getFrom(ctx context.Context, readers chan *conn, id messages.ExecutionID) (messages.Execution, error) {
	var r *record
	err := s.readBy(ctx, readers, "get execution", func(c *conn) (err error) {
		r, err = readOne(c, whole+" WHERE r.id = ?", id[:])
		return err
	})
	if err != nil {
		return messages.Execution{}, err
	}
	if r == nil {
		return messages.Execution{}, fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
	}
	return r.Execution, nil
}

func (s *Store) getWeighed(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	var r record
	size := int64(0)
	err := s.read(ctx, "get execution", func(c *conn) error {
		return c.query(weighed+" WHERE r.id = ?", func(row row) error {
			size = row.integer(recordWidth + 3)
			return scanWorking(row, &r)
		}, id[:])
	})
	if err != nil {
		return messages.Execution{}, err
	}
	switch apart, err := store.Weighed(ctx, size); {
	case err != nil:
		return messages.Execution{}, err
	case r.Seq == 0:
		return messages.Execution{}, fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
	case apart:
		return s.getFrom(ctx, s.apart, id)
	}
	return r.Execution, nil
}

// Chain returns the whole retry chain of an execution, oldest first, without results.
func (s *Store) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	var out []messages.Execution
	var first []byte
	size := int64(0)
	err := s.read(ctx, "weigh chain", func(c *conn) (err error) {
		if first, err = readBlob(c, "SELECT coalesce(original, id) FROM request WHERE id = ?", id[:]); err != nil {
			return err
		}
		if first == nil {
			first = id[:] // it may be the first of a chain, and deleted
		}
		size, err = c.number("SELECT count(*) * 1024 + coalesce(sum(min(octet_length(coalesce(e.error, o.error)), ?2)), 0)"+recordFrom+
			"LEFT JOIN outcome o ON o.seq = e.seq WHERE r.seq IN (SELECT seq FROM request WHERE id = ?1 UNION SELECT seq FROM request WHERE original = ?1)", first, int64(store.ErrorListed))
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := store.Weighed(ctx, size); err != nil {
		return nil, err
	}
	err = s.read(ctx, "read chain", func(c *conn) (err error) {
		out, err = readMany(c, listed+" WHERE r.seq IN (SELECT seq FROM request WHERE id = ?1 UNION SELECT seq FROM request WHERE original = ?1) ORDER BY e.seq LIMIT 1000", first)
		if err == nil && len(out) == 0 {
			err = fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
		}
		return err
	})
	return out, err
}

const (
	eventColumns = "at, attempt, kind, before, after, reason, worker, by, incarnation, generation, run_at, scheduled_at, started_at"
	eventsSQL    = "SELECT " + eventColumns + " FROM execution_event WHERE seq = ? ORDER BY n LIMIT ?"
)

// Events returns the events of the execution, oldest first, 10,000 at most.
func (s *Store) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	var out []store.Event
	err := s.read(ctx, "read events", func(c *conn) error {
		seq, err := seqOf(c, id)
		if err != nil {
			return err
		}
		out, err = readEvents(c, eventsSQL, seq, int64(store.EventsAll))
		return err
	})
	return out, err
}

// seqOf is the number of an execution, or ErrNotFound.
func seqOf(c *conn, id messages.ExecutionID) (int64, error) {
	seq, err := c.number("SELECT seq FROM request WHERE id = ?", id[:])
	if err == nil && seq == 0 {
		err = fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
	}
	return seq, err
}

func readEvents(c *conn, sql string, args ...any) (out []store.Event, err error) {
	err = c.query(sql, func(row row) error {
		v := scanner{row: row}
		e := store.Event{
			At: v.time(), Attempt: messages.Attempt(v.integer()), Kind: v.text(), From: messages.Status(v.integer()),
			To: messages.Status(v.integer()), Reason: v.text(), Worker: v.text(), By: v.text(),
		}
		v.id((*[16]byte)(&e.Incarnation))
		e.Generation, e.RunAt, e.ScheduledAt, e.StartedAt = messages.Generation(v.integer()), v.time(), v.time(), v.time()
		out = append(out, e.OfAnyVersion())
		return v.err
	}, args...)
	return out, err
}

// EventsBetween returns the events of an execution in a range of time, oldest first.
func (s *Store) EventsBetween(ctx context.Context, q store.EventQuery) (page store.EventPage, err error) {
	order, beyond, last := "", "<", int64(math.MaxInt64)
	if q.Newest {
		order, beyond, last = " DESC", ">", 0
	}
	to := int64(math.MaxInt64)
	if !q.To.IsZero() {
		to = micros(q.To)
	}
	within := " FROM execution_event WHERE seq = ?1 AND n " + beyond + " ?2 AND at >= ?3 AND at < ?4"
	err = s.read(ctx, "read events of a time", func(c *conn) error {
		page = store.EventPage{}
		seq, err := seqOf(c, q.Execution)
		if err != nil {
			return err
		}
		end, err := c.number("SELECT n FROM execution_event WHERE seq = ?1 ORDER BY n"+order+" LIMIT 1 OFFSET ?2", seq, int64(store.EventsWalk))
		if err != nil {
			return err
		}
		if page.More = end != 0; !page.More {
			end = last
		}
		page.Events, err = readEvents(c, "SELECT "+eventColumns+within+" ORDER BY n"+order+" LIMIT ?5", seq, end, micros(q.From), to, int64(q.Size()))
		if err != nil {
			return err
		}
		if q.Newest {
			slices.Reverse(page.Events)
		}
		if len(page.Events) == q.Size() {
			all, err := c.number("SELECT count(*)"+within, seq, end, micros(q.From), to)
			page.Left = int(all) - len(page.Events)
			return err
		}
		return nil
	})
	return page, err
}

// Output returns the output of the execution's process.
func (s *Store) Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error) {
	readers := s.readers
	if store.AdmissionOf(ctx) != nil {
		size := int64(0)
		err := s.read(ctx, "weigh output", func(c *conn) (err error) {
			size, err = c.number("SELECT coalesce(octet_length(o.stdout), 0) + coalesce(octet_length(o.stderr), 0) + coalesce(octet_length(o.record), 0) FROM request r JOIN output o ON o.seq = r.seq WHERE r.id = ?", id[:])
			return err
		})
		if err != nil {
			return messages.Output{}, err
		}
		apart, err := store.Weighed(ctx, size)
		if err != nil {
			return messages.Output{}, err
		}
		if apart {
			readers = s.apart
		}
	}
	var o messages.Output
	err := s.readBy(ctx, readers, "read output", func(c *conn) error {
		found := false
		err := c.query("SELECT o.stdout, o.stderr, o.cut, o.record FROM request r LEFT JOIN output o ON o.seq = r.seq WHERE r.id = ?",
			func(row row) error {
				v := scanner{row: row}
				found, o.Stdout, o.Stderr = true, v.bytes(), v.bytes()
				cut := v.integer()
				o.StdoutCut, o.ErrCut, o.Record = cut&1 != 0, cut&2 != 0, v.bytes()
				return v.err
			}, id[:])
		if err == nil && !found {
			err = fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
		}
		return err
	})
	return o, err
}

// Depths counts the executions that have not ended, by pool and status, from two small indexes.
func (s *Store) Depths(ctx context.Context) ([]store.Depth, error) {
	var out []store.Depth
	err := s.read(ctx, "count depths", func(c *conn) error {
		out = nil
		return c.query(depthsSQL, func(row row) error {
			v := scanner{row: row}
			out = append(out, store.Depth{Pool: v.text(), Status: messages.Status(v.integer()), Count: int(v.integer()), NotDue: int(v.integer()), Oldest: v.time(), More: v.boolean(), Since: v.time()})
			return v.err
		}, int64(store.DepthMax))
	})
	return out, err
}

// depthsSQL counts waiting executions rank by rank, with one step of the index to each rank and up to ?1 of it, and
// adds up the few ranks of each pool. Those of lane 1 have a session, those of lane 2 wait for their time.
var depthsSQL = store.Statement(`WITH RECURSIVE k (rank) AS (
 SELECT min(rank) FROM execution INDEXED BY execution_waiting WHERE rank > 0
 UNION ALL SELECT (SELECT min(e.rank) FROM execution e INDEXED BY execution_waiting WHERE e.rank > k.rank) FROM k WHERE k.rank IS NOT NULL),
 w AS MATERIALIZED (SELECT k.rank, (SELECT count(*) FROM (SELECT 1 FROM execution e INDEXED BY execution_waiting WHERE e.rank = k.rank LIMIT ?1)) AS n,
  (SELECT min(e.seq) FROM execution e INDEXED BY execution_waiting WHERE e.rank = k.rank) AS first FROM k WHERE k.rank IS NOT NULL)
SELECT pool, status, n, not_due, (SELECT requested_at FROM request WHERE seq = first), more, since FROM (
 SELECT p.name AS pool, {requested} AS status, sum(w.n) AS n, sum(CASE WHEN w.rank % 64 / 16 = 2 THEN w.n ELSE 0 END) AS not_due, min(CASE WHEN w.rank % 64 / 16 <> 2 THEN w.first END) AS first, max(w.n >= ?1) AS more, coalesce(min(CASE WHEN w.rank % 64 / 16 = 0 THEN (SELECT e.run_at FROM execution e WHERE e.seq = w.first) END), 0) AS since FROM w JOIN pool p ON p.n = w.rank / 64 GROUP BY p.n
 UNION ALL SELECT pool, status, count(*), 0, min(seq), 0, CASE status WHEN {scheduled} THEN min(scheduled_at) ELSE 0 END FROM execution INDEXED BY execution_active WHERE on_worker = 1 GROUP BY pool, status)
 ORDER BY pool, status`)

// Live returns the executions on the pool's workers.
func (s *Store) Live(ctx context.Context, pool string) ([]messages.Execution, error) {
	var out []messages.Execution
	err := s.read(ctx, "read live executions", func(c *conn) (err error) {
		out, err = readMany(c, listed+" WHERE e.on_worker = 1 AND e.pool = ? ORDER BY e.seq", pool)
		return err
	})
	return out, err
}
