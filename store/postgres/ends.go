package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// shortOutcome bounds the bytes of a result and error together that are stored in the execution's own row.
const shortOutcome = 512

// extras say which other tables the outcomes of one statement write. Nearly all statements write none, and have none of
// those parts.
type extras struct{ long, output, retry, events, sessions bool }

// endsSQL makes the statement that writes outcomes. The parameters of the extras follow the first nine.
func endsSQL(x extras) string {
	var b strings.Builder
	b.WriteString(`WITH i AS MATERIALIZED (SELECT * FROM unnest($1::int[], $2::int[], $3::uuid[], $4::int[], $5::smallint[], $6::smallint[], $7::bytea[], $8::bytea[], $9::uuid[]`)
	for _, arg := range extraArrays {
		b.WriteString(arg)
	}
	b.WriteString(`) AS i (n, edge, id, attempt, after, crash, result, error, retried_as, long_result, long_error, stdout, stderr, stdout_cut, stderr_cut, record, kind, reason, by, restored, never_ran)),
 e AS (UPDATE execution e SET rank = NULL, turn = NULL, timer_at = NULL, on_worker = NULL, queue_by = NULL, worker_by = NULL, start_since = NULL,
  unusual = nullif(i.after, {completed}), status = i.after, last_change = {finish}, crash_count = e.crash_count + i.crash, finished_at = now(),
  retried_as = i.retried_as, result = i.result, error = i.error`)
	if x.sessions {
		b.WriteString(", session_lost = e.session_lost AND NOT (i.restored OR i.never_ran)")
	}
	b.WriteString(`
  FROM i, request r WHERE e.id = i.id AND e.status = {running} AND e.attempt = i.attempt AND r.seq = e.seq`)
	if !x.sessions {
		b.WriteString(" AND e.session IS NULL")
	}
	b.WriteString(` RETURNING i.n, i.edge, now() AS at, ` + recordColumns + `),
 o AS (INSERT INTO outbox (ids, status, action) SELECT array_agg(id), k.status, k.action FROM e
  LEFT JOIN LATERAL (SELECT e.status, e.action WHERE e.trace IS NULL AND e.original IS NULL) k ON true WHERE notify GROUP BY k.status, k.action)`)
	if x.long {
		b.WriteString(`, l AS (INSERT INTO outcome (seq, result, error) SELECT e.seq, i.long_result, i.long_error FROM e JOIN i USING (edge)
  WHERE i.long_result IS NOT NULL OR i.long_error IS NOT NULL)`)
	}
	if x.output {
		b.WriteString(`, w AS (INSERT INTO output (seq, stdout, stderr, stdout_cut, stderr_cut, record) SELECT e.seq, i.stdout, i.stderr, i.stdout_cut, i.stderr_cut, i.record
  FROM e JOIN i USING (edge) WHERE i.stdout_cut IS NOT NULL ON CONFLICT (seq) DO UPDATE SET stdout = excluded.stdout, stderr = excluded.stderr,
  stdout_cut = excluded.stdout_cut, stderr_cut = excluded.stderr_cut, record = excluded.record)`)
	}
	if x.events {
		b.WriteString(`, v AS (INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker, by)
  SELECT e.seq, now(), e.attempt, f.kind, {running}, i.after, f.reason, e.worker_id, f.by FROM e JOIN i USING (edge)
  CROSS JOIN LATERAL (SELECT 1, 'retry', i.retried_as::text, NULL WHERE i.retried_as IS NOT NULL UNION ALL SELECT 2, i.kind, i.reason, i.by WHERE i.kind IS NOT NULL
   ORDER BY 1) AS f (n, kind, reason, by))`)
	}
	if x.sessions {
		b.WriteString(`, s AS (UPDATE session s SET finished_epoch = greatest(s.finished_epoch, d.epoch), runs = s.runs + d.runs, touched_at = now()
  FROM (SELECT f.pool, f.session, max(f.session_epoch) AS epoch, count(*) FILTER (WHERE f.status = ANY($22)) AS runs FROM e f JOIN i USING (edge) LEFT JOIN session h ON h.pool = f.pool AND h.session = f.session
   WHERE f.session IS NOT NULL AND f.session_epoch > 0 AND f.last_change = {finish} AND NOT i.never_ran
    AND (f.affinity IS DISTINCT FROM 'hint' OR h.worker_inc = f.worker_inc AND h.worker_pool = f.pool AND h.worker_slot = f.worker_slot)
   GROUP BY 1, 2) d
  WHERE s.pool = d.pool AND s.session = d.session)`)
	}
	b.WriteString(" SELECT * FROM e")
	return store.Statement(b.String())
}

