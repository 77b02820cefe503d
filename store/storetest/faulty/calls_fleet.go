package faulty

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Join implements store.Store.
func (c *calls) Join(ctx context.Context, n store.Node, lease time.Duration) error {
	return c.around(ctx, repeatable, func() error { return c.Store.Join(ctx, n, lease) })
}

// Beat implements store.Store.
func (c *calls) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	return value(ctx, c, repeatable, func() (store.Pulse, error) { return c.Store.Beat(ctx, inc, lease) })
}

// DeclareDead implements store.Store.
func (c *calls) DeclareDead(ctx context.Context, by messages.Incarnation, lease time.Duration) ([]store.Node, error) {
	return value(ctx, c, once, func() ([]store.Node, error) { return c.Store.DeclareDead(ctx, by, lease) })
}

// DeclareGone implements store.Store.
func (c *calls) DeclareGone(ctx context.Context, by messages.Incarnation, lease time.Duration, gone []store.Gone) ([]store.Node, error) {
	return value(ctx, c, once, func() ([]store.Node, error) { return c.Store.DeclareGone(ctx, by, lease, gone) })
}

// SetNode implements store.Store.
func (c *calls) SetNode(ctx context.Context, inc messages.Incarnation, state store.NodeState) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SetNode(ctx, inc, state) })
}

// CordonNode implements store.Store.
func (c *calls) CordonNode(ctx context.Context, inc messages.Incarnation, cordoned bool) error {
	return c.around(ctx, repeatable, func() error { return c.Store.CordonNode(ctx, inc, cordoned) })
}

// CordonPool implements store.Store.
func (c *calls) CordonPool(ctx context.Context, pool string, cordoned bool) error {
	return c.around(ctx, repeatable, func() error { return c.Store.CordonPool(ctx, pool, cordoned) })
}

// CordonedPools implements store.Store.
func (c *calls) CordonedPools(ctx context.Context) ([]string, error) {
	return value(ctx, c, once, func() ([]string, error) { return c.Store.CordonedPools(ctx) })
}

// ListNodes implements store.Store.
func (c *calls) ListNodes(ctx context.Context) ([]store.Node, error) {
	return value(ctx, c, once, func() ([]store.Node, error) { return c.Store.ListNodes(ctx) })
}

// Lead implements store.Store.
func (c *calls) Lead(ctx context.Context, inc messages.Incarnation, pools []string) ([]store.Router, error) {
	return value(ctx, c, repeatable, func() ([]store.Router, error) { return c.Store.Lead(ctx, inc, pools) })
}

// WorkerEventsBetween implements store.Store.
func (c *calls) WorkerEventsBetween(ctx context.Context, q store.WorkerEventQuery) (store.WorkerEventPage, error) {
	return value(ctx, c, once, func() (store.WorkerEventPage, error) { return c.Store.WorkerEventsBetween(ctx, q) })
}

// Resign implements store.Store.
func (c *calls) Resign(ctx context.Context, inc messages.Incarnation, pools []string) error {
	return c.around(ctx, repeatable, func() error { return c.Store.Resign(ctx, inc, pools) })
}

// Routers implements store.Store.
func (c *calls) Routers(ctx context.Context) ([]store.Router, error) {
	return value(ctx, c, once, func() ([]store.Router, error) { return c.Store.Routers(ctx) })
}

// SaveWorkers implements store.Store.
func (c *calls) SaveWorkers(ctx context.Context, workers []store.Worker) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SaveWorkers(ctx, workers) })
}

// Heartbeat implements store.Store.
func (c *calls) Heartbeat(ctx context.Context, inc messages.Incarnation, capabilities map[messages.WorkerKey]json.RawMessage) error {
	return c.around(ctx, repeatable, func() error { return c.Store.Heartbeat(ctx, inc, capabilities) })
}

// RecordTransitions implements store.Store.
func (c *calls) RecordTransitions(ctx context.Context, events []store.WorkerEvent, healths []string) error {
	return c.around(ctx, once, func() error { return c.Store.RecordTransitions(ctx, events, healths) })
}

