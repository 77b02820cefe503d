package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The statements of the changes. Each is one compare-and-set on (id, status, attempt) for all its rows, whose places in
// the call come back for those that it changed. The indexed columns rank, turn, timer_at, on_worker, unusual, queue_by,
// worker_by and start_since are named only where a change moves them, so that a claim is a heap-only update.

// changes are the rows of the statements.
type changes struct {
	items    []*item
	careful  bool
	places   []int // indexes into items
	bound    []int // placements that look at the session
	claims   []int
	ends     []edge // that give an outcome
	stops    []edge // running to cancelling
	requeues []edge
}

// edge is one way that a change may take: from one status to another.
type edge struct {
	item          int
	attempt       pgtype.Int4 // NULL: any
	before, after messages.Status
	last          int16
	result        []byte
	failure       *messages.Error
	crash, back   int16 // added to crash_count and take_backs
	delay         time.Duration
	kind, reason  string // of its event; "": none
	by            string // who asked for it; "": nobody
	retry         *messages.Execution
	output        *messages.Output
}

// queueChanges adds the statements for the items to the batch. Their answers set the items' results. Where it is not
// careful, executions with a session are left alone.
func (s *Store) queueChanges(batch *pgx.Batch, items []*item, careful bool) {
	c := &changes{items: items, careful: careful}
	for i, it := range items {
		c.add(i, it, s.cfg.EventsAll)
	}
	for part := range slices.Chunk(c.places, statementRows) {
		s.queuePlaces(batch, c, part)
	}
	for part := range slices.Chunk(c.bound, statementRows) {
		s.queueBound(batch, c, part)
	}
	for part := range slices.Chunk(c.claims, statementRows) {
		s.queueClaims(batch, c, part)
	}
	for part := range slices.Chunk(s.sortLean(c), statementRows) {
		s.queueLean(batch, c, part)
	}
	for part := range chunks(c.ends, statementRows, statementBytes, (*edge).size, sameItem) {
		s.queueEnds(batch, c, part)
	}
	for part := range slices.Chunk(c.stops, statementRows) {
		s.queueStops(batch, c, part)
	}
	for part := range slices.Chunk(c.requeues, statementRows) {
		s.queueRequeues(batch, c, part)
	}
}

var cancelledEarly = &messages.Error{Code: messages.CodeCancelled, Message: "cancelled before it started"}

// add divides a change into its edges.
func (c *changes) add(i int, it *item, eventsAll bool) {
	switch change := it.change.(type) {
	case *store.Place:
		if change.Session == nil && !c.careful {
			c.places = append(c.places, i)
		} else {
			c.bound = append(c.bound, i)
		}
	case *store.Claim:
		c.claims = append(c.claims, i)
	case *store.TakeBack:
		c.requeues = append(c.requeues, edge{item: i, attempt: attemptOf(change.Attempt), before: messages.Scheduled,
			last: lastTakeBack, back: 1, delay: change.Delay, kind: change.Name(), reason: change.Reason, by: change.By})
	case *store.Finish:
		c.finish(i, change, eventsAll)
	case *store.End:
		for _, from := range []messages.Status{messages.Requested, messages.Scheduling, messages.Scheduled} {
			c.ends = append(c.ends, edge{item: i, attempt: attemptOf(change.Attempt), before: from, after: change.Outcome.Status,
				last: lastEnd, result: change.Outcome.Result, failure: change.Outcome.Error, kind: change.Name(),
				reason: reasonOf(change.Outcome.Error), retry: change.Retry})
		}
	case *store.Cancel:
		for _, from := range []messages.Status{messages.Requested, messages.Scheduling, messages.Scheduled} {
			c.ends = append(c.ends, edge{item: i, before: from, after: messages.Cancelled, last: lastCancel, failure: cancelledEarly,
				kind: change.Name(), by: change.By})
		}
		c.stops = append(c.stops, edge{item: i, by: change.By})
	case *store.Rescue:
		c.rescue(i, change)
	}
}

func (c *changes) finish(i int, change *store.Finish, eventsAll bool) {
	o := change.Outcome
	e := edge{item: i, attempt: finishAttempt(change.Attempt), before: messages.Running, after: o.Status, last: lastFinish,
		result: o.Result, failure: o.Error, retry: change.Retry, by: change.By}
	if o.Crash() {
		e.crash = 1
	}
	if !change.Output.Empty() {
		e.output = &change.Output
	}
	if eventsAll || o.Status != messages.Completed && o.Status != messages.Failed || change.By != "" {
		e.kind, e.reason = change.Name(), reasonOf(o.Error)
	}
	c.ends = append(c.ends, e)
	if !c.careful {
		return
	}
	o = store.Settle(messages.Cancelling, o)
	e.before, e.after, e.result, e.failure, e.retry = messages.Cancelling, o.Status, o.Result, o.Error, nil
	e.kind, e.reason = change.Name(), reasonOf(o.Error)
	c.ends = append(c.ends, e)
}

