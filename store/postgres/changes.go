package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The statements of the changes. Each is one compare-and-set on (id, status, attempt) for all its rows. It returns the
// places in the call of the rows that it changed. The indexed columns rank, turn, timer_at, on_worker, unusual,
// queue_by, worker_by and start_since are set only by changes that move them, so that a claim is a heap-only update.

// changes are the rows of the statements.
type changes struct {
	items  []*item
	bound  bool  // all have a session, or none has
	places []int // indexes into items
	claims []int
	starts []int // claims of executions that were handed over directly
	ends   []edge
}

// edge is the end of a run that was not cancelled.
type edge struct {
	item   int
	change *store.Finish
	crash  int16  // added to crash_count
	kind   string // of its event; "": no event
}

// queueChanges adds the statements for the items to the batch. Their answers set the items' results. Without bound,
// executions with a session are not changed.
func (s *statements) queueChanges(batch *pgx.Batch, items []*item, bound bool) {
	c := &changes{items: items, bound: bound}
	for i, it := range items {
		switch change := it.change.(type) {
		case *store.Place:
			c.places = append(c.places, i)
		case *store.Claim:
			if change.PlacedBy.IsZero() {
				c.claims = append(c.claims, i)
			} else {
				c.starts = append(c.starts, i)
			}
		case *store.Finish:
			c.ends = append(c.ends, endOf(i, change, s.cfg.EventsAll))
		}
	}
	for part := range slices.Chunk(c.places, statementRows) {
		s.queuePlaces(batch, c, part)
	}
	for part := range slices.Chunk(c.claims, statementRows) {
		s.queueClaims(batch, c, part, &claimPlaced)
	}
	for part := range slices.Chunk(c.starts, statementRows) {
		s.queueClaims(batch, c, part, &claimHanded)
	}
	for part := range slices.Chunk(s.sortLean(c), statementRows) {
		s.queueLean(batch, c, part)
	}
	for part := range chunks(c.ends, statementRows, statementBytes, (*edge).size, nil) {
		s.queueEnds(batch, c, part)
	}
}

func endOf(i int, change *store.Finish, eventsAll bool) edge {
	o := &change.Outcome
	e := edge{item: i, change: change}
	if o.Crash() {
		e.crash = 1
	}
	if eventsAll || o.Status != messages.Completed && o.Status != messages.Failed || change.By != "" {
		e.kind = change.Name()
	}
	return e
}

func reasonOf(e *messages.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}

// applied records that the change at place n of its statement took effect.
func (c *changes) applied(n int64, at time.Time, status messages.Status, attempt messages.Attempt) *item {
	it := c.items[n]
	it.done = true
	it.out = store.Result{Verdict: store.Applied, Status: status, Attempt: attempt, At: at}
	return it
}

var placeSet = store.Statement(`UPDATE execution e SET rank = NULL, turn = NULL, timer_at = NULL, worker_by = NULL, start_since = NULL, on_worker = 1,
 status = {scheduled}, attempt = e.attempt + 1, last_change = {place}, worker_inc = i.inc, worker_slot = i.slot, worker_id = i.worker, generation = 0,
 placed_by = i.placed_by, first_placed_at = coalesce(e.first_placed_at, now()), scheduled_at = now(), claim_by = now() + i.within, `)

var placeSQL = placeSet + store.Statement(`session_epoch = 0, session_lost = false, session_hit = false
 FROM unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::text[], $7::uuid[], $8::interval[], $9::text[])
 AS i (n, id, attempt, inc, slot, worker, placed_by, within, pool)
 WHERE e.id = i.id AND e.status IN ({requested}, {scheduling}) AND e.attempt = i.attempt AND e.pool = i.pool AND e.session IS NULL RETURNING i.n, e.attempt, now()`)

// placeArgs returns the parameters of placements.
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

func (s *statements) queuePlaces(batch *pgx.Batch, c *changes, part []int) {
	if c.bound {
		s.queueBound(batch, c, part)
	} else {
		batch.Queue(placeSQL, c.placeArgs(part)...).Query(c.placed)
	}
	s.queueStraight(batch, c, part, "place")
}

