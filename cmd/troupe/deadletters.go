package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/store"
)

const deadLettersPath = "/api/v1/dead-letters"

func (a *app) deadLetters() *cobra.Command {
	cmd := a.letterList("dead-letters", "List, inspect, requeue and discard dead letters")
	cmd.AddCommand(a.letterList("list", "List them, newest first; as without a verb"), a.letterShow(), a.letterRequeue(), a.letterDiscard(),
		a.letterStats())
	return cmd
}

func (a *app) letterList(use, short string) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: use, Short: short, Args: exactly(),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var v api.DeadLetterList
			if err := c.Get(ctx, fmt.Sprintf("%s?limit=%d", deadLettersPath, limit), &v); err != nil {
				return err
			}
			return a.showLetters(v, v.DeadLetters, c.Now())
		}),
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many, 1 to 1000")
	return cmd
}

func (a *app) showLetters(v any, letters []store.DeadLetter, now time.Time) error {
	rows := make([][]string, len(letters))
	for i, l := range letters {
		rows[i] = []string{fmt.Sprint(l.ID), ago(l.At, now), l.Reason, l.Resolution, idText(l.Execution), l.Action, string(l.Worker), l.Queue}
	}
	return a.show(v, []string{"ID", "AGE", "REASON", "RESOLUTION", "EXECUTION", "ACTION", "WORKER", "QUEUE"}, rows)
}

func letterPath(id, verb string) string { return deadLettersPath + "/" + url.PathEscape(id) + verb }

func (a *app) letterShow() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Show one dead letter", Args: exactly("ID"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var l store.DeadLetter
			if err := c.Get(ctx, letterPath(args[0], ""), &l); err != nil {
				return err
			}
			if err := a.showLetters(l, []store.DeadLetter{l}, c.Now()); err != nil || a.output == "json" {
				return err
			}
			_, err := fmt.Fprintf(a.out, "\nheaders %s\nbody    %s\n", visible(string(l.Headers)), visible(clipTo(string(l.Body), 4000)))
			if err == nil && l.BodyCut {
				_, err = fmt.Fprintf(a.out, "        cut: it had %d bytes, SHA-256 %s\n", l.BodySize, orNone(l.BodySHA256))
			}
			return err
		})}
}

// orNone is the text, or what says that there is none.
func orNone(text string) string {
	if text == "" {
		return "not known"
	}
	return text
}

func (a *app) letterRequeue() *cobra.Command {
	return &cobra.Command{Use: "requeue ID", Short: "Submit its execution again", Args: exactly("ID"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v form.ExecutionView
			if err := c.Post(ctx, letterPath(args[0], "/requeue"), nil, &v); err != nil {
				return err
			}
			return a.printID(v)
		})}
}

func (a *app) letterDiscard() *cobra.Command {
	return &cobra.Command{Use: "discard ID", Short: "Mark it as seen and not wanted", Args: exactly("ID"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.order(ctx, c, letterPath(args[0], "/discard"), "dead letter "+args[0]+" is discarded")
		})}
}

func (a *app) letterStats() *cobra.Command {
	hours := 0
	cmd := &cobra.Command{Use: "stats", Short: "Count dead letters by worker, action, reason and hour", Args: exactly(),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var v api.DeadLetterStats
			if err := c.Get(ctx, fmt.Sprintf("%s/stats?hours=%d", deadLettersPath, hours), &v); err != nil {
				return err
			}
			rows := make([][]string, len(v.Counts))
			for i, n := range v.Counts {
				rows[i] = []string{clock(n.Hour), string(n.Worker), n.Action, n.Reason, fmt.Sprint(n.Count)}
			}
			return a.show(v, []string{"HOUR", "WORKER", "ACTION", "REASON", "COUNT"}, rows)
		})}
	cmd.Flags().IntVar(&hours, "hours", 48, "how far back, 1 to 720")
	return cmd
}
