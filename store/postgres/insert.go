package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// freshFrom makes the SQL for the parameters of freshRows.args. Constants are the columns that are equal in all rows of
// the kind alike. Rows is the source of the others.
func freshFrom(kind insertKind) (constants, rows string) {
	var common, types, names strings.Builder
	array := func(n int, kind, name string) {
		if types.Len() > 0 {
			types.WriteString(", ")
			names.WriteString(", ")
		}
		fmt.Fprintf(&types, "$%d::%s[]", n, kind)
		names.WriteString(name)
	}
	for i, f := range freshFields {
		if kind.alike && !f.own {
			fmt.Fprintf(&common, ", $%d::%s AS %s", i+1, f.kind, f.name)
		} else {
			array(i+1, f.kind, f.name)
		}
	}
	if kind.placed {
		for i, f := range placedFields {
			array(len(freshFields)+i+1, f[1], f[0])
		}
	}
	return common.String(), "unnest(" + types.String() + ") AS i (" + names.String() + ")"
}

// insertBoth inserts the rows of i into request and execution. Their seq follows the order of the input.
var insertBoth = store.Statement(insertRequest + `,
 e AS (INSERT INTO execution (id, seq, rank, turn, timer_at, queue_by, worker_by, status, attempt, last_change, priority, pool,
  session, run_at)
 SELECT id, seq, ` + firstRank + `, ` + firstTurn + `, ` + firstTimer + `, queue_deadline, worker_deadline, {requested}, 0, {submit}, priority, pool, session,
  coalesce(run_at, now()) FROM i)`)

// insertRetry does the same for retries, which continue the crash count of the previous execution and have its webhook.
var insertRetry = store.Statement(requestSQL(", key_owner") + `,
 e AS (INSERT INTO execution (id, seq, rank, turn, timer_at, queue_by, worker_by, status, attempt, last_change, priority, pool,
  session, run_at, crash_count, webhook)
 SELECT id, seq, ` + firstRank + `, ` + firstTurn + `, ` + firstTimer + `, queue_deadline, worker_deadline, {requested}, 0, {submit}, priority, pool, session,
  coalesce(run_at, now()), crash_count, webhook FROM i),
 h AS (INSERT INTO webhook (id, url, destination, secret, outcomes, state)
  SELECT i.id, w.url, w.destination, w.secret, w.outcomes, 1 FROM i JOIN webhook w ON w.id = i.parent WHERE i.webhook)`)

// insertInCallerTx does the same without any access to a session's rows. An execution with a session waits as if for its
// run_at. The first look after the commit moves it into its session's line.
var insertInCallerTx = store.Statement(insertRequest + `,
 e AS (INSERT INTO execution (id, seq, rank, timer_at, queue_by, worker_by, status, attempt, last_change, priority, pool, session, run_at)
 SELECT id, seq, CASE WHEN run_at > now() OR session IS NOT NULL THEN 32 ELSE 0 END + 9 - priority,
  CASE WHEN run_at > now() THEN run_at WHEN session IS NOT NULL THEN now() END, queue_deadline, worker_deadline, {requested}, 0, {submit}, priority, pool,
  session, coalesce(run_at, now()) FROM i)`)

// The waiting columns of a new execution.
const (
	firstRank  = `CASE WHEN run_at > now() THEN 32 WHEN session IS NOT NULL AND affinity LIKE 'strict%' THEN 16 ELSE 0 END + 9 - priority`
	firstTurn  = `CASE WHEN run_at > now() OR session IS NULL THEN NULL WHEN affinity = 'strict' THEN 1 WHEN affinity = 'strict_fail' THEN 2 END`
	firstTimer = `CASE WHEN run_at > now() THEN run_at END`
)

var insertRequest = requestSQL("")