// queueStraight stores the events of placements or claims.
func (s *statements) queueStraight(batch *pgx.Batch, c *changes, part []int, kind string) {
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

// The events of placements and claims that this transaction made. A transaction may have several changes of one
// execution, for example when a message came twice: only one takes effect, and the statement of each finds the changed
// row. An attempt is placed and claimed once, so a second event of the same kind is not stored.
var (
	noEventYet     = ` AND NOT EXISTS (SELECT FROM execution_event v WHERE v.seq = e.seq AND v.attempt = e.attempt AND v.kind = `
	placedEventSQL = store.Statement(`INSERT INTO execution_event (seq, at, attempt, kind, before, after, worker)
 SELECT e.seq, now(), e.attempt, 'place', {requested}, {scheduled}, e.worker_id FROM execution e
 WHERE e.id = ANY($1) AND e.status = {scheduled} AND e.scheduled_at = now() AND e.xmin = pg_current_xact_id()::xid`) + noEventYet + `'place')`
	claimedEventSQL = store.Statement(`INSERT INTO execution_event (seq, at, attempt, kind, before, after, worker)
 SELECT e.seq, now(), e.attempt, 'claim', CASE WHEN e.scheduled_at IS NULL THEN {requested} ELSE {scheduled} END, {running}, e.worker_id FROM execution e
 WHERE e.id = ANY($1) AND e.status = {running} AND e.started_at = now() AND e.xmin = pg_current_xact_id()::xid`) + noEventYet + `'claim')`
)

// claimForm is one form of the claims' statements. All have the fence: the claimer's own lease must be live in the same
// statement. The live nodes are read once for all rows.
type claimForm struct {
	lean, joined, bound string
	leanAt              string // lean where the places of all rows are known
	handed              bool   // of executions that were handed over directly
}

// claimFrom makes the statements of a form. They set the given columns beside those of every claim, for the rows that match. The
// parameters with these types and names follow those of every claim.
func claimFrom(set, types, names, match string) claimForm {
	const typesOfAll, namesOfAll = `$1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::int[], $7::text[]`, `n, id, attempt, inc, slot, generation, pool`
	next := 8 + strings.Count(types, "$")
	own := func(more, name string) string {
		return fmt.Sprintf(", $%d::interval[], $%d::bigint[]%s) AS i (%s, timeout, seq%s)", next, next+1, more, namesOfAll+names, name)
	}
	update := `UPDATE execution e SET ` + set + `queue_by = NULL, status = {running}, last_change = {claim}, generation = i.generation, take_backs = 0,
 started_at = now(), run_deadline = CASE WHEN `
	from, where := ` END FROM unnest(`+typesOfAll+types, ` AND e.pool = i.pool AND i.inc = ANY (`+liveNodes+`) AND `+match
	joined := update + `r.timeout > '0' THEN now() + r.timeout` + from + `) AS i (` + namesOfAll + names + `), request r` + sameID + where + ` AND r.seq = e.seq`
	claimed := ` RETURNING i.n, now(), ` + recordColumns + `, r.parameters, e.ctid`
	lean := func(rows, find string) string {
		return store.Statement(update + `i.timeout > '0' THEN now() + i.timeout` + from + rows + find + where + ` AND e.seq = i.seq AND e.session IS NULL
 RETURNING i.n, now(), e.attempt, e.worker_id, e.placed_by, e.crash_count, e.run_at, e.first_placed_at, e.scheduled_at, e.claim_by, e.run_deadline, e.ctid`)
	}
	return claimForm{
		lean:   lean(own("", ""), sameID),
		leanAt: lean(own(fmt.Sprintf(", $%d::tid[]", next+2), ", at"), samePlace),
		joined: store.Statement(joined + ` AND e.session IS NULL` + claimed),
		bound:  store.Statement(joined + claimBound + claimed),
		handed: types != "",
	}
}

// claimPlaced claims what a Place has put on the worker's queue, claimHanded what was handed to the worker directly.
var (
	claimPlaced = claimFrom("", "", "", `e.status = {scheduled} AND e.attempt = i.attempt AND e.worker_inc = i.inc AND e.worker_slot = i.slot`)
	claimHanded = claimFrom(`rank = NULL, timer_at = NULL, worker_by = NULL, start_since = NULL, on_worker = 1, attempt = i.attempt,
 worker_inc = i.inc, worker_slot = i.slot, worker_id = i.worker, placed_by = i.placed_by, first_placed_at = coalesce(e.first_placed_at, now()), `,
		`, $8::text[], $9::uuid[]`, `, worker, placed_by`, `e.status IN ({requested}, {scheduling}) AND e.attempt = i.attempt - 1`)
)

// args returns the parameters of a form, before those that a lean statement has too.
func (form *claimForm) args(c *changes, part []int) []any {
	n, attempts, slots, generations := make([]int32, len(part)), make([]int32, len(part)), make([]int32, len(part)), make([]int32, len(part))
	ids, incs, pools := make(column[pgtype.UUID], len(part)), make(column[pgtype.UUID], len(part)), make(column[pgtype.Text], len(part))
	for k, i := range part {
		p := c.items[i].change.(*store.Claim)
		n[k], ids[k], attempts[k] = int32(i), uuidOf(p.ID), int32(p.Attempt)
		incs[k], slots[k], generations[k], pools[k] = uuidOf(p.Worker.Incarnation), int32(p.Worker.Slot), int32(p.Generation), textOf(p.Worker.Pool)
	}
	args := []any{n, ids, attempts, incs, slots, generations, pools}
	if !form.handed {
		return args
	}
	workers, by := make(column[pgtype.Text], len(part)), make(column[pgtype.UUID], len(part))
	for k, i := range part {
		p := c.items[i].change.(*store.Claim)
		workers[k], by[k] = textOf(p.WorkerID), uuidOf(p.PlacedBy)
	}
	return append(args, workers, by)
}

func (s *statements) queueClaims(batch *pgx.Batch, c *changes, part []int, form *claimForm) {
	if part = s.queueLeanClaims(batch, c, part, form); len(part) == 0 {
		return
	}
	sql, args := form.joined, form.args(c, part)
	if c.bound {
		sql = form.bound
	}
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			n, at := sc.integer(), sc.time()
			r := &record{}
			scanRecord(sc, r)
			r.Parameters = sc.bytes()
			it := c.applied(n, at, r.Status, r.Attempt)
			it.out.Execution = &r.Execution
			s.rememberClaimed(r.Execution, sc.tid())
			if r.Session != "" {
				s.known.add(r.ID, sessionKey{r.Pool, r.Session})
			}
		})
	})
	if c.bound {
		batch.Queue(startedSQL, args[1])
	}
	s.queueStraight(batch, c, part, "claim")
}
