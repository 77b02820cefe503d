package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// query runs one statement and scans every row.
func (s *core) query(ctx context.Context, what string, scan func(s *scanner), sql string, args ...any) error {
	return s.queryBy(ctx, s.pool, what, scan, sql, args...)
}

// queryBy is query over the connections of a pool.
func (s *core) queryBy(ctx context.Context, pool *pgxpool.Pool, what string, scan func(s *scanner), sql string, args ...any) error {
	if s.closed() {
		return s.mapError(what, store.ErrClosed)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := pool.Query(ctx, sql, args...)
	if err == nil {
		err = each(rows, scan)
	}
	return s.mapError(what, err)
}

// exec runs one statement and returns how many rows it changed.
func (s *core) exec(ctx context.Context, what, sql string, args ...any) (int, error) {
	if s.closed() {
		return 0, s.mapError(what, store.ErrClosed)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	var n int64
	err := repeat(ctx, func() error {
		tag, err := s.pool.Exec(ctx, sql, args...)
		n = tag.RowsAffected()
		return err
	})
	return int(n), s.mapError(what, err)
}

func (s *core) executions(ctx context.Context, what, sql string, args ...any) ([]messages.Execution, error) {
	var out []messages.Execution
	err := s.query(ctx, what, func(sc *scanner) {
		var r record
		scanWhole(sc, &r)
		out = append(out, r.Execution)
	}, sql, args...)
	return out, err
}

// Get returns one execution complete. For a caller it is weighed first.
func (s *executionRows) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	var r record
	pool := s.pool
	if store.AdmissionOf(ctx) != nil {
		size := int64(0)
		err := s.query(ctx, "get execution", func(v *scanner) { scanWhole(v, &r); size = v.integer() }, weighed+" WHERE e.id = $1", uuidOf(id))
		if err != nil {
			return messages.Execution{}, err
		}
		switch apart, err := store.Weighed(ctx, size); {
		case err != nil:
			return messages.Execution{}, err
		case r.Seq == 0:
			return messages.Execution{}, notFound(id)
		case !apart:
			return r.Execution, nil
		}
		r, pool = record{}, s.apart
	}
	err := s.queryBy(ctx, pool, "get execution", func(v *scanner) { scanWhole(v, &r) }, whole+" WHERE e.id = $1", uuidOf(id))
	if err == nil && r.Seq == 0 {
		err = notFound(id)
	}
	return r.Execution, err
}

func notFound(id messages.ExecutionID) error {
	return fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
}

// chainSQL uses the first execution of the chain, which its retries name, also if it is deleted.
var chainSQL = listed + chainWhere + ` ORDER BY e.seq LIMIT 1000`

// chainSizeSQL is about the bytes of what chainSQL reads.
const chainSizeSQL = "SELECT count(*) * 1024 + coalesce(sum(least(octet_length(coalesce(e.error, o.error)), $2)), 0)::bigint" + recordFrom + chainWhere

const chainWhere = ` WHERE e.id IN (SELECT f.first FROM (SELECT coalesce(r.original, r.id) AS first FROM execution e JOIN request r ON r.seq = e.seq WHERE e.id = $1) f
 UNION SELECT n.id FROM (SELECT coalesce((SELECT coalesce(r.original, r.id) FROM execution e JOIN request r ON r.seq = e.seq WHERE e.id = $1), $1) AS first) f
  JOIN request n ON n.original = f.first)`

// Chain returns the whole retry chain of an execution, oldest first, 1,000 at most, without results.
func (s *executionRows) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	if store.AdmissionOf(ctx) != nil {
		size := int64(0)
		if err := s.query(ctx, "weigh chain", func(v *scanner) { size = v.integer() }, chainSizeSQL, uuidOf(id), int64(store.ErrorListed)); err != nil {
			return nil, err
		}
		if _, err := store.Weighed(ctx, size); err != nil {
			return nil, err
		}
	}
	out, err := s.executions(ctx, "read chain", chainSQL, uuidOf(id))
	if err == nil && len(out) == 0 {
		err = notFound(id)
	}
	return out, err
}

const eventColumns = `v.at, v.attempt, v.kind, v.before, v.after, v.reason, v.worker, v.by, v.incarnation, v.generation, v.run_at, v.scheduled_at, v.started_at`

// Events returns the events of the execution, oldest first, store.EventsAll at most.
func (s *executionRows) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	return s.readEvents(ctx, id, "SELECT "+eventColumns+` FROM execution e
 LEFT JOIN execution_event v ON v.seq = e.seq WHERE e.id = $1 ORDER BY v.n LIMIT $2`, uuidOf(id), int64(store.EventsAll))
}