// requestSQL is the insert of requests, with more columns of i.
func requestSQL(more string) string {
	return `r AS (INSERT INTO request (seq, id, action, version, affinity, labels, created_by, trace, idempotency_key, request_hash,
  timeout, stall_timeout, wait_for_worker, idempotent, notify, may_repeat, max_retries, retry_count, retry_reason, original, avoid,
  requested_at, queue_deadline, worker_deadline, parameters` + more + `)
 SELECT seq, id, action, version, affinity, labels, created_by, trace, idempotency_key, request_hash, timeout, stall_timeout,
  wait_for_worker, idempotent, notify, may_repeat, max_retries, retry_count, retry_reason, original, avoid, now(), queue_deadline,
  worker_deadline, parameters` + more + ` FROM i)`
}

// insertKind is a form of the insert. Alike: rows that differ only in their own columns, which is cheaper than an array
// for each column. Placed: some rows have a placement. InCallerTx: it runs in a caller's transaction.
type insertKind struct{ alike, placed, inCallerTx bool }

func (k insertKind) sql() string {
	constants, rows := freshFrom(k)
	both, more := insertBoth, ""
	switch {
	case k.placed:
		both, more = insertPlaced, ", stands"
		constants += standsAs
	case k.inCallerTx:
		both = insertInCallerTx
	}
	return "WITH i AS MATERIALIZED (SELECT nextval('execution_seq') AS seq, NULL::text AS avoid, i.*" + constants + " FROM " + rows + "), " + both +
		" SELECT seq, now()" + more + " FROM i ORDER BY seq"
}

var insertSQLs = func() map[insertKind]string {
	all := map[insertKind]string{}
	for _, k := range []insertKind{{}, {alike: true}, {placed: true}, {alike: true, placed: true}, {inCallerTx: true}, {alike: true, inCallerTx: true}} {
		all[k] = k.sql()
	}
	return all
}()

const labelSQL = `INSERT INTO execution_label (key, value, seq) SELECT l.key, l.value, e.seq
 FROM unnest($1::uuid[], $2::text[], $3::text[]) AS l (id, key, value) JOIN execution e ON e.id = l.id ON CONFLICT DO NOTHING`

// freshRow has the values of a new execution for its insert.
type freshRow struct {
	id           pgtype.UUID
	parameters   []byte
	labels, hash []byte
	freshRest
}

// freshRest are the comparable values of a row.
type freshRest struct {
	original                                                              pgtype.UUID
	action, version, affinity, creator, trace, key, reason, pool, session pgtype.Text
	timeout, stall                                                        pgtype.Interval
	waits, idempotent, notify, repeats                                    bool
	maxRetries, retries                                                   int32
	queueBy, workerBy, runAt                                              pgtype.Timestamptz
	priority                                                              int16
}

// alike reports whether two rows differ only in their own columns.
func (r *freshRow) alike(o *freshRow) bool {
	return r.freshRest == o.freshRest && bytes.Equal(r.labels, o.labels) && bytes.Equal(r.hash, o.hash)
}

// freshField is one column of fresh rows. For a struct it returns the pointer, which is encoded without an allocation.
type freshField struct {
	name, kind string
	own        bool // rows that are alike may differ in it
	of         func(*freshRow) any
}

