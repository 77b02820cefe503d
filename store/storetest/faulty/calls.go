package faulty

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// calls passes every call of a store but Submit, Apply and Close through one function.
type calls struct {
	store.Store
	// around makes the call once, twice or not at all. repeatable says that the port promises that a call with an unknown
	// outcome may be repeated without an effect.
	around func(ctx context.Context, repeatable bool, do func() error) error
}

// The values of repeatable. Reads are once: for a read, a lost reply is the same as a refused call.
const (
	repeatable = true
	once       = false
)

// value makes a call that returns a value.
func value[T any](ctx context.Context, c *calls, repeatable bool, do func() (T, error)) (T, error) {
	var out T
	err := c.around(ctx, repeatable, func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

// Watch implements store.Store.
func (c *calls) Watch(ctx context.Context) (<-chan store.Hint, error) {
	return value(ctx, c, once, func() (<-chan store.Hint, error) { return c.Store.Watch(ctx) })
}

// Now implements store.Store.
func (c *calls) Now(ctx context.Context) (time.Time, error) {
	return value(ctx, c, once, func() (time.Time, error) { return c.Store.Now(ctx) })
}

// Purge implements store.Store.
func (c *calls) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return value(ctx, c, once, func() (store.Purged, error) { return c.Store.Purge(ctx, p) })
}

// SaveActions implements store.Store.
func (c *calls) SaveActions(ctx context.Context, actions []messages.Action) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SaveActions(ctx, actions) })
}

// Retry implements store.Store.
func (c *calls) Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (store.Submitted, error) {
	return value(ctx, c, repeatable, func() (store.Submitted, error) { return c.Store.Retry(ctx, id, next, by) })
}

// Due implements store.Store.
func (c *calls) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	return value(ctx, c, once, func() (store.DuePage, error) { return c.Store.Due(ctx, q) })
}

// Overdue implements store.Store.
func (c *calls) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	return value(ctx, c, once, func() ([]messages.Execution, error) { return c.Store.Overdue(ctx, q) })
}

// Live implements store.Store.
func (c *calls) Live(ctx context.Context, pool string) ([]messages.Execution, error) {
	return value(ctx, c, once, func() ([]messages.Execution, error) { return c.Store.Live(ctx, pool) })
}

// Get implements store.Store.
func (c *calls) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	return value(ctx, c, once, func() (messages.Execution, error) { return c.Store.Get(ctx, id) })
}

// List implements store.Store.
func (c *calls) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return value(ctx, c, once, func() (store.Page, error) { return c.Store.List(ctx, f) })
}

// Chain implements store.Store.
func (c *calls) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	return value(ctx, c, once, func() ([]messages.Execution, error) { return c.Store.Chain(ctx, id) })
}

// EventsBetween implements store.Store.
func (c *calls) EventsBetween(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return value(ctx, c, once, func() (store.EventPage, error) { return c.Store.EventsBetween(ctx, q) })
}

// Events implements store.Store.
func (c *calls) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	return value(ctx, c, once, func() ([]store.Event, error) { return c.Store.Events(ctx, id) })
}

// Output implements store.Store.
func (c *calls) Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error) {
	return value(ctx, c, once, func() (messages.Output, error) { return c.Store.Output(ctx, id) })
}

// Depths implements store.Store.
func (c *calls) Depths(ctx context.Context) ([]store.Depth, error) {
	return value(ctx, c, once, func() ([]store.Depth, error) { return c.Store.Depths(ctx) })
}
