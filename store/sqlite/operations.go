package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const (
	operationColumns = `id, kind, filter, ids, seq_max, count, exact, by, reason, rate, state, created_at, expires_at, started_at, ended_at,
 done, skipped, failed, skips, failures, problem, cursor, pending, incarnation, epoch`
	openOperation = "state IN ('running', 'stopping')"
	// heldOperation is the condition that a living incarnation works on an operation. No lease is evaluated: the lock on the file says
	// who is live.
	heldOperation = "EXISTS (SELECT 1 FROM node n WHERE n.incarnation = operation.incarnation AND n.state <> 'dead')"
)

// scanOperation reads a row of operationColumns.
func scanOperation(row row) (o store.Operation, err error) {
	v := scanner{row: row}
	v.id((*[16]byte)(&o.ID))
	o.Kind, o.Filter, o.IDs, o.SeqMax, o.Count, o.Exact = v.text(), json.RawMessage(v.bytes()), store.SplitIDs(v.bytes()), v.integer(), v.integer(), v.boolean()
	o.By, o.Reason, o.Rate, o.State = v.text(), v.text(), int(v.integer()), store.OperationState(v.text())
	o.CreatedAt, o.ExpiresAt, o.StartedAt, o.EndedAt = v.time(), v.time(), v.time(), v.time()
	o.Done, o.Skipped, o.Failed = v.integer(), v.integer(), v.integer()
	store.ReadOperationNotes(&o, v.bytes(), v.bytes())
	o.Problem, o.Cursor, o.Pending = v.text(), v.integer(), store.SplitIDs(v.bytes())
	v.id((*[16]byte)(&o.Incarnation))
	o.Epoch = v.integer()
	return o, v.err
}

func (s *Store) readOperations(ctx context.Context, what, where string, args ...any) (out []store.Operation, err error) {
	err = s.read(ctx, what, func(c *conn) error {
		out = nil
		return c.query("SELECT "+operationColumns+" FROM operation WHERE "+where, func(row row) error {
			o, err := scanOperation(row)
			out = append(out, o)
			return err
		}, args...)
	})
	return out, err
}

// AddOperation implements store.Store.
func (s *Store) AddOperation(ctx context.Context, o store.Operation, lasts time.Duration) (store.Operation, error) {
	if err := store.CheckOperation(&o); err != nil {
		return o, fmt.Errorf("add an operation: %w", err)
	}
	err := s.write(ctx, "add an operation", 1+len(o.IDs)/64, func(w *writer) error {
		for _, old := range []struct {
			sql  string
			args []any
		}{
			{"DELETE FROM operation WHERE state = 'previewed' AND expires_at <= ?", []any{micros(w.now)}},
			{"DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE state = 'previewed' AND by = ? AND id <> ? ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)",
				[]any{o.By, o.ID[:], int64(store.PreviewsMax - 1)}},
			{"DELETE FROM operation WHERE id IN (SELECT id FROM operation WHERE state IN ('stopped', 'done', 'failed') ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)",
				[]any{int64(store.OperationsKept)}},
		} {
			if err := w.exec(old.sql, old.args...); err != nil {
				return err
			}
		}
		return w.exec(`INSERT INTO operation (`+operationColumns+`)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'previewed', ?, ?, 0, 0, 0, 0, 0, NULL, NULL, '', 0, NULL, NULL, 0) ON CONFLICT (id) DO NOTHING`,
			o.ID[:], o.Kind, blob(o.Filter), blob(store.JoinIDs(o.IDs)), o.SeqMax, o.Count, flags(o.Exact), o.By, o.Reason, int64(o.Rate),
			micros(w.now), micros(w.now.Add(lasts)))
	})
	if err != nil {
		return o, err
	}
	return s.GetOperation(ctx, o.ID)
}