var freshFields = []freshField{
	{"id", "uuid", true, func(r *freshRow) any { return &r.id }},
	{"action", "text", false, func(r *freshRow) any { return &r.action }},
	{"version", "text", false, func(r *freshRow) any { return &r.version }},
	{"affinity", "text", false, func(r *freshRow) any { return &r.affinity }},
	{"labels", "jsonb", false, func(r *freshRow) any { return r.labels }},
	{"created_by", "text", false, func(r *freshRow) any { return &r.creator }},
	{"trace", "text", false, func(r *freshRow) any { return &r.trace }},
	{"idempotency_key", "text", false, func(r *freshRow) any { return &r.key }},
	{"request_hash", "bytea", false, func(r *freshRow) any { return r.hash }},
	{"timeout", "interval", false, func(r *freshRow) any { return &r.timeout }},
	{"stall_timeout", "interval", false, func(r *freshRow) any { return &r.stall }},
	{"wait_for_worker", "boolean", false, func(r *freshRow) any { return r.waits }},
	{"idempotent", "boolean", false, func(r *freshRow) any { return r.idempotent }},
	{"notify", "boolean", false, func(r *freshRow) any { return r.notify }},
	{"may_repeat", "boolean", false, func(r *freshRow) any { return r.repeats }},
	{"max_retries", "int", false, func(r *freshRow) any { return r.maxRetries }},
	{"retry_count", "int", false, func(r *freshRow) any { return r.retries }},
	{"retry_reason", "text", false, func(r *freshRow) any { return &r.reason }},
	{"original", "uuid", false, func(r *freshRow) any { return &r.original }},
	{"queue_deadline", "timestamptz", false, func(r *freshRow) any { return &r.queueBy }},
	{"worker_deadline", "timestamptz", false, func(r *freshRow) any { return &r.workerBy }},
	{"parameters", "bytea", true, func(r *freshRow) any { return r.parameters }},
	{"priority", "smallint", false, func(r *freshRow) any { return r.priority }},
	{"pool", "text", false, func(r *freshRow) any { return &r.pool }},
	{"session", "text", false, func(r *freshRow) any { return &r.session }},
	{"run_at", "timestamptz", false, func(r *freshRow) any { return &r.runAt }},
}

// freshRows makes the parameters of freshFrom.
type freshRows []freshRow

func (f *freshRows) add(e *messages.Execution) error {
	labels, err := encodeLabels(e.Labels)
	if err != nil {
		return fmt.Errorf("labels of execution %s: %w", e.ID, err)
	}
	*f = append(*f, freshRow{
		id: uuidOf(e.ID), parameters: bytesOf(e.Parameters), labels: labels, hash: bytesOf(e.RequestHash), freshRest: freshRest{
			original: uuidOf(e.Original),
			action:   textOf(e.Action), version: textOf(e.Version), affinity: textOf(e.Affinity), creator: textOf(e.CreatedBy),
			trace: textOf(e.Trace), key: textOf(e.IdempotencyKey), reason: textOf(e.RetryReason), pool: textOf(e.Pool), session: textOf(e.Session),
			timeout: intervalOf(e.Timeout), stall: intervalOf(e.StallTimeout),
			waits: e.WaitForWorker, idempotent: e.Idempotent, notify: e.Notify, repeats: e.MayRepeat,
			maxRetries: int32(e.MaxRetries), retries: int32(e.RetryCount),
			queueBy: timeOf(e.QueueDeadline), workerBy: timeOf(e.WorkerDeadline), runAt: timeOf(e.RunAt),
			priority: int16(e.Priority),
		}})
	return nil
}

// alike reports whether the rows differ only in their own columns.
func (f freshRows) alike() bool {
	for i := 1; i < len(f); i++ {
		if !f[0].alike(&f[i]) {
			return false
		}
	}
	return true
}

// args makes the parameters: an array for each field. If the rows are alike, a common field is one value.
func (f freshRows) args(alike bool) []any {
	arrays, args := make([]fieldArray[freshRow], len(freshFields)), make([]any, len(freshFields), len(freshFields)+len(placedFields))
	for i, field := range freshFields {
		if alike && !field.own {
			args[i] = field.of(&f[0])
			continue
		}
		arrays[i] = fieldArray[freshRow]{f, field.of}
		args[i] = &arrays[i]
	}
	return args
}

// insertMax bounds the rows that one statement inserts.
const insertMax = 1000

func submittedSize(s *store.Submitted) int { return store.ExecutionSize(&s.Execution) }

// insertion says how new executions are stored.
type insertion struct {
	callerTx *callerTx // nil: in a transaction of the store
	places   placesByID
	events   bool // store the events of placements too
}

// callerTx describes an insert in a caller's transaction. Its connection does not know the schema. Nodes are notified on
// the channel. The transaction may last long, so it must lock no row that the nodes need.
type callerTx struct{ schema, channel string }

