package faulty

import (
	"context"
	"encoding/json"
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

// AppendJournal implements store.Store.
func (c *calls) AppendJournal(ctx context.Context, entries []messages.JournalEntry) error {
	return c.around(ctx, repeatable, func() error { return c.Store.AppendJournal(ctx, entries) })
}

// ReadJournal implements store.Store.
func (c *calls) ReadJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	return value(ctx, c, once, func() (store.JournalPage, error) { return c.Store.ReadJournal(ctx, q) })
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
func (c *calls) ListOperations(ctx context.Context, after store.OperationCursor, limit int) ([]store.Operation, error) {
	return value(ctx, c, once, func() ([]store.Operation, error) { return c.Store.ListOperations(ctx, after, limit) })
}

// SaveKeyframe implements store.Store.
func (c *calls) SaveKeyframe(ctx context.Context, k store.Keyframe) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SaveKeyframe(ctx, k) })
}

// ReadKeyframes implements store.Store.
func (c *calls) ReadKeyframes(ctx context.Context, q store.KeyframeQuery) ([]store.Keyframe, error) {
	return value(ctx, c, once, func() ([]store.Keyframe, error) { return c.Store.ReadKeyframes(ctx, q) })
}

// WorkerEventsBetween implements store.Store.
func (c *calls) WorkerEventsBetween(ctx context.Context, q store.WorkerEventQuery) (store.WorkerEventPage, error) {
	return value(ctx, c, once, func() (store.WorkerEventPage, error) { return c.Store.WorkerEventsBetween(ctx, q) })
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

// SaveDeadLetter implements store.Store.
func (c *calls) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	return value(ctx, c, d.Key != "", func() (int64, error) { return c.Store.SaveDeadLetter(ctx, d) })
}

// ListDeadLetters implements store.Store.
func (c *calls) ListDeadLetters(ctx context.Context, before int64, limit int) ([]store.DeadLetter, error) {
	return value(ctx, c, once, func() ([]store.DeadLetter, error) { return c.Store.ListDeadLetters(ctx, before, limit) })
}

// GetDeadLetter implements store.Store.
func (c *calls) GetDeadLetter(ctx context.Context, id int64) (store.DeadLetter, error) {
	return value(ctx, c, once, func() (store.DeadLetter, error) { return c.Store.GetDeadLetter(ctx, id) })
}

// ResolveDeadLetter implements store.Store.
func (c *calls) ResolveDeadLetter(ctx context.Context, id int64, resolution string) error {
	return c.around(ctx, once, func() error { return c.Store.ResolveDeadLetter(ctx, id, resolution) })
}

// WalkDeadLetters implements store.Store.
func (c *calls) WalkDeadLetters(ctx context.Context, after, last int64, limit int) ([]store.Letter, error) {
	return value(ctx, c, once, func() ([]store.Letter, error) { return c.Store.WalkDeadLetters(ctx, after, last, limit) })
}

// FindDeadLetters implements store.Store.
func (c *calls) FindDeadLetters(ctx context.Context, ids []int64) ([]store.Letter, error) {
	return value(ctx, c, once, func() ([]store.Letter, error) { return c.Store.FindDeadLetters(ctx, ids) })
}

// ResolveDeadLetters implements store.Store.
func (c *calls) ResolveDeadLetters(ctx context.Context, ids []int64, resolution string, unless ...string) ([]int64, error) {
	return value(ctx, c, once, func() ([]int64, error) { return c.Store.ResolveDeadLetters(ctx, ids, resolution, unless...) })
}

// DeadLetterStats implements store.Store.
func (c *calls) DeadLetterStats(ctx context.Context, since time.Time) ([]store.DeadLetterCount, error) {
	return value(ctx, c, once, func() ([]store.DeadLetterCount, error) { return c.Store.DeadLetterStats(ctx, since) })
}

// HoldNotices implements store.Store.
func (c *calls) HoldNotices(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.NoticesHold, error) {
	return value(ctx, c, repeatable, func() (store.NoticesHold, error) { return c.Store.HoldNotices(ctx, inc, lease) })
}