// StartOperation implements store.Store.
func (s *Store) StartOperation(ctx context.Context, id messages.OperationID, reason string, rate int) (store.Operation, error) {
	err := s.write(ctx, "start an operation", 1, func(w *writer) error {
		previews, err := w.c.number("SELECT count(*) FROM operation WHERE id = ? AND state = 'previewed'", id[:])
		if err != nil || previews == 0 {
			return err
		}
		valid, err := w.c.number("SELECT count(*) FROM operation WHERE id = ? AND expires_at > ?", id[:], micros(w.now))
		if err == nil && valid == 0 {
			return ofCall(fmt.Errorf("operation %s: its preview has ended: %w", id, store.ErrNotFound))
		}
		open, errOpen := w.c.number("SELECT count(*) FROM operation WHERE " + openOperation)
		if err != nil || errOpen != nil {
			return fmt.Errorf("start operation %s: %w %w", id, err, errOpen)
		}
		if open >= store.OperationsMax {
			return ofCall(fmt.Errorf("start operation %s: %w", id, store.ErrCrowded))
		}
		return w.exec("UPDATE operation SET state = 'running', reason = ?, rate = ?, started_at = ? WHERE id = ? AND state = 'previewed'",
			reason, int64(rate), micros(w.now), id[:])
	})
	if err != nil {
		return store.Operation{}, err
	}
	return s.GetOperation(ctx, id)
}

// LeaseOperations implements store.Store. If there is nothing to take, which is usual, it costs a read and no transaction.
func (s *Store) LeaseOperations(ctx context.Context, inc messages.Incarnation) ([]store.Operation, error) {
	mine, err := s.readOperations(ctx, "read operations", openOperation+" AND (incarnation = ? OR NOT "+heldOperation+") ORDER BY created_at, id", inc[:])
	if err != nil || !slices.ContainsFunc(mine, func(o store.Operation) bool { return o.Incarnation != inc }) {
		return mine, err
	}
	err = s.write(ctx, "take operations", len(mine), func(w *writer) error {
		return w.exec("UPDATE operation SET incarnation = ?1, epoch = epoch + 1 WHERE "+openOperation+" AND NOT "+heldOperation+
			" AND EXISTS (SELECT 1 FROM node n WHERE n.incarnation = ?1 AND n.state = 'active')", inc[:])
	})
	if err != nil {
		return nil, err
	}
	return s.readOperations(ctx, "read operations", openOperation+" AND incarnation = ? ORDER BY created_at, id", inc[:])
}

// SaveOperation implements store.Store.
func (s *Store) SaveOperation(ctx context.Context, o *store.Operation) (state store.OperationState, err error) {
	if err := store.CheckOperation(o); err != nil {
		return "", fmt.Errorf("save an operation: %w", err)
	}
	skips, failures, err := store.OperationNotes(o)
	if err != nil {
		return "", err
	}
	kept := *o
	err = s.write(ctx, "save an operation", 1, func(w *writer) error {
		ended := any(int64(0))
		if kept.State.Ended() {
			ended = micros(w.now)
		}
		n, err := w.c.exec(`UPDATE operation SET state = CASE WHEN ?1 = 'running' THEN state ELSE ?1 END, ended_at = ?2, done = ?3, skipped = ?4, failed = ?5,
 skips = ?6, failures = ?7, problem = ?8, cursor = ?9, pending = ?10 WHERE id = ?11 AND incarnation = ?12 AND epoch = ?13 AND `+openOperation,
			string(kept.State), ended, kept.Done, kept.Skipped, kept.Failed, blob(skips), blob(failures), kept.Problem, kept.Cursor,
			blob(store.JoinIDs(kept.Pending)), kept.ID[:], kept.Incarnation[:], kept.Epoch)
		if err == nil && n == 0 {
			return ofCall(fmt.Errorf("save operation %s: %w", kept.ID, store.ErrTaken))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	stored, err := s.GetOperation(ctx, o.ID)
	return stored.State, err
}

// StopOperation implements store.Store.
func (s *Store) StopOperation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	err := s.write(ctx, "stop an operation", 1, func(w *writer) error {
		return w.exec("UPDATE operation SET state = 'stopping' WHERE id = ? AND state = 'running'", id[:])
	})
	if err != nil {
		return store.Operation{}, err
	}
	return s.GetOperation(ctx, id)
}

// GetOperation implements store.Store.
func (s *Store) GetOperation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	found, err := s.readOperations(ctx, "read an operation", "id = ?", id[:])
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("operation %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return store.Operation{}, err
	}
	return found[0], nil
}

// ListOperations implements store.Store.
func (s *Store) ListOperations(ctx context.Context, q store.OperationQuery) ([]store.Operation, error) {
	return s.readOperations(ctx, "list operations", "(created_at, id) < (?, ?) AND state <> 'previewed' AND started_at >= ? AND started_at < ?"+
		" ORDER BY created_at DESC, id DESC LIMIT "+strconv.Itoa(pageSize(q.Limit)), endOf(q.After.At), q.After.ID[:], micros(q.From), endOf(q.To))
}