// sql puts the schema before the tables of a statement, for a caller's connection.
func (how *insertion) sql(text string) string {
	if how.callerTx == nil {
		return text
	}
	return qualify(text, how.callerTx.schema)
}

// insertAll stores new executions, in one implicit transaction on a connection, or as part of the caller's transaction.
func insertAll(ctx context.Context, db sender, how insertion, executions []messages.Execution) ([]store.Submitted, error) {
	out := make([]store.Submitted, len(executions))
	batch := &pgx.Batch{}
	var touched affected
	for i := range executions {
		e := &out[i].Execution
		*e = executions[i]
		fresh(e)
		if how.places[e.ID] == nil {
			touched.execution(e)
		}
	}
	if how.callerTx == nil {
		touched.lock(batch)
	}
	for part := range chunks(out, insertMax, statementBytes, submittedSize, nil) {
		if err := how.queue(batch, part); err != nil {
			return nil, err
		}
	}
	if how.callerTx == nil {
		touched.recount(batch)
	} else {
		touched.notify(batch, how.callerTx.channel)
	}
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	return out, nil
}

// queue adds one part of the rows to the batch. The answer fills in the values that the server decides.
func (how *insertion) queue(batch *pgx.Batch, part []store.Submitted) error {
	rows := make(freshRows, 0, len(part))
	var hooks hookRows
	var ids column[pgtype.UUID]
	var keys, values []string
	for i := range part {
		e := &part[i].Execution
		if err := rows.add(e); err != nil {
			return err
		}
		if err := hooks.add(e); err != nil {
			return err
		}
		for k, v := range e.Labels {
			ids, keys, values = append(ids, uuidOf(e.ID)), append(keys, encodeText(k)), append(values, encodeText(v))
		}
	}
	placed := how.placed(part)
	kind := insertKind{alike: rows.alike(), placed: placed != nil, inCallerTx: how.callerTx != nil}
	args := rows.args(kind.alike)
	if placed != nil {
		args = append(args, placed.args()...)
	}
	batch.Queue(how.sql(insertSQLs[kind]), args...).Query(func(r pgx.Rows) error {
		i := 0
		return each(r, func(s *scanner) {
			e := &part[i].Execution
			e.Seq, e.RequestedAt = s.integer(), s.time()
			if e.RunAt.IsZero() {
				e.RunAt = e.RequestedAt
			}
			if kind.placed {
				how.stand(e, messages.Status(s.integer()))
			}
			i++
		})
	})
	if placed != nil && how.events {
		batch.Queue(placedEventSQL, placed.ids)
		batch.Queue(claimedEventSQL, placed.ids)
	}
	if len(ids) > 0 {
		batch.Queue(how.sql(labelSQL), ids, keys, values)
	}
	hooks.queue(batch, how.sql)
	return nil
}

// fresh sets the values that the store decides of a new execution and knows before the insert.
func fresh(e *messages.Execution) {
	if e.ID.IsZero() {
		e.ID = messages.NewExecutionID()
	}
	for _, t := range []*time.Time{&e.RunAt, &e.QueueDeadline, &e.WorkerDeadline} {
		if !t.IsZero() {
			*t = t.UTC().Truncate(time.Microsecond)
		}
	}
	e.Status, e.Attempt = messages.Requested, 0
	e.Timeout, e.StallTimeout = e.Timeout.Truncate(time.Microsecond), e.StallTimeout.Truncate(time.Microsecond)
	e.Worker, e.WorkerID, e.Generation, e.PlacedBy = messages.WorkerKey{}, "", 0, messages.Incarnation{}
	e.FirstPlacedAt, e.ScheduledAt, e.ClaimBy, e.StartedAt, e.RunDeadline, e.FinishedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	e.SessionEpoch, e.SessionLost, e.SessionHit = 0, false, false
	e.TakeBacks, e.CrashCount, e.RetriedAs, e.Result, e.Error, e.Hooked = 0, 0, messages.ExecutionID{}, nil, nil, false
}
