package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The columns of a record without its body, and the part of the body that is read. Nodes of older versions stored whole
// bodies.
const (
	deadLetterColumns = `SELECT id, at, execution, attempt, action, worker, queue, reason, died_at, headers, resolution,
 coalesce(body_size, octet_length(body), 0), coalesce(body_sha256, ''), `
	bodilessLetters = deadLetterColumns + "NULL::bytea FROM dead_letter"
	wholeLetters    = deadLetterColumns + "substr(body, 1, 65536) FROM dead_letter"
)

// SaveDeadLetter stores the record, with an event of the execution if that is known, and returns its id. If the key
// exists, the stored record does not change.
func (s *deadLetterRows) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	d = store.CutBody(d)
	var id int64
	err := s.query(ctx, "save dead letter", func(v *scanner) { id = v.integer() }, `WITH d AS (
 INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, died_at, headers, body, resolution, key, body_size, body_sha256)
 VALUES (coalesce($1, now()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING RETURNING *),
 v AS (INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker)
  SELECT e.seq, now(), d.attempt, 'dead_letter', e.status, e.status, nullif(d.reason, ''), nullif(d.worker, '') FROM d JOIN execution e ON e.id = d.execution)
 SELECT id FROM d UNION ALL SELECT id FROM dead_letter WHERE key = $12`, timeOf(d.At), uuidOf(d.Execution), int32(d.Attempt), encodeText(d.Action), encodeText(string(d.Worker)), encodeText(d.Queue),
		encodeText(d.Reason), timeOf(d.DiedAt), bytesOf(d.Headers), bytesOf(d.Body), encodeText(d.Resolution), textOf(d.Key), d.BodySize, textOf(d.BodySHA256))
	if err == nil && id == 0 { // another caller's record of the same death was committed after the statement began
		err = s.query(ctx, "save dead letter", func(v *scanner) { id = v.integer() }, "SELECT id FROM dead_letter WHERE key = $1", textOf(d.Key))
	}
	return id, err
}

// SaveLateFailure implements store.Executions.
func (s *deadLetterRows) SaveLateFailure(ctx context.Context, f store.LateFailure) error {
	_, err := s.exec(ctx, "save late failure", `INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker)
 SELECT e.seq, now(), $2, $3, e.status, e.status, $4, $5 FROM execution e
 WHERE e.id = $1 AND (SELECT count(*) FROM (SELECT 1 FROM execution_event v WHERE v.seq = e.seq AND v.kind = $3 LIMIT $6) f) < $6`,
		uuidOf(f.Execution), int32(f.Attempt), store.LateFailureKind, textOf(f.Reason), textOf(string(f.Worker)), int64(store.LateFailuresMax))
	return err
}

func (s *deadLetterRows) deadLetters(ctx context.Context, what, sql string, args ...any) ([]store.DeadLetter, error) {
	var out []store.DeadLetter
	err := s.query(ctx, what, func(v *scanner) {
		var d store.DeadLetter
		d.ID, d.At = v.integer(), v.time()
		v.id((*[16]byte)(&d.Execution))
		d.Attempt, d.Action, d.Worker = messages.Attempt(v.integer()), v.text(), messages.WorkerID(v.text())
		d.Queue, d.Reason, d.DiedAt, d.Headers, d.Resolution = v.text(), v.text(), v.time(), v.bytes(), v.text()
		d.BodySize, d.BodySHA256, d.Body = v.integer(), v.text(), v.bytes()
		d.BodyCut = d.BodySize > store.DeadLetterBodyMax
		out = append(out, d)
	}, sql, args...)
	return out, err
}

// ListDeadLetters returns a page, newest first.
func (s *deadLetterRows) ListDeadLetters(ctx context.Context, before int64, limit int) ([]store.DeadLetter, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	return s.deadLetters(ctx, "list dead letters", bodilessLetters+" WHERE id < $1 ORDER BY id DESC LIMIT $2", before, pageSize(limit))
}

// DeadLettersOf returns those that name an execution.
func (s *deadLetterRows) DeadLettersOf(ctx context.Context, id messages.ExecutionID, limit int) ([]store.DeadLetter, error) {
	return s.deadLetters(ctx, "list an execution's dead letters", bodilessLetters+" WHERE execution = $1 ORDER BY id DESC LIMIT $2", uuidOf(id), pageSize(limit))
}

// GetDeadLetter returns one record.
func (s *deadLetterRows) GetDeadLetter(ctx context.Context, id int64) (store.DeadLetter, error) {
	found, err := s.deadLetters(ctx, "get dead letter", wholeLetters+" WHERE id = $1", id)
	if err != nil {
		return store.DeadLetter{}, err
	}
	if len(found) == 0 {
		return store.DeadLetter{}, fmt.Errorf("dead letter %d: %w", id, store.ErrNotFound)
	}
	return found[0], nil
}

// ResolveDeadLetter records what a person did with it.
func (s *deadLetterRows) ResolveDeadLetter(ctx context.Context, id int64, resolution string) error {
	n, err := s.exec(ctx, "resolve dead letter", "UPDATE dead_letter SET resolution = $2 WHERE id = $1", id, encodeText(resolution))
	if err == nil && n == 0 {
		err = fmt.Errorf("dead letter %d: %w", id, store.ErrNotFound)
	}
	return err
}

// DeadLetterStats counts by worker, action, reason and hour, newest hour first, 10,000 rows at most.
func (s *deadLetterRows) DeadLetterStats(ctx context.Context, since time.Time) ([]store.DeadLetterCount, error) {
	var out []store.DeadLetterCount
	err := s.query(ctx, "count dead letters", func(v *scanner) {
		out = append(out, store.DeadLetterCount{Worker: messages.WorkerID(v.text()), Action: v.text(), Reason: v.text(), Hour: v.time(), Count: int(v.integer())})
	}, `SELECT worker, action, reason, date_trunc('hour', at, 'UTC') AS hour, count(*) FROM dead_letter WHERE at >= coalesce($1::timestamptz, '-infinity')
 GROUP BY 1, 2, 3, 4 ORDER BY 4 DESC, 1, 2, 3 LIMIT 10000`, timeOf(since))
	return out, err
}
