package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const (
	operationColumns = `id, kind, filter, ids, seq_max, count, exact, by, reason, rate, state, created_at, expires_at, started_at, ended_at,
 done, skipped, failed, skips, failures, problem, cursor, pending, incarnation, epoch`
	openOperation = "state IN ('running', 'stopping')"
	// heldOperation is the condition that a living incarnation works on an operation. Two nodes that look at a lease as it ends may both
	// hold one for a moment. Then the one that took it first saves nothing more, and what it did is done.
	heldOperation = "EXISTS (SELECT FROM node n WHERE n.incarnation = operation.incarnation AND n.state <> 'dead' AND n.lease_until > clock_timestamp())"

	oldPreviewsSQL   = "DELETE FROM operation WHERE state = 'previewed' AND expires_at <= now()"
	manyPreviewsSQL  = `DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE state = 'previewed' AND by = $1 AND id <> $2 ORDER BY created_at DESC, id DESC OFFSET $3)`
	oldOperationsSQL = `DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE state IN ('stopped', 'done', 'failed') ORDER BY created_at DESC, id DESC OFFSET $1)`
	addOperationSQL  = `INSERT INTO operation (` + operationColumns + `)
 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'previewed', now(), now() + $11, NULL, NULL, 0, 0, 0, NULL, NULL, '', 0, NULL, NULL, 0) ON CONFLICT (id) DO NOTHING`
	startOperationSQL = `UPDATE operation SET state = 'running', reason = $2, rate = $3, started_at = now() WHERE id = $1 AND state = 'previewed'
 AND expires_at > now() AND (SELECT count(*) FROM operation o WHERE o.state IN ('running', 'stopping')) < $4`
	takeOperationsSQL = "UPDATE operation SET incarnation = $1, epoch = epoch + 1 WHERE " + openOperation + " AND NOT " + heldOperation +
		" AND EXISTS (SELECT FROM node n WHERE n.incarnation = $1 AND n.state = 'active' AND n.lease_until > clock_timestamp())"
	saveOperationSQL = `UPDATE operation SET state = CASE WHEN $1::text = 'running' THEN state ELSE $1::text END,
 ended_at = CASE WHEN $2::boolean THEN now() END, done = $3, skipped = $4, failed = $5, skips = $6, failures = $7, problem = $8, cursor = $9, pending = $10
 WHERE id = $11 AND incarnation = $12 AND epoch = $13 AND ` + openOperation
)

func scanOperation(v *scanner) (o store.Operation) {
	v.id((*[16]byte)(&o.ID))
	o.Kind, o.Filter, o.IDs, o.SeqMax, o.Count, o.Exact = v.text(), json.RawMessage(v.bytes()), store.SplitIDs(v.bytes()), v.integer(), v.integer(), v.boolean()
	o.By, o.Reason, o.Rate, o.State = v.text(), v.text(), int(v.integer()), store.OperationState(v.text())
	o.CreatedAt, o.ExpiresAt, o.StartedAt, o.EndedAt = v.time(), v.time(), v.time(), v.time()
	o.Done, o.Skipped, o.Failed = v.integer(), v.integer(), v.integer()
	store.ReadOperationNotes(&o, v.bytes(), v.bytes())
	o.Problem, o.Cursor, o.Pending = v.text(), v.integer(), store.SplitIDs(v.bytes())
	v.id((*[16]byte)(&o.Incarnation))
	o.Epoch = v.integer()
	return o
}

func (s *operationRows) readOperations(ctx context.Context, what, where string, args ...any) (out []store.Operation, err error) {
	err = s.query(ctx, what, func(v *scanner) { out = append(out, scanOperation(v)) }, "SELECT "+operationColumns+" FROM operation WHERE "+where, args...)
	return out, err
}

// AddOperation implements store.Store.
func (s *operationRows) AddOperation(ctx context.Context, o store.Operation, lasts time.Duration) (store.Operation, error) {
	if err := store.CheckOperation(&o); err != nil {
		return o, fmt.Errorf("add an operation: %w", err)
	}
	by := encodeText(o.By)
	err := s.inTransaction(ctx, "add an operation", func(b *pgx.Batch) {
		b.Queue(oldPreviewsSQL)
		b.Queue(manyPreviewsSQL, by, uuidOf(o.ID), store.PreviewsMax-1)
		b.Queue(oldOperationsSQL, store.OperationsKept)
		b.Queue(addOperationSQL, uuidOf(o.ID), encodeText(o.Kind), jsonOf(o.Filter), store.JoinIDs(o.IDs), o.SeqMax, o.Count, o.Exact, by,
			encodeText(o.Reason), o.Rate, intervalOf(lasts))
	})
	if err != nil {
		return o, err
	}
	return s.GetOperation(ctx, o.ID)
}

