package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

// WebhookList answers a list of webhooks.
type WebhookList struct {
	Webhooks   []form.WebhookView `json:"webhooks"`
	NextCursor string             `json:"next_cursor,omitempty"`
}

func webhookRoutes() []*route {
	return []*route{
		{method: "GET", path: "/api/v1/webhooks", scope: ScopeRead, group: "webhooks",
			params: []param{{name: "state", kind: "string", help: "due or given_up; given_up where left out."},
				{name: "from", kind: "string", help: "Only those that became due at this time or later, as 2030-01-31T08:00:00Z."},
				{name: "to", kind: "string", help: "Only those that became due before this time."}, limitParam, cursorParam},
			summary: "The webhooks that are due or were given up, the oldest first.", result: WebhookList{}, handle: (*server).webhooks},
		{method: "POST", path: "/api/v1/executions/{id}/webhook/retry", scope: ScopeOperate, own: true, group: "webhooks",
			summary: "Call the webhook of an execution again that was told or given up.", result: form.WebhookView{}, handle: (*server).repeatWebhook},
	}
}

func (s *server) webhooks(c *call) error {
	limit, err := c.query.number("limit", 1, 1000, 100)
	if err != nil {
		return err
	}
	q := store.WebhookQuery{State: messages.WebhookGivenUp, Limit: limit}
	if text := c.query.text("state"); text != "" {
		state, ok := messages.ParseWebhookState(text)
		if !ok || state != messages.WebhookDue && state != messages.WebhookGivenUp {
			return invalid("state must be due or given_up, got %q", clip(text))
		}
		q.State = state
	}
	if q.From, q.To, err = c.query.times(); err != nil {
		return err
	}
	if q.After, err = webhookCursor(c.query.text("cursor")); err != nil {
		return err
	}
	found, err := s.Backend.Webhooks(c.r.Context(), q)
	if err != nil {
		return err
	}
	view := WebhookList{Webhooks: make([]form.WebhookView, len(found))}
	for i := range found {
		view.Webhooks[i] = form.ViewWebhook(&found[i])
	}
	if len(found) == limit {
		last := found[limit-1]
		view.NextCursor = last.Since.Format(time.RFC3339Nano) + "_" + last.Execution.String()
	}
	return writeJSON(c.w, http.StatusOK, &view)
}

// webhookCursor reads the cursor of a page.
func webhookCursor(text string) (after messages.WebhookRecord, err error) {
	if text == "" {
		return after, nil
	}
	at, id, _ := strings.Cut(text, "_")
	if after.Since, err = time.Parse(time.RFC3339Nano, at); err == nil {
		after.Execution, err = messages.ParseExecutionID(id)
	}
	if err != nil {
		return after, invalid("cursor %q is none that this list has given", clip(text))
	}
	return after, nil
}

func (s *server) repeatWebhook(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		r, err := s.Backend.RepeatWebhook(c.r.Context(), id)
		if err != nil {
			return nil, err
		}
		view := c.viewWebhook(&r)
		return &view, nil
	})
}

// withWebhook adds to a view who is told of the outcome. The execution is shown without it where that cannot be read.
func (s *server) withWebhook(c *call, e *messages.Execution, to *form.ExecutionView) {
	if !e.Hooked {
		return
	}
	if r, err := s.Backend.Webhook(c.r.Context(), e.ID); err == nil {
		view := c.viewWebhook(&r)
		to.Webhook = &view
	}
}

// viewWebhook shows a webhook. Why there was no answer is for those who may read what is of others: to whoever submits, it would tell
// which names exist in the node's network, and what listens there.
func (c *call) viewWebhook(r *messages.WebhookRecord) form.WebhookView {
	view := form.ViewWebhook(r)
	if before, _, found := strings.Cut(view.Error, webhook.NoAnswer); found && c.blind {
		view.Error = before + webhook.NoAnswer
	}
	return view
}