func (c *changes) rescue(i int, change *store.Rescue) {
	crash := int16(1)
	if change.Unstarted {
		crash = 0
	}
	c.requeues = append(c.requeues, edge{item: i, attempt: attemptOf(change.Attempt), before: messages.Running, last: lastRescue,
		crash: crash, delay: change.Delay, kind: change.Name(), reason: change.Reason, by: change.By})
	o := store.Settle(messages.Cancelling, messages.Outcome{Status: messages.Abandoned,
		Error: &messages.Error{Code: messages.CodeWorkerLost, Message: change.Reason}})
	c.ends = append(c.ends, edge{item: i, attempt: attemptOf(change.Attempt), before: messages.Cancelling, after: o.Status,
		last: lastRescue, failure: o.Error, crash: crash, kind: change.Name(), reason: change.Reason, by: change.By})
}

func attemptOf(a messages.Attempt) pgtype.Int4 { return pgtype.Int4{Int32: int32(a), Valid: true} }

func reasonOf(e *messages.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}

// applied records that the change at place n of its statement has taken effect.
func (c *changes) applied(n int64, at time.Time, status messages.Status, attempt messages.Attempt) *item {
	it := c.items[n]
	it.done, it.at = true, at
	it.out = store.Result{Verdict: store.Applied, Status: status, Attempt: attempt, At: at}
	return it
}

const placeSet = `UPDATE execution e SET rank = NULL, turn = NULL, timer_at = NULL, worker_by = NULL, start_since = NULL, on_worker = 1,
 status = 3, attempt = e.attempt + 1, last_change = 1, worker_inc = i.inc, worker_slot = i.slot, worker_id = i.worker, generation = 0,
 placed_by = i.placed_by, first_placed_at = coalesce(e.first_placed_at, now()), scheduled_at = now(), claim_by = now() + i.within, `

const placeSQL = placeSet + `session_epoch = 0, session_lost = false, session_hit = false
 FROM unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::text[], $7::uuid[], $8::interval[], $9::text[])
 AS i (n, id, attempt, inc, slot, worker, placed_by, within, pool)
 WHERE e.id = i.id AND e.status IN (1, 2) AND e.attempt = i.attempt AND e.pool = i.pool AND e.session IS NULL RETURNING i.n, e.attempt, now()`

// boundSQL places with regard to the session, whose lane and row are locked.
const boundSQL = `WITH i AS MATERIALIZED (
 SELECT i.*, (i.use AND i.bind) AS binds, e.session FROM unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::text[], $7::uuid[], $8::interval[], $9::text[],
   $10::boolean[], $11::text[], $12::text[], $13::bigint[], $14::boolean[], $15::boolean[], $16::boolean[])
   AS i (n, id, attempt, inc, slot, worker, placed_by, within, pool, use, in_pool, in_session, epoch, bind, lost, hit)
 JOIN execution e ON e.id = i.id JOIN request r ON r.seq = e.seq
 LEFT JOIN lane l ON l.pool = e.pool AND l.session = e.session LEFT JOIN session s ON s.pool = e.pool AND s.session = e.session
 WHERE e.status IN (1, 2) AND e.attempt = i.attempt AND e.pool = i.pool AND (NOT i.use OR (e.session = i.in_session AND e.pool = i.in_pool
  AND (coalesce(r.affinity, '') NOT LIKE 'strict%' OR l.active = 0)
  AND CASE WHEN i.bind THEN i.epoch > coalesce(s.epoch, 0) WHEN r.affinity = 'hint' AND NOT i.hit THEN true
   ELSE s.epoch = i.epoch AND s.worker_inc = i.inc AND s.worker_pool = i.pool AND s.worker_slot = i.slot END))),
 b AS (INSERT INTO session (pool, session, epoch, worker_inc, worker_pool, worker_slot, bound_at, touched_at)
  SELECT pool, session, epoch, inc, pool, slot, now(), now() FROM i WHERE binds
  ON CONFLICT (pool, session) DO UPDATE SET epoch = excluded.epoch, worker_inc = excluded.worker_inc, worker_pool = excluded.worker_pool,
   worker_slot = excluded.worker_slot, bound_at = now(), touched_at = now(), bound_runs = session.runs) ` +
	placeSet + `session_epoch = CASE WHEN i.use THEN i.epoch ELSE 0 END, session_lost = i.use AND i.lost, session_hit = i.use AND i.hit
 FROM i WHERE e.id = i.id AND e.status IN (1, 2) AND e.attempt = i.attempt RETURNING i.n, e.attempt, now()`