// CordonWorker implements store.Store.
func (c *calls) CordonWorker(ctx context.Context, key messages.WorkerKey, cordoned bool) error {
	return c.around(ctx, repeatable, func() error { return c.Store.CordonWorker(ctx, key, cordoned) })
}

// EndedWorkers implements store.Store.
func (c *calls) EndedWorkers(ctx context.Context, inc messages.Incarnation) ([]store.Worker, error) {
	return value(ctx, c, once, func() ([]store.Worker, error) { return c.Store.EndedWorkers(ctx, inc) })
}

// ListWorkers implements store.Store.
func (c *calls) ListWorkers(ctx context.Context, pool string) ([]store.Worker, error) {
	return value(ctx, c, once, func() ([]store.Worker, error) { return c.Store.ListWorkers(ctx, pool) })
}

// WorkerEvents implements store.Store.
func (c *calls) WorkerEvents(ctx context.Context, key messages.WorkerKey, limit int) ([]store.WorkerEvent, error) {
	return value(ctx, c, once, func() ([]store.WorkerEvent, error) { return c.Store.WorkerEvents(ctx, key, limit) })
}

// BoundSessions implements store.Store.
func (c *calls) BoundSessions(ctx context.Context, q store.BoundQuery) ([]store.Session, error) {
	return value(ctx, c, once, func() ([]store.Session, error) { return c.Store.BoundSessions(ctx, q) })
}

// GetSession implements store.Store.
func (c *calls) GetSession(ctx context.Context, pool, session string) (store.Session, error) {
	return value(ctx, c, once, func() (store.Session, error) { return c.Store.GetSession(ctx, pool, session) })
}

// ListSessions implements store.Store.
func (c *calls) ListSessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error) {
	return value(ctx, c, once, func() ([]store.Session, error) { return c.Store.ListSessions(ctx, f, after, limit) })
}

// Unbind implements store.Store.
func (c *calls) Unbind(ctx context.Context, bindings []store.Binding) (int, error) {
	return value(ctx, c, once, func() (int, error) { return c.Store.Unbind(ctx, bindings) })
}

// SaveSnapshot implements store.Store.
func (c *calls) SaveSnapshot(ctx context.Context, ref store.SessionRef, state json.RawMessage) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SaveSnapshot(ctx, ref, state) })
}

// Snapshot implements store.Store.
func (c *calls) Snapshot(ctx context.Context, pool, session string) (state json.RawMessage, epoch int64, err error) {
	err = c.around(ctx, once, func() (err error) {
		state, epoch, err = c.Store.Snapshot(ctx, pool, session)
		return err
	})
	return state, epoch, err
}

// TryState implements store.Store.
func (c *calls) TryState(ctx context.Context, t store.StateTry) (int, error) {
	return value(ctx, c, repeatable, func() (int, error) { return c.Store.TryState(ctx, t) })
}

// StateAnswered implements store.Store.
func (c *calls) StateAnswered(ctx context.Context, pool, session string) error {
	return c.around(ctx, repeatable, func() error { return c.Store.StateAnswered(ctx, pool, session) })
}

// StateTrouble implements store.Store.
func (c *calls) StateTrouble(ctx context.Context, pool, session string) (store.StateTrouble, error) {
	return value(ctx, c, once, func() (store.StateTrouble, error) { return c.Store.StateTrouble(ctx, pool, session) })
}

// AsideStates implements store.Store.
func (c *calls) AsideStates(ctx context.Context, limit int) ([]store.AsideState, error) {
	return value(ctx, c, once, func() ([]store.AsideState, error) { return c.Store.AsideStates(ctx, limit) })
}

// DropState implements store.Store.
func (c *calls) DropState(ctx context.Context, pool, session string) (bool, error) {
	return value(ctx, c, once, func() (bool, error) { return c.Store.DropState(ctx, pool, session) })
}