// extraArrays are the parameters of the extras. They are empty if no row has any.
var extraArrays = []string{", $10::bytea[]", ", $11::bytea[]", ", $12::bytea[]", ", $13::bytea[]", ", $14::boolean[]", ", $15::boolean[]", ", $16::bytea[]", ", $17::text[]", ", $18::text[]", ", $19::text[]", ", $20::boolean[]", ", $21::boolean[]"}

// endSQLs are the statements by their extras.
var endSQLs = func() map[extras]string {
	all := map[extras]string{}
	flags := []bool{false, true}
	for _, long := range flags {
		for _, output := range flags {
			for _, retry := range flags {
				for _, events := range flags {
					for _, sessions := range flags {
						x := extras{long, output, retry, events, sessions}
						all[x] = endsSQL(x)
					}
				}
			}
		}
	}
	return all
}()

// endArgs are the columns of a statement that writes outcomes.
type endArgs struct {
	n, edges                []int32
	ids, retried            column[pgtype.UUID]
	attempts                []int32
	after, crash            []int16
	results, errors         blobs
	longResults, longErrors blobs
	stdout, stderr, records blobs
	stdoutCut, stderrCut    column[pgtype.Bool]
	kinds, reasons, by      column[pgtype.Text]
	restored, neverRan      []bool
	x                       extras
}

func (a *endArgs) add(c *changes, k int, e *edge) {
	a.n, a.edges = append(a.n, int32(e.item)), append(a.edges, int32(k))
	o := &e.change.Outcome
	a.ids, a.attempts = append(a.ids, uuidOf(c.items[e.item].id)), append(a.attempts, int32(e.change.Attempt))
	a.after, a.crash = append(a.after, int16(o.Status)), append(a.crash, e.crash)
	var retried pgtype.UUID
	if e.change.Retry != nil {
		retried, a.x.retry, a.x.events = uuidOf(e.change.Retry.ID), true, true
	}
	a.retried = append(a.retried, retried)
	result, failure := bytesOf(o.Result), store.EncodeError(o.Error)
	var longResult, longError []byte
	if len(result)+len(failure) > shortOutcome {
		result, failure, longResult, longError, a.x.long = nil, nil, result, failure, true
	}
	a.results, a.errors = append(a.results, result), append(a.errors, failure)
	a.longResults, a.longErrors = append(a.longResults, longResult), append(a.longErrors, longError)
	a.addOutput(&e.change.Output)
	a.kinds, a.reasons, a.by = append(a.kinds, textOf(e.kind)), append(a.reasons, textOf(reasonOf(o.Error))), append(a.by, textOf(e.change.By))
	a.restored, a.neverRan = append(a.restored, e.change.Restored), append(a.neverRan, e.change.NeverRan)
	a.x.events = a.x.events || e.kind != ""
}

func (a *endArgs) addOutput(o *messages.Output) {
	var stdout, stderr, record []byte
	var stdoutCut, stderrCut pgtype.Bool
	if !o.Empty() {
		a.x.output = true
		stdout, stderr, record = bytesOf(o.Stdout), bytesOf(o.Stderr), bytesOf(o.Record)
		stdoutCut, stderrCut = pgtype.Bool{Bool: o.StdoutCut, Valid: true}, pgtype.Bool{Bool: o.ErrCut, Valid: true}
	}
	a.stdout, a.stderr, a.records = append(a.stdout, stdout), append(a.stderr, stderr), append(a.records, record)
	a.stdoutCut, a.stderrCut = append(a.stdoutCut, stdoutCut), append(a.stderrCut, stderrCut)
}