// placeArgs are the columns that both placements have.
func (c *changes) placeArgs(part []int) []any {
	n, attempts, slots := make([]int32, len(part)), make([]int32, len(part)), make([]int32, len(part))
	ids, incs, by := make(column[pgtype.UUID], len(part)), make(column[pgtype.UUID], len(part)), make(column[pgtype.UUID], len(part))
	workers, pools, within := make(column[pgtype.Text], len(part)), make(column[pgtype.Text], len(part)), make(column[pgtype.Interval], len(part))
	for k, i := range part {
		p := c.items[i].change.(*store.Place)
		n[k], ids[k], attempts[k] = int32(i), uuidOf(p.ID), int32(p.Attempt)
		incs[k], slots[k], workers[k] = uuidOf(p.Worker.Incarnation), int32(p.Worker.Slot), textOf(p.WorkerID)
		by[k], within[k], pools[k] = uuidOf(p.PlacedBy), intervalOf(p.ClaimWithin), textOf(p.Worker.Pool)
	}
	return []any{n, ids, attempts, incs, slots, workers, by, within, pools}
}

func (c *changes) placed(rows pgx.Rows) error {
	return each(rows, func(s *scanner) {
		n, attempt, at := s.integer(), messages.Attempt(s.integer()), s.time()
		c.applied(n, at, messages.Scheduled, attempt)
	})
}

func (s *Store) queuePlaces(batch *pgx.Batch, c *changes, part []int) {
	batch.Queue(placeSQL, c.placeArgs(part)...).Query(c.placed)
	s.queueStraight(batch, c, part, "place")
}

// queueStraight stores the events of a part's placements or claims.
func (s *Store) queueStraight(batch *pgx.Batch, c *changes, part []int, kind string) {
	if !s.cfg.EventsAll {
		return
	}
	ids := make([]messages.ExecutionID, len(part))
	for k, i := range part {
		ids[k] = c.items[i].id
	}
	if kind == "place" {
		batch.Queue(placedEventSQL, idsOf(ids))
	} else {
		batch.Queue(claimedEventSQL, idsOf(ids))
	}
}

func (s *Store) queueBound(batch *pgx.Batch, c *changes, part []int) {
	use, bind, lost, hit := make([]bool, len(part)), make([]bool, len(part)), make([]bool, len(part)), make([]bool, len(part))
	pools, sessions, epochs := make(column[pgtype.Text], len(part)), make(column[pgtype.Text], len(part)), make([]int64, len(part))
	for k, i := range part {
		u := c.items[i].change.(*store.Place).Session
		if u == nil {
			continue
		}
		use[k], bind[k], lost[k], hit[k] = true, u.Bind, u.Lost, u.Hit
		pools[k], sessions[k], epochs[k] = textOf(u.Pool), textOf(u.Session), u.Epoch
		s.known.add(c.items[i].id)
	}
	args := append(c.placeArgs(part), use, pools, sessions, epochs, bind, lost, hit)
	batch.Queue(boundSQL, args...).Query(c.placed)
	s.queueStraight(batch, c, part, "place")
}

// The events of placements and claims that this very transaction made. Several of its changes may be of one execution, as when a
// message came twice: one has taken effect, and each of their statements would find the row that it has left. An attempt
// is placed and claimed once, so what has its event gets no second one.
const (
	noEventYet     = ` AND NOT EXISTS (SELECT FROM execution_event v WHERE v.seq = e.seq AND v.attempt = e.attempt AND v.kind = `
	placedEventSQL = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, worker)
 SELECT e.seq, now(), e.attempt, 'place', 1, 3, e.worker_id FROM execution e
 WHERE e.id = ANY($1) AND e.status = 3 AND e.scheduled_at = now() AND e.xmin = pg_current_xact_id()::xid` + noEventYet + `'place')`
	claimedEventSQL = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, worker)
 SELECT e.seq, now(), e.attempt, 'claim', 3, 4, e.worker_id FROM execution e
 WHERE e.id = ANY($1) AND e.status = 4 AND e.started_at = now() AND e.xmin = pg_current_xact_id()::xid` + noEventYet + `'claim')`
)

