package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// record is an execution with the store's own data about it.
type record struct {
	store.Row
	avoid messages.WorkerID
}

// The columns of a record, of request r and execution e.
const recordColumns = `e.seq, e.id, r.action, r.version, r.affinity, r.labels, r.created_by, r.trace, r.idempotency_key,
 r.request_hash, r.timeout, r.stall_timeout, r.wait_for_worker, r.idempotent, r.notify, r.may_repeat, r.max_retries, r.retry_count,
 r.retry_reason, r.original, r.avoid, r.requested_at, r.queue_deadline, r.worker_deadline,
 e.status, e.attempt, e.last_change, e.priority, e.pool, e.session, e.worker_inc, e.worker_slot, e.worker_id, e.generation,
 e.placed_by, e.take_backs, e.crash_count, e.run_at, e.first_placed_at, e.scheduled_at, e.claim_by, e.started_at, e.run_deadline,
 e.finished_at, e.session_epoch, e.session_lost, e.session_hit, e.retried_as, e.webhook`

// The ways to read an execution: whole has all, listed has neither parameters nor result, and the beginning of a long error.
const (
	recordFrom = " FROM execution e JOIN request r ON r.seq = e.seq LEFT JOIN outcome o ON o.seq = e.seq"
	// keyOwner is store.KeyOwner of a request r, as in the index of keys.
	keyOwner = "coalesce(r.key_owner, split_part(r.created_by, ':', 1), '')"
	whole    = "SELECT " + recordColumns + ", r.parameters, coalesce(e.result, o.result), coalesce(e.error, o.error)" + recordFrom
)

// sizeSQL is the bytes of what an execution may hold that is long. It reads none of them.
const sizeSQL = "coalesce(octet_length(r.parameters), 0) + coalesce(octet_length(coalesce(e.result, o.result)), 0) + coalesce(octet_length(coalesce(e.error, o.error)), 0)"

var (
	// weighed is whole where that is short, and else listed, with the size.
	weighed = fmt.Sprintf("SELECT "+recordColumns+", CASE WHEN z.n <= %[1]d THEN r.parameters END, CASE WHEN z.n <= %[1]d THEN coalesce(e.result, o.result) END, "+
		"CASE WHEN z.n <= %[1]d THEN coalesce(e.error, o.error) ELSE substr(coalesce(e.error, o.error), 1, %[2]d) END, z.n"+recordFrom+
		" CROSS JOIN LATERAL (SELECT "+sizeSQL+" AS n) z", store.AdmitFrom, store.ErrorListed)
	listedAll = fmt.Sprintf(recordColumns+", NULL::bytea, NULL::bytea, substr(coalesce(e.error, o.error), 1, %d)", store.ErrorListed)
	listed    = "SELECT " + listedAll + recordFrom
)

// scanRecord reads recordColumns.
func scanRecord(s *scanner, r *record) {
	r.Seq = s.integer()
	s.id((*[16]byte)(&r.ID))
	r.Action, r.Version, r.Affinity = s.text(), s.text(), messages.Affinity(s.text())
	r.Labels, r.CreatedBy, r.Trace, r.IdempotencyKey, r.RequestHash = s.labels(), s.text(), s.text(), s.text(), s.bytes()
	r.Timeout, r.StallTimeout = s.duration(), s.duration()
	r.WaitForWorker, r.Idempotent, r.Notify, r.MayRepeat = s.boolean(), s.boolean(), s.boolean(), s.boolean()
	r.MaxRetries, r.RetryCount, r.RetryReason = int(s.integer()), int(s.integer()), s.text()
	s.id((*[16]byte)(&r.Original))
	r.avoid, r.RequestedAt, r.QueueDeadline, r.WorkerDeadline = messages.WorkerID(s.text()), s.time(), s.time(), s.time()
	r.Status, r.Attempt, r.Last = messages.Status(s.integer()), messages.Attempt(s.integer()), store.Last(s.integer())
	r.Priority, r.Pool, r.Session = messages.Priority(s.integer()), s.text(), s.text()
	s.id((*[16]byte)(&r.Worker.Incarnation))
	r.Worker.Slot, r.WorkerID, r.Generation = messages.Slot(s.integer()), messages.WorkerID(s.text()), messages.Generation(s.integer())
	if !r.Worker.Incarnation.IsZero() {
		r.Worker.Pool = r.Pool
	}
	s.id((*[16]byte)(&r.PlacedBy))
	r.TakeBacks, r.CrashCount = int(s.integer()), int(s.integer())
	r.RunAt, r.FirstPlacedAt, r.ScheduledAt, r.ClaimBy = s.time(), s.time(), s.time(), s.time()
	r.StartedAt, r.RunDeadline, r.FinishedAt = s.time(), s.time(), s.time()
	r.SessionEpoch, r.SessionLost, r.SessionHit = s.integer(), s.boolean(), s.boolean()
	s.id((*[16]byte)(&r.RetriedAs))
	r.Hooked = s.boolean()
}

// scanWhole reads a row of whole or listed.
func scanWhole(s *scanner, r *record) {
	scanRecord(s, r)
	r.Parameters, r.Result, r.Error = s.bytes(), s.bytes(), store.DecodeError(s.bytes())
}

// each calls scan for every row and closes the rows.
func each(rows pgx.Rows, scan func(s *scanner)) error {
	defer rows.Close()
	for rows.Next() {
		s := scanner{row: rows.RawValues()}
		scan(&s)
		if s.err != nil {
			return s.err
		}
	}
	return rows.Err()
}

// encodeLabels makes the jsonb of labels, or nil.
func encodeLabels(labels map[string]string) ([]byte, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	kept := make(map[string]string, len(labels))
	for k, v := range labels {
		kept[encodeText(k)] = encodeText(v)
	}
	return json.Marshal(kept)
}