// readEvents reads events of an execution. A row of it without an event says that it exists.
func (s *executionRows) readEvents(ctx context.Context, id messages.ExecutionID, sql string, args ...any) (out []store.Event, err error) {
	found := false
	err = s.query(ctx, "read events", func(v *scanner) {
		found = true
		if len(v.row) > 0 && v.row[0] == nil { // an execution without events
			return
		}
		e := store.Event{
			At: v.time(), Attempt: messages.Attempt(v.integer()), Kind: v.text(), From: messages.Status(v.integer()),
			To: messages.Status(v.integer()), Reason: v.text(), Worker: v.text(), By: v.text(),
		}
		v.id((*[16]byte)(&e.Incarnation))
		e.Generation, e.RunAt, e.ScheduledAt, e.StartedAt = messages.Generation(v.integer()), v.time(), v.time(), v.time()
		out = append(out, e.OfAnyVersion())
	}, sql, args...)
	if err == nil && !found {
		err = notFound(id)
	}
	return out, err
}

// EventsBetween returns the events of an execution in a range of time, oldest first.
func (s *executionRows) EventsBetween(ctx context.Context, q store.EventQuery) (page store.EventPage, err error) {
	order, beyond, last := "", "<", int64(math.MaxInt64)
	if q.Newest {
		order, beyond, last = " DESC", ">", 0
	}
	seq, end := int64(0), int64(0)
	err = s.query(ctx, "read the number of events", func(v *scanner) { seq, end = v.integer(), v.integer() },
		`SELECT e.seq, (SELECT v.n FROM execution_event v WHERE v.seq = e.seq ORDER BY v.n`+order+` LIMIT 1 OFFSET $2) FROM execution e WHERE e.id = $1`,
		uuidOf(q.Execution), int64(store.EventsWalk))
	switch {
	case err != nil:
		return page, err
	case seq == 0:
		return page, notFound(q.Execution)
	}
	if page.More = end != 0; !page.More {
		end = last
	}
	within := " WHERE v.seq = $1 AND v.n " + beyond + " $2 AND v.at >= $3 AND v.at < $4"
	args := []any{seq, end, boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity)}
	page.Events, err = s.readEvents(ctx, q.Execution, "SELECT "+eventColumns+` FROM (SELECT 1) one LEFT JOIN
 (SELECT * FROM execution_event v`+within+" ORDER BY v.n"+order+` LIMIT $5) v ON true ORDER BY v.n`, append(slices.Clone(args), int64(q.Size()))...)
	if err == nil && len(page.Events) == q.Size() {
		err = s.query(ctx, "count events", func(v *scanner) { page.Left = int(v.integer()) - len(page.Events) },
			"SELECT count(*) FROM execution_event v"+within, args...)
	}
	return page, err
}

// Output returns the output of the execution's process.
func (s *executionRows) Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error) {
	pool := s.pool
	if store.AdmissionOf(ctx) != nil {
		size := int64(0)
		err := s.query(ctx, "weigh output", func(v *scanner) { size = v.integer() }, `SELECT coalesce(octet_length(o.stdout), 0) + coalesce(octet_length(o.stderr), 0) + coalesce(octet_length(o.record), 0)
 FROM execution e JOIN output o ON o.seq = e.seq WHERE e.id = $1`, uuidOf(id))
		if err != nil {
			return messages.Output{}, err
		}
		apart, err := store.Weighed(ctx, size)
		if err != nil {
			return messages.Output{}, err
		}
		if apart {
			pool = s.apart
		}
	}
	var o messages.Output
	found := false
	err := s.queryBy(ctx, pool, "read output", func(v *scanner) {
		found, o.Stdout, o.Stderr = true, v.bytes(), v.bytes()
		o.StdoutCut, o.ErrCut, o.Record = v.boolean(), v.boolean(), v.bytes()
	}, `SELECT o.stdout, o.stderr, o.stdout_cut, o.stderr_cut, o.record FROM execution e LEFT JOIN output o ON o.seq = e.seq WHERE e.id = $1`, uuidOf(id))
	if err == nil && !found {
		err = notFound(id)
	}
	return o, err
}