// claimWhere fences: the claimer's own lease must be live in the same statement. The nodes that live are read once for
// all its rows.
var (
	claimColumns = `queue_by = NULL, status = 4, last_change = 3, generation = i.generation, take_backs = 0, started_at = now(), `
	claimWhere   = `e.id = i.id AND e.status = 3` + claimAttempt + ` AND e.worker_inc = i.inc AND e.worker_slot = i.slot AND e.pool = i.pool
 AND i.inc = ANY (ARRAY(SELECT nd.incarnation FROM node nd WHERE nd.state <> 'dead' AND nd.lease_until > statement_timestamp()))`
	claimSet = `UPDATE execution e SET ` + claimColumns + `run_deadline = CASE WHEN r.timeout > '0' THEN now() + r.timeout END
 FROM unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::int[], $7::text[])
 AS i (n, id, attempt, inc, slot, generation, pool), request r WHERE r.seq = e.seq AND ` + claimWhere
)

var (
	claimed       = ` RETURNING i.n, now(), ` + recordColumns + `, r.parameters`
	claimPlainSQL = claimSet + ` AND e.session IS NULL` + claimed
	claimSQL      = claimSet + claimBound + claimed
	// claimBound refuses a run with a session's state whose binding has ended since it was placed: the process that had the
	// state is gone, and the run would not be told.
	claimBound = ` AND (NOT e.session_hit OR e.session_epoch = 0 OR EXISTS (SELECT 1 FROM session s WHERE s.pool = e.pool
 AND s.session = e.session AND s.epoch = e.session_epoch AND s.worker_inc = e.worker_inc AND s.worker_slot = e.worker_slot))`
	// startedSQL notes that a run with the session's state may begin, which matters once in a session's life.
	startedSQL = `UPDATE session s SET started_epoch = e.session_epoch FROM execution e WHERE e.id = ANY($1) AND e.status = 4 AND e.last_change = 3
 AND e.session_hit AND e.session_epoch > 0 AND s.pool = e.pool AND s.session = e.session AND s.started_epoch = 0`
)

// claimArgs are the columns that both claims have.
func (c *changes) claimArgs(part []int) []any {
	n, attempts, slots, generations := make([]int32, len(part)), make([]int32, len(part)), make([]int32, len(part)), make([]int32, len(part))
	ids, incs, pools := make(column[pgtype.UUID], len(part)), make(column[pgtype.UUID], len(part)), make(column[pgtype.Text], len(part))
	for k, i := range part {
		p := c.items[i].change.(*store.Claim)
		n[k], ids[k], attempts[k] = int32(i), uuidOf(p.ID), int32(p.Attempt)
		incs[k], slots[k], generations[k], pools[k] = uuidOf(p.Worker.Incarnation), int32(p.Worker.Slot), int32(p.Generation), textOf(p.Worker.Pool)
	}
	return []any{n, ids, attempts, incs, slots, generations, pools}
}

func (s *Store) queueClaims(batch *pgx.Batch, c *changes, part []int) {
	if part = s.queueLeanClaims(batch, c, part); len(part) == 0 {
		return
	}
	sql := claimPlainSQL
	if c.careful {
		sql = claimSQL
	}
	args := c.claimArgs(part)
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			n, at := sc.integer(), sc.time()
			r := &record{}
			scanRecord(sc, r)
			r.Parameters = sc.bytes()
			it := c.applied(n, at, r.Status, r.Attempt)
			it.out.Execution = &r.Execution
			s.rememberClaimed(r.Execution)
			if r.Session != "" {
				s.known.add(r.ID)
			}
		})
	})
	if c.careful {
		batch.Queue(startedSQL, args[1])
	}
	s.queueStraight(batch, c, part, "claim")
}

const stopSQL = `WITH i AS MATERIALIZED (SELECT * FROM unnest($1::int[], $2::uuid[], $3::text[]) AS i (n, id, by)),
 e AS (UPDATE execution e SET status = 5, last_change = 6 FROM i, request r WHERE e.id = i.id AND e.status = 4 AND r.seq = e.seq
  RETURNING i.n, now() AS at, ` + recordColumns + `, i.by),
 v AS (INSERT INTO execution_event (seq, at, attempt, kind, before, after, worker, by)
  SELECT seq, now(), attempt, 'cancel', 4, 5, worker_id, by FROM e)
 SELECT e.*, pg_notify($4, '` + wordCancel + `' || e.id::text) FROM e`

