package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
)

// Webhooks is the part of the store that holds who is told of outcomes by HTTP. A submission with a Webhook stores a row for it, which
// waits. The transaction that gives the outcome makes the row due, or passes it. A retry has a row of its own, with the same address.
// Nodes take up rows that are due: a taken row is due again after the lease, so a call is repeated whose node has died.
type Webhooks interface {
	// Webhook returns the webhook of an execution, or ErrNotFound.
	Webhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error)
	// DueDestinations looks at destinations in order of their names, after the given one, limit at most, and returns those with a
	// row that is due now.
	DueDestinations(ctx context.Context, after string, limit int) (WebhookDestinations, error)
	// TakeWebhooks takes up rows that are due, oldest first, and returns them with their executions. Each is the taker's until
	// the lease ends or it is reported. Two takers never get the same row. A row whose execution is gone is deleted.
	TakeWebhooks(ctx context.Context, takes []WebhookTake, lease time.Duration) ([]WebhookCall, error)
	// ReportWebhooks writes what became of taken rows. A report of a row that another node has taken since has no effect.
	ReportWebhooks(ctx context.Context, reports []WebhookReport) error
	// ExpireWebhooks gives up rows that have been due for longer than age, limit at most, and returns how many.
	ExpireWebhooks(ctx context.Context, age time.Duration, why string, limit int) (int, error)
	// RepeatWebhook makes a row due again that was told or given up, as if its execution had ended now. ErrNotFound: there is
	// none. ErrInvalid: its execution has not ended, it was passed, or it is due.
	RepeatWebhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error)
	// ListWebhooks returns rows that are due or given up, by the time since when they are due, from the cursor on.
	ListWebhooks(ctx context.Context, q WebhookQuery) ([]messages.WebhookRecord, error)
	// CountWebhooks counts rows that are due and those that were given up, up to WebhookCountMax of each.
	CountWebhooks(ctx context.Context) (WebhookCounts, error)
}

// WebhookDestinations is a page of destinations.
type WebhookDestinations struct {
	Due  []string
	Next string // where the next page continues; empty: this was the last
}

// WebhookTake asks for rows of one destination.
type WebhookTake struct {
	Destination string
	Limit       int
}

// WebhookCall is a row that was taken, with its execution: with its result, unless that is longer than a notice holds, and without
// parameters.
type WebhookCall struct {
	messages.WebhookRecord
	Of        messages.Execution
	Truncated bool          // the result was left out
	Age       time.Duration // since it became due
}

// WebhookReport is what became of a taken row: told, given up, or due again after a time.
type WebhookReport struct {
	Execution messages.ExecutionID
	Claim     int64
	State     messages.WebhookState
	After     time.Duration // of due
	Tries     int           // including this one
	Code      int
	Error     string
}

// WebhookQuery asks for rows in one state: due or given up.
type WebhookQuery struct {
	State    messages.WebhookState
	After    messages.WebhookRecord // its Since and Execution are the cursor; zero: from the oldest
	From, To time.Time              // those that are due since From or later, and since before To; zero: all
	Limit    int                    // 1 to 1,000; 0: 100
}

// Begin is the position behind which the rows follow: the cursor, or where From begins, whichever is later.
func (q *WebhookQuery) Begin() messages.WebhookRecord {
	if q.From.After(q.After.Since) {
		return messages.WebhookRecord{Since: q.From}
	}
	return q.After
}

// WebhookCounts says how many outcomes are not told.
type WebhookCounts struct {
	Due     int
	Late    time.Duration // how long the oldest that is due has been so; 0: none is
	GivenUp int
}

// WebhookCountMax bounds each count of CountWebhooks.
const WebhookCountMax = 10_000

// WebhookErrorMax bounds the reason that is kept of a failed try, in bytes.
const WebhookErrorMax = 512

// checkWebhook says why an execution's webhook cannot be stored, or nil.
func checkWebhook(w *messages.Webhook) error {
	if w == nil {
		return nil
	}
	if len(w.Secret) > messages.WebhookSecretMax {
		return fmt.Errorf("webhook: %w: the name of its secret may have %d bytes, got %d", ErrInvalid, messages.WebhookSecretMax, len(w.Secret))
	}
	_, err := WebhookDestination(w, "")
	return err
}

// WebhookDestination returns by what the calls of a webhook are bounded: the host and port of its address, and who submitted.
func WebhookDestination(w *messages.Webhook, createdBy string) (string, error) {
	t, err := webhook.Parse(w.URL)
	if err != nil {
		return "", fmt.Errorf("webhook: %w: %w", ErrInvalid, err)
	}
	return webhook.Of(t.Destination(), createdBy), nil
}

// WebhookReason bounds the reason of a failed try.
func WebhookReason(text string) string {
	if len(text) > WebhookErrorMax {
		text = text[:WebhookErrorMax]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// RepeatRefused says why a webhook cannot be made due again, or nil.
func RepeatRefused(r *messages.WebhookRecord) error {
	if r.State == messages.WebhookTold || r.State == messages.WebhookGivenUp {
		return nil
	}
	return fmt.Errorf("webhook of execution %s: %w: it is %s, and only one that was told or given up can be sent again", r.Execution, ErrInvalid, r.State)
}
