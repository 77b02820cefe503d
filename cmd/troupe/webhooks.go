package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
)

// webhookCalls has the verbs for webhooks.
type webhookCalls struct{ *app }

func (w webhookCalls) command() *cobra.Command {
	var state, since, until string
	limit := 0
	cmd := &cobra.Command{
		Use: "webhooks", Short: "List webhooks that were given up or are due, and call one again", Args: exactly(),
		Long: "List the webhooks that were given up, the oldest first, with the reason; with --state due, those that are to be called.\n" +
			"--since and --until choose by when they became due. `troupe get ID` shows the webhook of one execution.",
		RunE: w.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			query := url.Values{"state": {state}, "limit": {strconv.Itoa(limit)}}
			span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
			if err != nil {
				return err
			}
			span.ask(query)
			var v api.WebhookList
			if err := c.Get(ctx, "/api/v1/webhooks?"+query.Encode(), &v); err != nil {
				return err
			}
			if err := w.showAll(v, v.Webhooks, c.Now()); err != nil {
				return err
			}
			w.sayMore(len(v.Webhooks), v.NextCursor != "")
			return nil
		}),
	}
	cmd.Flags().StringVar(&state, "state", "given_up", "given_up or due")
	cmd.Flags().StringVar(&since, "since", "", "only those that became due at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	cmd.Flags().StringVar(&until, "until", "", "only those that became due before this time: a time or an age")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many, 1 to 1000")
	cmd.AddCommand(w.retry())
	return cmd
}

func (w webhookCalls) showAll(v any, hooks []form.WebhookView, now time.Time) error {
	rows := make([][]string, len(hooks))
	for i, h := range hooks {
		rows[i] = []string{idText(h.Execution), h.State.String(), fmt.Sprint(h.Tries), ago(h.Since, now), h.URL, h.Error}
	}
	return w.show(v, []string{"EXECUTION", "STATE", "TRIES", "SINCE", "URL", "LAST ERROR"}, rows)
}

// webhookText says who is told of an outcome, and how far that is.
func webhookText(h *form.WebhookView) string {
	text := h.URL + ", " + h.State.String()
	if h.Tries > 0 {
		text += fmt.Sprintf(", tries: %d", h.Tries)
	}
	if h.Error != "" {
		text += ", " + h.Error
	}
	if !h.NextAt.IsZero() && h.Tries > 0 {
		text += ", next at " + clock(h.NextAt)
	}
	return text
}

func (w webhookCalls) retry() *cobra.Command {
	return &cobra.Command{Use: "retry ID", Short: "Call the webhook of an execution again that was told or given up", Args: exactly("ID"),
		RunE: w.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v form.WebhookView
			if err := c.Post(ctx, "/api/v1/executions/"+url.PathEscape(args[0])+"/webhook/retry", nil, &v); err != nil {
				return err
			}
			return w.showAll(v, []form.WebhookView{v}, c.Now())
		})}
}
