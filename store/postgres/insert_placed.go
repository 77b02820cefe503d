package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// insertPlaced does the same if some rows have a placement. Those are scheduled at once, as by placeSet, or run at once, as by
// claimHanded: see standsAs.
var insertPlaced = store.Statement(insertRequest + `,
 e AS (INSERT INTO execution (id, seq, rank, turn, timer_at, queue_by, worker_by, on_worker, status, attempt, last_change, priority, pool,
  session, run_at, worker_inc, worker_slot, worker_id, placed_by, first_placed_at, scheduled_at, claim_by, generation, started_at, run_deadline)
 SELECT id, seq, CASE WHEN stands = {requested} THEN ` + firstRank + ` END, ` + firstTurn + `, ` + firstTimer + `,
  CASE WHEN stands <> {running} THEN queue_deadline END, CASE WHEN stands = {requested} THEN worker_deadline END,
  CASE WHEN stands <> {requested} THEN 1 END, stands, CASE WHEN stands = {requested} THEN 0 ELSE 1 END,
  CASE stands WHEN {requested} THEN {submit} WHEN {scheduled} THEN {place} ELSE {claim} END, priority, pool, session, coalesce(run_at, now()),
  CASE WHEN stands <> {requested} THEN inc END, CASE WHEN stands <> {requested} THEN slot ELSE 0 END, CASE WHEN stands <> {requested} THEN worker END,
  CASE WHEN stands <> {requested} THEN placed_by END, CASE WHEN stands <> {requested} THEN now() END,
  CASE WHEN stands = {scheduled} THEN now() END, CASE WHEN stands = {scheduled} THEN now() + within END,
  CASE WHEN stands = {running} THEN generation ELSE 0 END, CASE WHEN stands = {running} THEN now() END,
  CASE WHEN stands = {running} AND timeout > '0' THEN now() + timeout END FROM i)`)

// standsAs is the status of a new execution that may have a placement. A claim has its fence: see claimForm.
var standsAs = store.Statement(`, CASE WHEN i.inc IS NULL THEN {requested} WHEN i.generation = 0 THEN {scheduled} WHEN i.inc = ANY (` + liveNodes + `) THEN {running}
 ELSE {requested} END::smallint AS stands`)

// placedFields are the columns of a placement and their types.
var placedFields = [][2]string{{"inc", "uuid"}, {"slot", "int"}, {"worker", "text"}, {"placed_by", "uuid"}, {"within", "interval"}, {"generation", "int"}}

// stand applies its placement to an execution that was stored with this status.
func (how *insertion) stand(e *messages.Execution, stands messages.Status) {
	p := how.places[e.ID]
	if p == nil || stands == messages.Requested {
		return
	}
	e.Status, e.Attempt = stands, 1
	e.Worker, e.WorkerID, e.PlacedBy, e.FirstPlacedAt = p.Worker, p.WorkerID, p.PlacedBy, e.RequestedAt
	if stands == messages.Scheduled {
		e.ScheduledAt, e.ClaimBy = e.RequestedAt, e.RequestedAt.Add(p.ClaimWithin.Truncate(time.Microsecond))
		return
	}
	e.Generation, e.StartedAt = p.Generation, e.RequestedAt
	if e.Timeout > 0 {
		e.RunDeadline = e.StartedAt.Add(e.Timeout)
	}
}

// placedRows are the parameters after those of freshRows if some rows have a placement. The ids are of these rows.
type placedRows struct {
	ids, incs, by column[pgtype.UUID]
	slots, claims []int32 // claims: generations, or 0
	workers       column[pgtype.Text]
	within        column[pgtype.Interval]
}

// placed makes the parameters of a part; nil: no row of it has a placement.
func (how *insertion) placed(part []store.Submitted) *placedRows {
	rows := &placedRows{
		incs: make(column[pgtype.UUID], len(part)), by: make(column[pgtype.UUID], len(part)), slots: make([]int32, len(part)),
		claims: make([]int32, len(part)), workers: make(column[pgtype.Text], len(part)), within: make(column[pgtype.Interval], len(part)),
	}
	for i := range part {
		p := how.places[part[i].Execution.ID]
		if p == nil {
			continue
		}
		rows.ids = append(rows.ids, uuidOf(p.ID))
		rows.incs[i], rows.slots[i], rows.workers[i] = uuidOf(p.Worker.Incarnation), int32(p.Worker.Slot), textOf(p.WorkerID)
		rows.by[i], rows.within[i], rows.claims[i] = uuidOf(p.PlacedBy), intervalOf(p.ClaimWithin), int32(p.Generation)
	}
	if len(rows.ids) == 0 {
		return nil
	}
	return rows
}

func (r *placedRows) args() []any { return []any{r.incs, r.slots, r.workers, r.by, r.within, r.claims} }
