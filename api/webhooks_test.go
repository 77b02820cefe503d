package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

// given stores ended executions with a webhook that was given up.
func (b *backend) given(t *testing.T, n int) (ids []messages.ExecutionID) {
	t.Helper()
	for range n {
		e := messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "go", Priority: 5, CreatedBy: "n",
			Webhook: &messages.Webhook{URL: "https://hooks.example/x?token=hunter2", Secret: "billing"}}
		_, err := b.Store.Submit(t.Context(), []messages.Execution{e})
		require.NoError(t, err)
		_, err = b.Apply(t.Context(), []store.Change{&store.Cancel{ID: e.ID, By: "n"}})
		require.NoError(t, err)
		calls, err := b.TakeWebhooks(t.Context(), []store.WebhookTake{{Destination: webhook.Of("hooks.example:443", "n"), Limit: 1}}, 0)
		require.NoError(t, err)
		require.Len(t, calls, 1)
		require.NoError(t, b.ReportWebhooks(t.Context(), []store.WebhookReport{{Execution: e.ID, Claim: calls[0].Claim, State: messages.WebhookGivenUp, Tries: 1, Code: 410, Error: "gone"}}))
		ids = append(ids, e.ID)
	}
	return ids
}

// Why a call got no answer would tell whoever submits which names there are in the node's network, and what listens.
func TestWhoOnlySubmitsIsNotToldWhyThereWasNoAnswer(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b, Access: withTokens(t, []Token{
		{Name: "n", Secret: submitToken, Scopes: []Scope{ScopeSubmit}}, {Name: "reader", Secret: readToken, Scopes: []Scope{ScopeRead}},
	})})
	for stored, shown := range map[string]string{
		"no answer: the host's name cannot be looked up":                "no answer",
		"given up after 3 tries: no answer: the connection was refused": "given up after 3 tries: no answer",
		"answered 500":            "answered 500",
		"not signed, so not sent": "not signed, so not sent",
	} {
		id := b.given(t, 1)[0]
		require.NoError(t, b.fails(id, stored))
		one := executionsPath + "/" + id.String()
		for token, want := range map[string]string{submitToken: shown, readToken: stored} {
			e := read[form.ExecutionView](t, ask(t, h, "GET", one, "", "Authorization", "Bearer "+token), 200)
			require.Equal(t, want, e.Webhook.Error)
		}
	}
}

// fails stores that another call of a webhook failed.
func (b *backend) fails(id messages.ExecutionID, why string) error {
	if _, err := b.Store.RepeatWebhook(context.Background(), id); err != nil {
		return err
	}
	calls, err := b.TakeWebhooks(context.Background(), []store.WebhookTake{{Destination: webhook.Of("hooks.example:443", "n"), Limit: 1}}, 0)
	if err != nil || len(calls) != 1 {
		return fmt.Errorf("%d calls: %w", len(calls), err)
	}
	return b.ReportWebhooks(context.Background(), []store.WebhookReport{{Execution: id, Claim: calls[0].Claim, State: messages.WebhookGivenUp, Tries: 1, Error: why}})
}

func TestWebhooksAreListedAndCalledAgain(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	ids := b.given(t, 3)
	h := New(Config{Backend: b})
	var seen []messages.ExecutionID
	for cursor := ""; ; {
		page := read[WebhookList](t, ask(t, h, "GET", "/api/v1/webhooks?limit=2&cursor="+cursor, ""), 200)
		for _, w := range page.Webhooks {
			require.Equal(t, "https://hooks.example/x?…", w.URL)
			seen = append(seen, w.Execution)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	require.Equal(t, ids, seen)
	var times []string
	for _, w := range read[WebhookList](t, ask(t, h, "GET", "/api/v1/webhooks", ""), 200).Webhooks {
		times = append(times, w.Since.Format(time.RFC3339Nano))
	}
	within := read[WebhookList](t, ask(t, h, "GET", "/api/v1/webhooks?from="+times[1]+"&to="+times[2], ""), 200).Webhooks
	require.Len(t, within, 1)
	require.Equal(t, ids[1], within[0].Execution)
	refused(t, ask(t, h, "GET", "/api/v1/webhooks?to=x", ""), 400, messages.CodeInvalidRequest, "to must be a time")
	one := executionsPath + "/" + ids[0].String()
	e := read[form.ExecutionView](t, ask(t, h, "GET", one, ""), 200)
	require.Equal(t, messages.WebhookGivenUp, e.Webhook.State)
	require.Equal(t, "gone", e.Webhook.Error)
	require.Equal(t, messages.WebhookDue, read[form.WebhookView](t, ask(t, h, "POST", one+"/webhook/retry", ""), 200).State)
	require.Len(t, read[WebhookList](t, ask(t, h, "GET", "/api/v1/webhooks?state=due", ""), 200).Webhooks, 1)
	refused(t, ask(t, h, "GET", "/api/v1/webhooks?state=told", ""), 400, messages.CodeInvalidRequest, "due or given_up")
	refused(t, ask(t, h, "GET", "/api/v1/webhooks?cursor=x", ""), 400, messages.CodeInvalidRequest, "cursor")
	refused(t, ask(t, h, "POST", executionsPath+"/"+messages.NewExecutionID().String()+"/webhook/retry", ""), 404, messages.CodeNotFound, "execution")
}
