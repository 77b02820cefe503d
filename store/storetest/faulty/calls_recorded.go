package faulty

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// AppendJournal implements store.Store.
func (c *calls) AppendJournal(ctx context.Context, entries []messages.JournalEntry) error {
	return c.around(ctx, repeatable, func() error { return c.Store.AppendJournal(ctx, entries) })
}

// ReadJournal implements store.Store.
func (c *calls) ReadJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	return value(ctx, c, once, func() (store.JournalPage, error) { return c.Store.ReadJournal(ctx, q) })
}

// ReadWorkerJournal implements store.Store.
func (c *calls) ReadWorkerJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	return value(ctx, c, once, func() (store.JournalPage, error) { return c.Store.ReadWorkerJournal(ctx, q) })
}

// AddOperation implements store.Store.
func (c *calls) AddOperation(ctx context.Context, o store.Operation, lasts time.Duration) (store.Operation, error) {
	return value(ctx, c, repeatable, func() (store.Operation, error) { return c.Store.AddOperation(ctx, o, lasts) })
}

// StartOperation implements store.Store.
func (c *calls) StartOperation(ctx context.Context, id messages.OperationID, reason string, rate int) (store.Operation, error) {
	return value(ctx, c, repeatable, func() (store.Operation, error) { return c.Store.StartOperation(ctx, id, reason, rate) })
}

// LeaseOperations implements store.Store.
func (c *calls) LeaseOperations(ctx context.Context, inc messages.Incarnation) ([]store.Operation, error) {
	return value(ctx, c, repeatable, func() ([]store.Operation, error) { return c.Store.LeaseOperations(ctx, inc) })
}

// SaveOperation implements store.Store.
func (c *calls) SaveOperation(ctx context.Context, o *store.Operation) (store.OperationState, error) {
	return value(ctx, c, once, func() (store.OperationState, error) { return c.Store.SaveOperation(ctx, o) })
}

// StopOperation implements store.Store.
func (c *calls) StopOperation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	return value(ctx, c, repeatable, func() (store.Operation, error) { return c.Store.StopOperation(ctx, id) })
}

// GetOperation implements store.Store.
func (c *calls) GetOperation(ctx context.Context, id messages.OperationID) (store.Operation, error) {
	return value(ctx, c, once, func() (store.Operation, error) { return c.Store.GetOperation(ctx, id) })
}

// ListOperations implements store.Store.
func (c *calls) ListOperations(ctx context.Context, q store.OperationQuery) ([]store.Operation, error) {
	return value(ctx, c, once, func() ([]store.Operation, error) { return c.Store.ListOperations(ctx, q) })
}

// SaveKeyframe implements store.Store.
func (c *calls) SaveKeyframe(ctx context.Context, k store.Keyframe) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SaveKeyframe(ctx, k) })
}

// ReadKeyframes implements store.Store.
func (c *calls) ReadKeyframes(ctx context.Context, q store.KeyframeQuery) ([]store.Keyframe, error) {
	return value(ctx, c, once, func() ([]store.Keyframe, error) { return c.Store.ReadKeyframes(ctx, q) })
}

// SaveRollups implements store.Store.
func (c *calls) SaveRollups(ctx context.Context, rows []store.Rollup) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SaveRollups(ctx, rows) })
}

// ReadRollups implements store.Store.
func (c *calls) ReadRollups(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	return value(ctx, c, once, func() (store.RollupPage, error) { return c.Store.ReadRollups(ctx, q) })
}

// RollupFolds implements store.Store.
func (c *calls) RollupFolds(ctx context.Context, q store.FoldQuery) ([]store.Fold, error) {
	return value(ctx, c, once, func() ([]store.Fold, error) { return c.Store.RollupFolds(ctx, q) })
}

// FoldRollups implements store.Store.
func (c *calls) FoldRollups(ctx context.Context, hour time.Time, version int64, rows []store.Rollup) error {
	return c.around(ctx, repeatable, func() error { return c.Store.FoldRollups(ctx, hour, version, rows) })
}

// ReadRollupHours implements store.Store.
func (c *calls) ReadRollupHours(ctx context.Context, q store.RollupQuery) (store.RollupPage, error) {
	return value(ctx, c, once, func() (store.RollupPage, error) { return c.Store.ReadRollupHours(ctx, q) })
}

// CountRequested implements store.Store.
func (c *calls) CountRequested(ctx context.Context, q store.CountQuery) (store.Counted, error) {
	return value(ctx, c, once, func() (store.Counted, error) { return c.Store.CountRequested(ctx, q) })
}

// CountPurged implements store.Store.
func (c *calls) CountPurged(ctx context.Context, from, to time.Time) (store.PurgedCount, error) {
	return value(ctx, c, once, func() (store.PurgedCount, error) { return c.Store.CountPurged(ctx, from, to) })
}