// args omits the columns of extras that no row has: unnest makes them NULL.
func (a *endArgs) args() []any {
	if !a.x.long {
		a.longResults, a.longErrors = nil, nil
	}
	if !a.x.output {
		a.stdout, a.stderr, a.stdoutCut, a.stderrCut, a.records = nil, nil, nil, nil, nil
	}
	if !a.x.events {
		a.kinds, a.reasons, a.by = nil, nil, nil
	}
	if !a.x.sessions {
		a.restored, a.neverRan = nil, nil
	}
	return []any{a.n, a.edges, a.ids, a.attempts, a.after, a.crash, a.results, a.errors, a.retried,
		a.longResults, a.longErrors, a.stdout, a.stderr, a.stdoutCut, a.stderrCut, a.records, a.kinds, a.reasons, a.by, a.restored, a.neverRan}
}

func (s *statements) queueEnds(batch *pgx.Batch, c *changes, part []edge) {
	var a endArgs
	for k := range part {
		a.add(c, k, &part[k])
	}
	a.x.sessions = c.bound
	args := a.args()
	if a.x.sessions {
		args = append(args, leaving)
	}
	batch.Queue(endSQLs[a.x], args...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			n, e, at := sc.integer(), &part[sc.integer()], sc.time()
			r := &record{}
			scanRecord(sc, r)
			r.Result, r.Error = bytesOf(e.change.Outcome.Result), store.DecodeError(store.EncodeError(e.change.Outcome.Error))
			it := c.applied(n, at, r.Status, r.Attempt)
			it.out.Execution = &r.Execution
			s.known.drop(r.ID)
		})
	})
	var retries []retryOf
	for k := range part {
		if c := part[k].change; c.Retry != nil {
			retries = append(retries, retryOf{c.ID, c.Retry})
		}
	}
	queueRetries(batch, s.channel(), retries)
}

// retriesSQL stores the retries of executions that this transaction has ended. A retry takes its predecessor's
// parameters unless it has its own, and the crash count of the chain. It never takes the idempotency key, which stays
// with the first execution. Its times count from this statement, and not from when its retry was judged: the clock may have been set since then.
var retriesSQL = func() string {
	_, rows := freshFrom(insertKind{})
	return `WITH i AS MATERIALIZED (SELECT nextval('execution_seq') AS seq, f.id, f.action, f.version, f.affinity, f.labels, f.created_by, f.trace,
  f.idempotency_key, f.request_hash, f.timeout, f.stall_timeout, f.wait_for_worker, f.idempotent, f.notify, f.may_repeat, f.max_retries,
  f.retry_count, f.retry_reason, f.original, p.worker_id AS avoid, p.crash_count, f.queue_deadline + k.moved AS queue_deadline, f.worker_deadline,
  coalesce(f.parameters, q.parameters) AS parameters, $29::text AS key_owner, f.priority, f.pool, f.session, f.run_at + k.moved AS run_at,
  k.parent, p.webhook
 FROM (SELECT * FROM ` + rows + `) f JOIN (SELECT parent, child, coalesce(now() - judged, '0') AS moved FROM unnest($27::uuid[], $1::uuid[], $30::timestamptz[]) AS u (parent, child, judged)) k ON k.child = f.id
 JOIN execution p ON p.id = k.parent AND p.retried_as = f.id AND p.xmin = pg_current_xact_id()::xid
 JOIN request q ON q.seq = p.seq), ` + insertRetry + ` SELECT pg_notify($28, '` + payloadRequested + `' || pool) FROM i`
}()

// retryOf is a retry with its predecessor.
type retryOf struct {
	parent messages.ExecutionID
	next   *messages.Execution
}

func queueRetries(batch *pgx.Batch, channel string, retries []retryOf) {
	var rows freshRows
	var parents, labelled column[pgtype.UUID]
	var judged column[pgtype.Timestamptz]
	var keys, values []string
	for _, r := range retries {
		n := *r.next
		fresh(&n)
		n.IdempotencyKey = ""
		if err := rows.add(&n); err != nil {
			continue // labels are texts, which always encode
		}
		parents, judged = append(parents, uuidOf(r.parent)), append(judged, timeOf(n.RequestedAt))
		for k, v := range n.Labels {
			labelled, keys, values = append(labelled, uuidOf(n.ID)), append(keys, encodeText(k)), append(values, encodeText(v))
		}
	}
	if len(parents) == 0 {
		return
	}
	batch.Queue(retriesSQL, append(rows.args(false), parents, channel, nil, judged)...)
	if len(labelled) > 0 {
		batch.Queue(labelSQL, labelled, keys, values)
	}
}
