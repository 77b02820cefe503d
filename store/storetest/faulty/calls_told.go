package faulty

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// SaveDeadLetter implements store.Store.
func (c *calls) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	return value(ctx, c, d.Key != "", func() (int64, error) { return c.Store.SaveDeadLetter(ctx, d) })
}

// SaveLateFailure implements store.Store.
func (c *calls) SaveLateFailure(ctx context.Context, f store.LateFailure) error {
	_, err := value(ctx, c, once, func() (struct{}, error) { return struct{}{}, c.Store.SaveLateFailure(ctx, f) })
	return err
}

// DeadLettersOf implements store.Store.
func (c *calls) DeadLettersOf(ctx context.Context, id messages.ExecutionID, limit int) ([]store.DeadLetter, error) {
	return value(ctx, c, once, func() ([]store.DeadLetter, error) { return c.Store.DeadLettersOf(ctx, id, limit) })
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