func (s *Store) queueStops(batch *pgx.Batch, c *changes, part []edge) {
	n, ids, by := make([]int32, len(part)), make(column[pgtype.UUID], len(part)), make(column[pgtype.Text], len(part))
	for k, e := range part {
		n[k], ids[k], by[k] = int32(e.item), uuidOf(c.items[e.item].id), textOf(e.by)
	}
	batch.Queue(stopSQL, n, ids, by, s.channel()).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			n, at := sc.integer(), sc.time()
			r := &record{}
			scanRecord(sc, r)
			c.applied(n, at, r.Status, r.Attempt).out.Execution = &r.Execution
		})
	})
}

// requeueSQL puts executions back to requested, with no trace of their worker.
const requeueSQL = `WITH i AS MATERIALIZED (SELECT i.*, o.worker_id AS was, r.affinity, r.queue_deadline, r.worker_deadline, now() + i.delay AS ready
  FROM unnest($1::int[], $2::uuid[], $3::int[], $4::smallint[], $5::smallint[], $6::smallint[], $7::smallint[], $8::interval[], $9::text[], $10::text[], $11::text[])
  AS i (n, id, attempt, before, last, crash, back, delay, kind, reason, by) JOIN execution o ON o.id = i.id JOIN request r ON r.seq = o.seq),
 e AS (UPDATE execution e SET status = 1, last_change = i.last, on_worker = NULL, crash_count = e.crash_count + i.crash, take_backs = e.take_backs + i.back,
  run_at = i.ready, timer_at = CASE WHEN i.ready > now() THEN i.ready END,
  rank = CASE WHEN i.ready > now() THEN 32 WHEN e.session IS NOT NULL AND i.affinity LIKE 'strict%' THEN 16 ELSE 0 END + 9 - e.priority,
  turn = CASE WHEN e.session IS NULL OR coalesce(i.affinity, '') NOT LIKE 'strict%' THEN NULL WHEN i.ready > now() THEN 3 WHEN i.affinity = 'strict' THEN 1 ELSE 2 END,
  queue_by = i.queue_deadline, worker_by = i.worker_deadline, start_since = CASE WHEN e.started_at IS NULL THEN e.first_placed_at END,
  worker_inc = NULL, worker_slot = 0, worker_id = NULL, generation = 0, placed_by = NULL, scheduled_at = NULL, claim_by = NULL,
  run_deadline = NULL, session_epoch = 0, session_lost = false, session_hit = false
  FROM i WHERE e.id = i.id AND e.status = i.before AND e.attempt = i.attempt RETURNING i.n, e.seq, e.attempt, e.pool, i.before, i.kind, i.reason, i.by, i.was),
 v AS (INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker, by)
  SELECT seq, now(), attempt, kind, before, 1, reason, was, by FROM e)
 SELECT n, attempt, now(), pg_notify($12, '` + wordRequested + `' || pool) FROM e`

func (s *Store) queueRequeues(batch *pgx.Batch, c *changes, part []edge) {
	n, ids, attempts := make([]int32, len(part)), make(column[pgtype.UUID], len(part)), make(column[pgtype.Int4], len(part))
	before, last, crash, back := make([]int16, len(part)), make([]int16, len(part)), make([]int16, len(part)), make([]int16, len(part))
	delays, kinds := make(column[pgtype.Interval], len(part)), make(column[pgtype.Text], len(part))
	reasons, by := make(column[pgtype.Text], len(part)), make(column[pgtype.Text], len(part))
	for k, e := range part {
		n[k], ids[k], attempts[k] = int32(e.item), uuidOf(c.items[e.item].id), e.attempt
		before[k], last[k], crash[k], back[k] = int16(e.before), e.last, e.crash, e.back
		delays[k], kinds[k], reasons[k], by[k] = intervalOf(max(e.delay, 0)), textOf(e.kind), textOf(e.reason), textOf(e.by)
	}
	batch.Queue(requeueSQL, n, ids, attempts, before, last, crash, back, delays, kinds, reasons, by, s.channel()).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			n, attempt, at := sc.integer(), messages.Attempt(sc.integer()), sc.time()
			it := c.applied(n, at, messages.Requested, attempt)
			s.known.drop(it.id)
			s.floors.clear(s.floors.now()) // it waits in its old place
		})
	})
}
