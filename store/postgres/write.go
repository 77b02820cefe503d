package postgres

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// write is one decided change.
type write struct {
	n               int32 // its place in the statement
	it              *item
	row             *foundRow // before the change
	d               store.Decision
	result, failure []byte // if they are in the execution's own row
}

// writeField is a parameter of the statement that writes rows: a column to set, or a value to compare.
type writeField struct {
	name, kind string
	of         func(*write) any
}

// written are the columns of an execution that changes set. The first ones, which are indexed, are derived from the
// others.
var written = []writeField{
	{"rank", "smallint", func(w *write) any { return small(waits(w), rankOf(w)) }},
	{"turn", "smallint", func(w *write) any { return small(waits(w) && w.d.Next.Strict(), turnOf(w)) }},
	{"timer_at", "timestamptz", func(w *write) any { return when(waits(w) && ahead(w), w.d.Next.RunAt) }},
	{"on_worker", "smallint", func(w *write) any { return small(onWorker(w), 1) }},
	{"unusual", "smallint", func(w *write) any {
		return small(w.d.Next.Status > messages.Completed, int(w.d.Next.Status))
	}},
	{"queue_by", "timestamptz", func(w *write) any { return when(w.d.Next.Status <= messages.Scheduled, w.d.Next.QueueDeadline) }},
	{"worker_by", "timestamptz", func(w *write) any { return when(waits(w), w.d.Next.WorkerDeadline) }},
	{"start_since", "timestamptz", func(w *write) any { return when(waits(w) && w.d.Next.StartedAt.IsZero(), w.d.Next.FirstPlacedAt) }},
	{"status", "smallint", func(w *write) any { return int16(w.d.Next.Status) }},
	{"attempt", "int", func(w *write) any { return int32(w.d.Next.Attempt) }},
	{"last_change", "smallint", func(w *write) any { return int16(w.d.Next.Last) }},
	{"worker_inc", "uuid", func(w *write) any { return uuidOf(w.d.Next.Worker.Incarnation) }},
	{"worker_slot", "int", func(w *write) any { return int32(w.d.Next.Worker.Slot) }},
	{"worker_id", "text", func(w *write) any { return textOf(w.d.Next.WorkerID) }},
	{"generation", "int", func(w *write) any { return int32(w.d.Next.Generation) }},
	{"placed_by", "uuid", func(w *write) any { return uuidOf(w.d.Next.PlacedBy) }},
	{"take_backs", "int", func(w *write) any { return int32(w.d.Next.TakeBacks) }},
	{"crash_count", "int", func(w *write) any { return int32(w.d.Next.CrashCount) }},
	{"run_at", "timestamptz", func(w *write) any { return timeOf(w.d.Next.RunAt) }},
	{"first_placed_at", "timestamptz", func(w *write) any { return timeOf(w.d.Next.FirstPlacedAt) }},
	{"scheduled_at", "timestamptz", func(w *write) any { return timeOf(w.d.Next.ScheduledAt) }},
	{"claim_by", "timestamptz", func(w *write) any { return timeOf(w.d.Next.ClaimBy) }},
	{"started_at", "timestamptz", func(w *write) any { return timeOf(w.d.Next.StartedAt) }},
	{"run_deadline", "timestamptz", func(w *write) any { return timeOf(w.d.Next.RunDeadline) }},
	{"finished_at", "timestamptz", func(w *write) any { return timeOf(w.d.Next.FinishedAt) }},
	{"session_epoch", "bigint", func(w *write) any { return w.d.Next.SessionEpoch }},
	{"session_lost", "boolean", func(w *write) any { return w.d.Next.SessionLost }},
	{"session_hit", "boolean", func(w *write) any { return w.d.Next.SessionHit }},
	{"retried_as", "uuid", func(w *write) any { return uuidOf(w.d.Next.RetriedAs) }},
	{"result", "bytea", func(w *write) any { return w.result }},
	{"error", "bytea", func(w *write) any { return w.failure }},
}

// compared are the values with which a row is compared when it is written: its values as read, and those of its session
// and the claimer's lease if the decision used them. A combination of status, attempt, last change and epoch occurs
// once for an execution.
var compared = []writeField{
	{"n", "int", func(w *write) any { return w.n }},
	{"id", "uuid", func(w *write) any { return uuidOf(w.it.id) }},
	{"was", "smallint", func(w *write) any { return int16(w.row.Status) }},
	{"was_attempt", "int", func(w *write) any { return int32(w.row.Attempt) }},
	{"was_last", "smallint", func(w *write) any { return int16(w.row.Last) }},
	{"was_epoch", "bigint", func(w *write) any { return w.row.SessionEpoch }},
	{"pool", "text", func(w *write) any { return textOf(w.row.Pool) }},
	{"session", "text", func(w *write) any { return textOf(w.row.Session) }},
	{"asks", "boolean", func(w *write) any { return store.NeedsSession(&w.row.Row, w.it.change) }},
	{"held_epoch", "bigint", func(w *write) any { return w.row.facts.Held.Epoch }},
	{"held_inc", "uuid", func(w *write) any { return uuidOf(w.row.facts.Held.Worker.Incarnation) }},
	{"held_slot", "int", func(w *write) any { return int32(w.row.facts.Held.Worker.Slot) }},
	{"alone", "boolean", func(w *write) any { return takesTurn(w) }},
	{"claimer", "uuid", func(w *write) any { return uuidOf(claimer(w)) }},
}