// StartOperation implements store.Store.
func (s *operationRows) StartOperation(ctx context.Context, id messages.OperationID, reason string, rate int) (store.Operation, error) {
	n, err := s.exec(ctx, "start an operation", startOperationSQL, uuidOf(id), encodeText(reason), rate, store.OperationsMax)
	if err != nil {
		return store.Operation{}, err
	}
	o, err := s.GetOperation(ctx, id)
	if err != nil || n > 0 || o.State != store.OperationPreviewed {
		return o, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return o, err
	}
	if !now.Before(o.ExpiresAt) {
		return o, fmt.Errorf("operation %s: its preview has ended: %w", id, store.ErrNotFound)
	}
	return o, fmt.Errorf("start operation %s: %w", id, store.ErrCrowded)
}

func (s *operationRows) now(ctx context.Context) (now time.Time, err error) {
	err = s.query(ctx, "read the clock", func(v *scanner) { now = v.time() }, "SELECT now()")
	return now, err
}

// LeaseOperations implements store.Store. If there is nothing to take, which is usual, it costs a read and no transaction.
func (s *operationRows) LeaseOperations(ctx context.Context, inc messages.Incarnation) ([]store.Operation, error) {
	mine, err := s.readOperations(ctx, "read operations", openOperation+" AND (incarnation = $1 OR NOT "+heldOperation+") ORDER BY created_at, id", uuidOf(inc))
	if err != nil || !slices.ContainsFunc(mine, func(o store.Operation) bool { return o.Incarnation != inc }) {
		return mine, err
	}
	if _, err = s.exec(ctx, "take operations", takeOperationsSQL, uuidOf(inc)); err != nil {
		return nil, err
	}
	return s.readOperations(ctx, "read operations", openOperation+" AND incarnation = $1 ORDER BY created_at, id", uuidOf(inc))
}

// SaveOperation implements store.Store.
func (s *operationRows) SaveOperation(ctx context.Context, o *store.Operation) (store.OperationState, error) {
	if err := store.CheckOperation(o); err != nil {
		return "", fmt.Errorf("save an operation: %w", err)
	}
	skips, failures, err := store.OperationNotes(o)
	if err != nil {
		return "", err
	}
	n, err := s.exec(ctx, "save an operation", saveOperationSQL, string(o.State), o.State.Ended(), o.Done, o.Skipped, o.Failed, jsonOf(skips), jsonOf(failures),
		encodeText(o.Problem), o.Cursor, store.JoinIDs(o.Pending), uuidOf(o.ID), uuidOf(o.Incarnation), o.Epoch)
	if err == nil && n == 0 {
		err = fmt.Errorf("save operation %s: %w", o.ID, store.ErrTaken)
	}
	if err != nil {
		return "", err
	}
	stored, err := s.GetOperation(ctx, o.ID)
	return stored.State, err
}

// StopOperation implements store.Store.
func (s *operationRows) StopOperation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	if _, err := s.exec(ctx, "stop an operation", "UPDATE operation SET state = 'stopping' WHERE id = $1 AND state = 'running'", uuidOf(id)); err != nil {
		return store.Operation{}, err
	}
	return s.GetOperation(ctx, id)
}

// GetOperation implements store.Store.
func (s *operationRows) GetOperation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	found, err := s.readOperations(ctx, "read an operation", "id = $1", uuidOf(id))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("operation %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return store.Operation{}, err
	}
	return found[0], nil
}

// ListOperations implements store.Store.
func (s *operationRows) ListOperations(ctx context.Context, q store.OperationQuery) ([]store.Operation, error) {
	return s.readOperations(ctx, "list operations", "(created_at, id) < ($1, $2) AND state <> 'previewed' AND started_at >= $3 AND started_at < $4"+
		" ORDER BY created_at DESC, id DESC LIMIT "+strconv.Itoa(pageSize(q.Limit)), boundOf(q.After.At, pgtype.Infinity),
		pgtype.UUID{Bytes: q.After.ID, Valid: true}, boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity))
}