// ReadNotices implements store.Store.
func (c *calls) ReadNotices(ctx context.Context, from store.NoticesCursor, limit int, unheard store.NoticeRoutes) (store.NoticesPage, error) {
	return value(ctx, c, once, func() (store.NoticesPage, error) { return c.Store.ReadNotices(ctx, from, limit, unheard) })
}

// NoticesTold implements store.Store.
func (c *calls) NoticesTold(ctx context.Context, epoch int64, lease time.Duration, told store.ToldNotices) error {
	return c.around(ctx, len(told.Later) == 0, func() error { return c.Store.NoticesTold(ctx, epoch, lease, told) })
}

// ReleaseNotices implements store.Store.
func (c *calls) ReleaseNotices(ctx context.Context, epoch int64) error {
	return c.around(ctx, repeatable, func() error { return c.Store.ReleaseNotices(ctx, epoch) })
}

// TakeSubmissions implements store.Store.
func (c *calls) TakeSubmissions(ctx context.Context, hold time.Duration, limit int) ([]store.Submission, error) {
	return value(ctx, c, once, func() ([]store.Submission, error) { return c.Store.TakeSubmissions(ctx, hold, limit) })
}

// SettleSubmissions implements store.Store.
func (c *calls) SettleSubmissions(ctx context.Context, settlements []store.Settlement) error {
	return c.around(ctx, repeatable, func() error { return c.Store.SettleSubmissions(ctx, settlements) })
}

// Snapshot implements store.Store.
func (c *calls) Snapshot(ctx context.Context, pool, session string) (state json.RawMessage, epoch int64, err error) {
	err = c.around(ctx, once, func() (err error) {
		state, epoch, err = c.Store.Snapshot(ctx, pool, session)
		return err
	})
	return state, epoch, err
}

// PendingNotices implements store.Store.
func (c *calls) PendingNotices(ctx context.Context) (store.NoticesPending, error) {
	return value(ctx, c, once, func() (store.NoticesPending, error) { return c.Store.PendingNotices(ctx) })
}

// Webhook implements store.Store.
func (c *calls) Webhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error) {
	return value(ctx, c, repeatable, func() (messages.WebhookRecord, error) { return c.Store.Webhook(ctx, id) })
}

// DueDestinations implements store.Store.
func (c *calls) DueDestinations(ctx context.Context, after string, limit int) (store.WebhookDestinations, error) {
	return value(ctx, c, repeatable, func() (store.WebhookDestinations, error) { return c.Store.DueDestinations(ctx, after, limit) })
}

// TakeWebhooks implements store.Store.
func (c *calls) TakeWebhooks(ctx context.Context, takes []store.WebhookTake, lease time.Duration) ([]store.WebhookCall, error) {
	return value(ctx, c, once, func() ([]store.WebhookCall, error) { return c.Store.TakeWebhooks(ctx, takes, lease) })
}

// ReportWebhooks implements store.Store.
func (c *calls) ReportWebhooks(ctx context.Context, reports []store.WebhookReport) error {
	return c.around(ctx, repeatable, func() error { return c.Store.ReportWebhooks(ctx, reports) })
}

// ExpireWebhooks implements store.Store.
func (c *calls) ExpireWebhooks(ctx context.Context, age time.Duration, why string, limit int) (int, error) {
	return value(ctx, c, once, func() (int, error) { return c.Store.ExpireWebhooks(ctx, age, why, limit) })
}

// RepeatWebhook implements store.Store.
func (c *calls) RepeatWebhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error) {
	return value(ctx, c, once, func() (messages.WebhookRecord, error) { return c.Store.RepeatWebhook(ctx, id) })
}

// ListWebhooks implements store.Store.
func (c *calls) ListWebhooks(ctx context.Context, q store.WebhookQuery) ([]messages.WebhookRecord, error) {
	return value(ctx, c, repeatable, func() ([]messages.WebhookRecord, error) { return c.Store.ListWebhooks(ctx, q) })
}

// CountWebhooks implements store.Store.
func (c *calls) CountWebhooks(ctx context.Context) (store.WebhookCounts, error) {
	return value(ctx, c, repeatable, func() (store.WebhookCounts, error) { return c.Store.CountWebhooks(ctx) })
}