// writeSQL writes rows that have not changed since they were read.
var writeSQL = func() string {
	var set, kinds, names []string
	for i, f := range append(slices.Clone(written), compared...) {
		if i < len(written) {
			set = append(set, f.name+" = i."+f.name)
		}
		kinds, names = append(kinds, "$"+strconv.Itoa(i+1)+"::"+f.kind+"[]"), append(names, f.name)
	}
	return `WITH i AS MATERIALIZED (SELECT i.*, s.epoch, s.worker_inc AS bound_inc, s.worker_slot AS bound_slot, l.active
  FROM unnest(` + strings.Join(kinds, ", ") + `) AS i (` + strings.Join(names, ", ") + `)
  LEFT JOIN lane l ON l.pool = i.pool AND l.session = i.session LEFT JOIN session s ON s.pool = i.pool AND s.session = i.session)
 UPDATE execution e SET ` + strings.Join(set, ", ") + `
 FROM i WHERE e.id = i.id AND e.status = i.was AND e.attempt = i.was_attempt AND e.last_change = i.was_last AND e.session_epoch = i.was_epoch
  AND (NOT i.asks OR coalesce(i.epoch, 0) = i.held_epoch AND i.bound_inc IS NOT DISTINCT FROM i.held_inc AND (i.held_inc IS NULL OR i.bound_slot = i.held_slot))
  AND (NOT i.alone OR coalesce(i.active, 0) = 0) AND (i.claimer IS NULL OR i.claimer = ANY (` + liveNodes + `))
 RETURNING i.n`
}()

func small(valid bool, n int) pgtype.Int2 { return pgtype.Int2{Int16: int16(n), Valid: valid} }

func when(valid bool, t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: valid && !t.IsZero()}
}

func waits(w *write) bool { return w.d.Next.Status < messages.Scheduled }

func ahead(w *write) bool { return w.d.Next.RunAt.After(w.row.at) }

func onWorker(w *write) bool { return !waits(w) && !w.d.Next.Status.Terminal() }

// rankOf orders waiting executions by priority, highest first, in three groups: due, in a session's line, run_at ahead.
func rankOf(w *write) int {
	rank := int(messages.PriorityMax - w.d.Next.Priority)
	switch {
	case ahead(w):
		return rank + 32
	case w.d.Next.Strict():
		return rank + 16
	}
	return rank
}

// turnOf returns the kind of its turn: strict, strict_fail, or given back, which keeps its place during the back-off.
func turnOf(w *write) int {
	switch {
	case ahead(w):
		return 3
	case w.d.Next.Affinity == messages.AffinityStrictFail:
		return 2
	}
	return 1
}

// takesTurn reports whether no other execution of the session may be on a worker.
func takesTurn(w *write) bool {
	p, ok := w.it.change.(*store.Place)
	return ok && p.Session != nil && w.row.Strict()
}

// claimer returns the incarnation whose lease must be live; zero: none.
func claimer(w *write) messages.Incarnation {
	if c, ok := w.it.change.(*store.Claim); ok {
		return c.Worker.Incarnation
	}
	return messages.Incarnation{}
}

// writes are the changes of one transaction.
type writes struct {
	s   *statements
	all []write
}

func (w *writes) add(it *item, row *foundRow, d *store.Decision) {
	w.all = append(w.all, write{it: it, row: row, d: *d})
}

// size estimates the bytes of its parameters.
func (w *write) size() int { return store.Size(w.it.change) }

// queue adds the statements to the batch: the locks of sessions, the rows, and the rows of other tables. The latter are
// restricted to rows of this transaction.
func (w *writes) queue(batch *pgx.Batch) {
	if len(w.all) == 0 {
		return
	}
	slices.SortFunc(w.all, func(a, b write) int { return bytes.Compare(a.it.id[:], b.it.id[:]) })
	var touched affected
	var bound column[pgtype.UUID]
	for i := range w.all {
		d := &w.all[i].d
		touched.execution(&d.Next.Execution)
		if d.Retry != nil {
			touched.execution(d.Retry)
		}
		if d.Next.Session != "" {
			bound = append(bound, uuidOf(d.Next.ID))
		}
	}
	touched.lock(batch)
	if len(bound) > 0 {
		batch.Queue(lockSessions, bound)
	}
	for part := range chunks(w.all, statementRows, statementBytes, (*write).size, nil) {
		var with sideRows
		for i := range part {
			with.add(&part[i], w.s.cfg.EventsAll)
		}
		w.s.queueRows(batch, part)
		with.queue(batch, w.s.channel())
	}
	touched.recount(batch)
}

func (s *statements) queueRows(batch *pgx.Batch, part []write) {
	args := make([]any, 0, len(written)+len(compared))
	for i := range part {
		part[i].n = int32(i)
	}
	for _, fields := range [][]writeField{written, compared} {
		for _, f := range fields {
			args = append(args, &fieldArray[write]{part, f.of})
		}
	}
	batch.Queue(writeSQL, args...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) { s.recordWritten(&part[sc.integer()]) })
	})
}

// recordWritten answers a change that took effect, and updates the memory.
func (s *statements) recordWritten(w *write) {
	w.it.answer(&w.d, w.row.at)
	n := &w.d.Next
	switch {
	case waits(w):
		s.known.drop(n.ID)
		s.floors.clear(s.floors.now()) // it waits in its old place
	case n.Status.Terminal():
		s.known.drop(n.ID)
	case n.Session != "":
		s.known.add(n.ID, sessionKey{n.Pool, n.Session})
	case n.Status == messages.Running:
		s.rememberClaimed(n.Execution, pgtype.TID{})
	}
}
