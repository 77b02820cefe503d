package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// changedHere restricts a statement to executions that this transaction has changed.
const changedHere = " JOIN execution e ON e.id = i.id AND e.xmin = pg_current_xact_id()::xid"

// The statements for the other tables of a decided change, for the rows that were written.
const (
	outcomesSQL = `INSERT INTO outcome (seq, result, error) SELECT e.seq, i.result, i.error FROM unnest($1::uuid[], $2::bytea[], $3::bytea[])
 AS i (id, result, error)` + changedHere
	outputsSQL = `INSERT INTO output (seq, stdout, stderr, stdout_cut, stderr_cut, record) SELECT e.seq, i.stdout, i.stderr, i.stdout_cut, i.stderr_cut, i.record
 FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::boolean[], $5::boolean[], $6::bytea[]) AS i (id, stdout, stderr, stdout_cut, stderr_cut, record)` + changedHere + `
 ON CONFLICT (seq) DO UPDATE SET stdout = excluded.stdout, stderr = excluded.stderr, stdout_cut = excluded.stdout_cut, stderr_cut = excluded.stderr_cut,
  record = excluded.record`
	endedSQL  = `INSERT INTO outbox (ids) SELECT array_agg(e.id) FROM unnest($1::uuid[]) AS i (id)` + changedHere + ` HAVING count(*) > 0`
	eventsSQL = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker, by, incarnation, generation, run_at, scheduled_at, started_at)
 SELECT e.seq, i.at, i.attempt, i.kind, i.before, i.after, i.reason, i.worker, i.by, i.inc, nullif(i.generation, 0), i.due, i.scheduled, i.started
 FROM unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::text[], $5::smallint[], $6::smallint[], $7::text[], $8::text[], $9::text[], $10::uuid[],
  $11::int[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[])
 WITH ORDINALITY AS i (id, at, attempt, kind, before, after, reason, worker, by, inc, generation, due, scheduled, started, n)` + changedHere + ` ORDER BY i.n`
	payloadsSQL = `SELECT pg_notify($1, i.payload) FROM unnest($2::uuid[], $3::text[]) AS i (id, payload)` + changedHere
	bindSQL     = `INSERT INTO session (pool, session, epoch, worker_inc, worker_pool, worker_slot, bound_at, touched_at)
 SELECT e.pool, e.session, e.session_epoch, e.worker_inc, e.pool, e.worker_slot, e.scheduled_at, e.scheduled_at FROM unnest($1::uuid[]) AS i (id)` + changedHere + `
 ON CONFLICT (pool, session) DO UPDATE SET epoch = excluded.epoch, worker_inc = excluded.worker_inc, worker_pool = excluded.worker_pool,
  worker_slot = excluded.worker_slot, bound_at = excluded.bound_at, touched_at = excluded.touched_at, bound_runs = session.runs`
	// beginSQL records that a run with the session's state may begin. It has an effect once for a session.
	beginSQL = `UPDATE session s SET started_epoch = e.session_epoch FROM unnest($1::uuid[]) AS i (id)` + changedHere + `
 WHERE s.pool = e.pool AND s.session = e.session AND s.started_epoch = 0`
	runsSQL = `UPDATE session s SET finished_epoch = greatest(s.finished_epoch, d.epoch), runs = s.runs + d.runs, touched_at = d.at
 FROM (SELECT e.pool, e.session, max(e.session_epoch) AS epoch, count(*) FILTER (WHERE i.leaves) AS runs, max(e.finished_at) AS at
  FROM unnest($1::uuid[], $2::boolean[], $3::boolean[]) AS i (id, leaves, hint)` + changedHere + ` LEFT JOIN session h ON h.pool = e.pool AND h.session = e.session
  WHERE NOT i.hint OR h.worker_inc = e.worker_inc AND h.worker_pool = e.pool AND h.worker_slot = e.worker_slot GROUP BY 1, 2) d
 WHERE s.pool = d.pool AND s.session = d.session`
)

// sideRows collects the rows that the changes of one transaction write to other tables.
type sideRows struct {
	outcomes struct {
		ids             column[pgtype.UUID]
		results, errors blobs
	}
	outputs struct {
		ids                     column[pgtype.UUID]
		stdout, stderr, records blobs
		stdoutCut, stderrCut    []bool
	}
	events struct {
		ids                          column[pgtype.UUID]
		at                           column[pgtype.Timestamptz]
		attempts                     []int32
		before, after                []int16
		kinds, reasons, workers, who column[pgtype.Text]
		incs                         column[pgtype.UUID]
		generations                  []int32
		due, scheduled, started      column[pgtype.Timestamptz]
	}
	runs struct {
		ids          column[pgtype.UUID]
		leaves, hint []bool
	}
	payloads struct {
		ids      column[pgtype.UUID]
		payloads []string
	}
	told, bound, begun column[pgtype.UUID]
	retries            []retryOf
}

func (b *sideRows) add(w *write, eventsAll bool) {
	d, id := &w.d, uuidOf(w.it.id)
	n := &d.Next
	if n.Status.Terminal() {
		b.addOutcome(w)
		if n.Notify {
			b.told = append(b.told, id)
		}
	}
	if o := &d.Output; !o.Empty() {
		b.outputs.ids = append(b.outputs.ids, id)
		b.outputs.stdout, b.outputs.stderr = append(b.outputs.stdout, bytesOf(o.Stdout)), append(b.outputs.stderr, bytesOf(o.Stderr))
		b.outputs.records = append(b.outputs.records, bytesOf(o.Record))
		b.outputs.stdoutCut, b.outputs.stderrCut = append(b.outputs.stdoutCut, o.StdoutCut), append(b.outputs.stderrCut, o.ErrCut)
	}
	if d.Retry != nil {
		b.retries = append(b.retries, retryOf{w.it.id, d.Retry})
		v := d.RetryEvent()
		b.addEvent(id, &v)
	}
	if !d.Straight || eventsAll {
		b.addEvent(id, &d.Event)
	}
	switch d.Session {
	case store.SessionBound:
		b.bound = append(b.bound, id)
	case store.SessionStarted:
		b.begun = append(b.begun, id)
	case store.SessionFinished:
		b.runs.ids, b.runs.leaves = append(b.runs.ids, id), append(b.runs.leaves, store.LeavesState(n.Status))
		b.runs.hint = append(b.runs.hint, n.Affinity == messages.AffinityHint)
	}
	switch n.Status {
	case messages.Requested:
		b.payloads.ids, b.payloads.payloads = append(b.payloads.ids, id), append(b.payloads.payloads, payloadRequested+encodeText(n.Pool))
	case messages.Cancelling:
		b.payloads.ids, b.payloads.payloads = append(b.payloads.ids, id), append(b.payloads.payloads, payloadCancel+n.ID.String())
	}
}

// addOutcome puts a short outcome into the execution's own row, and a long one into the table of outcomes.
func (b *sideRows) addOutcome(w *write) {
	w.result, w.failure = bytesOf(w.d.Next.Result), store.EncodeError(w.d.Next.Error)
	if len(w.result)+len(w.failure) <= shortOutcome {
		return
	}
	b.outcomes.ids = append(b.outcomes.ids, uuidOf(w.it.id))
	b.outcomes.results, b.outcomes.errors = append(b.outcomes.results, w.result), append(b.outcomes.errors, w.failure)
	w.result, w.failure = nil, nil
}

func (b *sideRows) addEvent(id pgtype.UUID, v *store.Event) {
	e := &b.events
	e.ids, e.at, e.attempts = append(e.ids, id), append(e.at, timeOf(v.At)), append(e.attempts, int32(v.Attempt))
	e.before, e.after = append(e.before, int16(v.From)), append(e.after, int16(v.To))
	e.kinds, e.reasons = append(e.kinds, textOf(v.Kind)), append(e.reasons, textOf(v.Reason))
	e.workers, e.who = append(e.workers, textOf(v.Worker)), append(e.who, textOf(v.By))
	e.incs, e.generations = append(e.incs, uuidOf(v.Incarnation)), append(e.generations, int32(v.Generation))
	e.due, e.scheduled, e.started = append(e.due, timeOf(v.RunAt)), append(e.scheduled, timeOf(v.ScheduledAt)), append(e.started, timeOf(v.StartedAt))
}

// queue adds the statements that have rows.
func (b *sideRows) queue(batch *pgx.Batch, channel string) {
	add := func(n int, sql string, args ...any) {
		if n > 0 {
			batch.Queue(sql, args...)
		}
	}
	add(len(b.outcomes.ids), outcomesSQL, b.outcomes.ids, b.outcomes.results, b.outcomes.errors)
	add(len(b.outputs.ids), outputsSQL, b.outputs.ids, b.outputs.stdout, b.outputs.stderr, b.outputs.stdoutCut, b.outputs.stderrCut, b.outputs.records)
	add(len(b.told), endedSQL, b.told)
	e := &b.events
	add(len(e.ids), eventsSQL, e.ids, e.at, e.attempts, e.kinds, e.before, e.after, e.reasons, e.workers, e.who,
		e.incs, e.generations, e.due, e.scheduled, e.started)
	add(len(b.bound), bindSQL, b.bound)
	add(len(b.begun), beginSQL, b.begun)
	add(len(b.runs.ids), runsSQL, b.runs.ids, b.runs.leaves, b.runs.hint)
	add(len(b.payloads.ids), payloadsSQL, channel, b.payloads.ids, b.payloads.payloads)
	queueRetries(batch, channel, b.retries)
}