// depthsSQL counts by the two indexes of executions that have not ended. It counts waiting ones rank by rank, up to $1
// of each. From rank 16 on they have a session, from rank 32 on they wait for their time.
var depthsSQL = store.Statement(`SELECT d.pool, d.status, d.n, d.not_due, r.requested_at, d.more, d.since FROM (
 SELECT k.pool, {requested}::smallint AS status, sum(c.n)::bigint AS n, coalesce(sum(c.n) FILTER (WHERE k.rank >= 32), 0)::bigint AS not_due, min(c.first) FILTER (WHERE k.rank < 32) AS first, bool_or(c.n >= $1) AS more, min((SELECT e.run_at FROM execution e WHERE e.rank IS NOT NULL AND e.pool = k.pool AND e.rank = k.rank ORDER BY e.seq LIMIT 1)) FILTER (WHERE k.rank < 16) AS since
  FROM (` + ranksSQL + `) k CROSS JOIN LATERAL (SELECT count(*) AS n, min(w.seq) AS first FROM (SELECT e.seq FROM execution e
   WHERE e.rank IS NOT NULL AND e.pool = k.pool AND e.rank = k.rank ORDER BY e.seq LIMIT $1) w) c GROUP BY k.pool
 UNION ALL SELECT pool, status, count(*), 0, min(seq), false, min(scheduled_at) FILTER (WHERE status = {scheduled}) FROM execution WHERE on_worker IS NOT NULL GROUP BY pool, status) d
 LEFT JOIN request r ON r.seq = d.first ORDER BY 1, 2`)

// Depths counts the executions that have not ended, by pool and status.
func (s *executionRows) Depths(ctx context.Context) ([]store.Depth, error) {
	var out []store.Depth
	err := s.query(ctx, "count depths", func(v *scanner) {
		out = append(out, store.Depth{Pool: v.text(), Status: messages.Status(v.integer()), Count: int(v.integer()), NotDue: int(v.integer()), Oldest: v.time(), More: v.boolean(), Since: v.time()})
	}, depthsSQL, store.DepthMax)
	return out, err
}

// Live returns the executions on the pool's workers.
func (s *executionRows) Live(ctx context.Context, pool string) ([]messages.Execution, error) {
	return s.executions(ctx, "read live executions", listed+" WHERE e.on_worker IS NOT NULL AND e.pool = $1 ORDER BY e.seq", encodeText(pool))
}

// Now returns the server's clock.
func (s *core) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.query(ctx, "read the clock", func(v *scanner) { now = v.time() }, "SELECT clock_timestamp()")
	return now, err
}

// overdue holds, for each deadline, the condition on (age = $1) and the time that orders it. Each uses an index that
// holds little more than overdue executions, or those on workers.
var overdue = map[store.Deadline]struct{ where, order string }{
	store.ClaimBy: {store.Statement("e.on_worker IS NOT NULL AND e.status = {scheduled} AND e.claim_by <= now()"), "e.claim_by"},
	store.StartBy: {store.Statement("e.id IN (SELECT id FROM execution WHERE start_since <= now() - $1::interval UNION ALL SELECT id FROM execution" +
		" WHERE on_worker IS NOT NULL AND status = {scheduled} AND first_placed_at <= now() - $1::interval AND started_at IS NULL)"), "e.first_placed_at"},
	store.QueueBy:  {"e.queue_by <= now()", "e.queue_by"},
	store.WorkerBy: {"e.worker_by <= now()", "e.worker_by"},
	store.RunBy:    {store.Statement("e.on_worker IS NOT NULL AND e.status IN ({running}, {cancelling}) AND e.run_deadline <= now() - $1::interval"), "e.run_deadline"},
	store.Orphaned: {"e.on_worker IS NOT NULL AND NOT EXISTS (SELECT FROM node n WHERE n.incarnation = e.worker_inc AND n.state <> 'dead')", "e.scheduled_at"},
}

// Overdue returns executions past a deadline, oldest first.
func (s *executionRows) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	d, ok := overdue[q.Deadline]
	if !ok {
		return nil, fmt.Errorf("overdue: %w: unknown deadline %d", store.ErrInvalid, q.Deadline)
	}
	where, args := d.where, []any{intervalOf(q.Age), pageSize(q.Limit)}
	if q.After.Seq != 0 {
		where += " AND (" + d.order + ", e.seq) > ($3::timestamptz, $4::bigint)"
		args = append(args, q.After.At, q.After.Seq)
	}
	return s.executions(ctx, "read overdue executions", listed+" WHERE "+where+" AND $1::interval IS NOT NULL ORDER BY "+d.order+", e.seq LIMIT $2", args...)
}

// pageSize bounds a page: 1 to 1000; 100 if limit is 0.
func pageSize(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}

// inTransaction runs statements that depend only on each other in one transaction and one round trip.
func (s *core) inTransaction(ctx context.Context, what string, queue func(b *pgx.Batch)) error {
	if s.closed() {
		return s.mapError(what, store.ErrClosed)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.mapError(what, repeat(ctx, func() error {
		b := &pgx.Batch{}
		queue(b)
		return s.pool.SendBatch(ctx, b).Close()
	}))
}
