package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// retryFenceSQL ensures that an execution has one retry: it names the retry on the row if none is named yet.
const retryFenceSQL = `WITH e AS (UPDATE execution e SET retried_as = $2 WHERE e.id = $1 AND e.retried_as IS NULL AND e.status = ANY($3)
 RETURNING e.seq, e.attempt, e.status, e.worker_id)
 INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker, by)
 SELECT seq, now(), attempt, 'retry', status, status, $2::text, worker_id, $4::text FROM e`

// retried are the statuses that a retry may follow.
var retried = func() (out []int16) {
	for _, s := range messages.Statuses() {
		if store.MayBeRetried(s) {
			out = append(out, int16(s))
		}
	}
	return out
}()

// Retry implements store.Store.
func (s *retrier) Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (store.Submitted, error) {
	if err := store.Check(&next); err != nil {
		return store.Submitted{}, fmt.Errorf("retry of execution %s: %w", id, err)
	}
	fresh(&next)
	err := repeat(ctx, func() error { return s.insertRetry(ctx, id, &next, by) })
	if sqlState(err) == codeUnique && next.IdempotencyKey != "" {
		if err = s.keyTaken(ctx, id, &next); err != nil {
			return store.Submitted{}, err
		}
	}
	if err != nil {
		return store.Submitted{}, s.mapError("retry", err)
	}
	return s.retryOf(ctx, id, next.ID)
}

// insertRetry stores the retry if the execution has none, and otherwise does nothing.
func (s *retrier) insertRetry(ctx context.Context, id messages.ExecutionID, next *messages.Execution, by string) error {
	var rows freshRows
	if err := rows.add(next); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	var touched affected
	touched.execution(next)
	touched.lock(batch)
	child := uuidOf(next.ID)
	batch.Queue(retryFenceSQL, uuidOf(id), child, retried, textOf(by))
	batch.Queue(retriesSQL, append(rows.args(false), column[pgtype.UUID]{uuidOf(id)}, s.channel(), textOf(next.KeyOwner), column[pgtype.Timestamptz]{timeOf(next.RequestedAt)})...)
	if len(next.Labels) > 0 {
		var ids column[pgtype.UUID]
		var keys, values []string
		for k, v := range next.Labels {
			ids, keys, values = append(ids, child), append(keys, encodeText(k)), append(values, encodeText(v))
		}
		batch.Queue(labelSQL, ids, keys, values)
	}
	touched.recount(batch)
	return s.pool.SendBatch(ctx, batch).Close()
}

// keyTaken finds the holder of the retry's idempotency key. If this retry, or another try of the same one, brought the
// key, there is no conflict.
func (s *retrier) keyTaken(ctx context.Context, id messages.ExecutionID, next *messages.Execution) error {
	parent, err := s.read.Get(ctx, id)
	if err != nil || !parent.RetriedAs.IsZero() {
		return err
	}
	var holder messages.ExecutionID
	err = s.query(ctx, "read the holder of a key", func(sc *scanner) { sc.id((*[16]byte)(&holder)) },
		"SELECT r.id FROM request r WHERE r.idempotency_key = $1 AND "+keyOwner+" = $2", encodeText(next.IdempotencyKey), encodeText(store.KeyOwner(next)))
	if err != nil {
		return err
	}
	return &store.ConflictError{Key: next.IdempotencyKey, Holder: holder}
}

// retryOf reads the stored retry.
func (s *retrier) retryOf(ctx context.Context, id, mine messages.ExecutionID) (store.Submitted, error) {
	parent, err := s.read.Get(ctx, id)
	switch {
	case err != nil:
		return store.Submitted{}, err
	case parent.RetriedAs.IsZero():
		return store.Submitted{}, store.NotRetried(&parent)
	}
	e, err := s.read.Get(ctx, parent.RetriedAs)
	if errors.Is(err, store.ErrNotFound) {
		return store.Submitted{}, fmt.Errorf("retry %s of execution %s: %w", parent.RetriedAs, id, err)
	}
	if err == nil && e.IdempotencyKey != "" {
		err = s.query(ctx, "read the owner of a key", func(sc *scanner) { e.KeyOwner = sc.text() }, "SELECT r.key_owner FROM request r WHERE r.seq = $1", e.Seq)
	}
	return store.Submitted{Execution: e, Existing: e.ID != mine}, err
}
