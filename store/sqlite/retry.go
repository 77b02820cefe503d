package sqlite

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const updateRetried = `UPDATE execution SET retried_as = ? WHERE seq = ? AND status = ? AND attempt = ? AND retried_as IS NULL`

// Retry implements store.Store.
func (s *Store) Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (store.Submitted, error) {
	if err := store.Check(&next); err != nil {
		return store.Submitted{}, fmt.Errorf("retry of execution %s: %w", id, err)
	}
	if next.ID.IsZero() {
		next.ID = messages.NewExecutionID()
	}
	var stands messages.ExecutionID
	err := s.write(ctx, "retry", 1, func(w *writer) (err error) {
		stands, err = w.fenceRetry(id, &next, by)
		return err
	})
	if err != nil {
		return store.Submitted{}, err
	}
	e, err := s.Get(ctx, stands)
	if err != nil {
		return store.Submitted{}, fmt.Errorf("retry %s of execution %s: %w", stands, id, err)
	}
	if e.IdempotencyKey != "" {
		if e.KeyOwner, err = s.keyOwner(ctx, e.Seq); err != nil {
			return store.Submitted{}, err
		}
	}
	return store.Submitted{Execution: e, Existing: stands != next.ID}, nil
}

// fenceRetry stores the retry if the execution has none, and returns the stored one.
func (w *writer) fenceRetry(id messages.ExecutionID, next *messages.Execution, by string) (messages.ExecutionID, error) {
	r, err := w.record(id)
	switch {
	case err != nil:
		return id, err
	case r == nil:
		return id, ofCall(fmt.Errorf("execution %s: %w", id, store.ErrNotFound))
	}
	if r.Status.Terminal() {
		defer w.cache.drop(id) // the cache is for rows that still change
	}
	if !r.RetriedAs.IsZero() {
		return r.RetriedAs, nil
	}
	if err := store.NotRetried(&r.Execution); err != nil {
		return id, ofCall(err)
	}
	if next.IdempotencyKey != "" {
		holder, err := w.keyed(next)
		if err != nil {
			return id, err
		}
		if holder != nil {
			return id, ofCall(conflict(next, holder.ID))
		}
	}
	return next.ID, w.addRetry(next, r, by)
}

func (w *writer) addRetry(next *messages.Execution, r *record, by string) error {
	if err := w.retry(next, r, r.CrashCount); err != nil {
		return err
	}
	if err := w.update(updateRetried, r, next.ID[:]); err != nil {
		return err
	}
	return w.event(r.Seq, &store.Event{At: w.now, Attempt: r.Attempt, Kind: "retry", From: r.Status, To: r.Status, Reason: next.ID.String(),
		Worker: string(r.WorkerID), By: by})
}

// keyOwner reads the owner of an execution's key, if that is not its creator.
func (s *Store) keyOwner(ctx context.Context, seq int64) (owner string, err error) {
	err = s.read(ctx, "read the owner of a key", func(c *conn) error {
		return c.query("SELECT key_owner FROM request WHERE seq = ?", func(row row) error {
			v := scanner{row: row}
			owner = v.text()
			return v.err
		}, seq)
	})
	return owner, err
}
