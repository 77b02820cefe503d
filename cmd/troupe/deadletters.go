package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/store"
)

const deadLettersPath = "/api/v1/dead-letters"

// deadLetters has the verbs for them.
type deadLetters struct{ *app }

func (d deadLetters) command() *cobra.Command {
	cmd := d.list("dead-letters", "List, inspect, requeue and discard dead letters")
	cmd.AddCommand(d.list("list", "List them, newest first; as without a verb"), d.one(), d.requeue(), d.discard(),
		d.stats())
	return cmd
}

func (d deadLetters) list(use, short string) *cobra.Command {
	limit, wants := 0, newWantedLetters()
	cmd := &cobra.Command{
		Use: use, Short: short, Args: exactly(),
		RunE: d.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			query, _, err := wants.query(ctx, c)
			if err != nil {
				return err
			}
			query.Set("limit", fmt.Sprint(limit))
			var v api.DeadLetterList
			if err := c.Get(ctx, deadLettersPath+"?"+query.Encode(), &v); err != nil {
				return err
			}
			if err := d.showAll(v, v.DeadLetters, c.Now()); err != nil || d.output == "json" {
				return err
			}
			if v.More != store.MoreUnsearched || v.SearchedTo == nil {
				d.sayMore(len(v.DeadLetters), v.NextCursor != "")
				return nil
			}
			_, err = fmt.Fprintf(d.out, "looked at %d dead letters, back to %s; there may be more: give a shorter time with --until\n", v.SearchedTo.Walked, clock(v.SearchedTo.At))
			return err
		}),
	}
	f := cmd.Flags()
	f.IntVarP(&limit, "limit", "n", 50, "how many, 1 to 1000")
	wants.flags(f, "reason")
	return cmd
}

// wantedLetters is which dead letters a verb is about, as its flags say.
type wantedLetters struct {
	since, until string
	given        map[string]*[]string // by the name of the API's parameter
	without      unwanted
}

func newWantedLetters() *wantedLetters {
	return &wantedLetters{given: map[string]*[]string{}, without: unwanted{}}
}

// flags makes a flag for each parameter. Reason is the name of the one for the reason.
func (w *wantedLetters) flags(f *pflag.FlagSet, reason string) {
	f.StringVar(&w.since, "since", "", "only those of this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	f.StringVar(&w.until, "until", "", "only those before this time: a time or an age")
	const several = "; repeat it for one of several"
	w.given["reason"] = f.StringArray(reason, nil, "only with this reason, such as expired"+several)
	w.given["resolution"] = f.StringArray("resolution", nil, "only with this resolution, such as requeued"+several)
	w.given["worker"] = f.StringArray("worker", nil, "only of this worker's queue"+several)
	w.given["action"] = f.StringArray("action", nil, "only of this action"+several)
	w.without["reason"] = f.StringArray("not-"+reason, nil, "leave out these reasons; repeat it for several")
	w.without.flags(f, map[string]string{"resolution": "resolutions", "worker": "workers", "action": "actions"})
}

// query is the filter as parameters of the API. An age is counted back from the node's time.
func (w *wantedLetters) query(ctx context.Context, c *client.Client) (url.Values, span, error) {
	query := url.Values{}
	for name, values := range w.given {
		if len(*values) > 0 {
			query[name] = *values
		}
	}
	w.without.ask(query)
	span, err := newSpan(w.since, w.until, func() (time.Time, error) { return c.NodeTime(ctx) })
	span.ask(query)
	return query, span, err
}

func (d deadLetters) showAll(v any, letters []api.DeadLetterView, now time.Time) error {
	rows := make([][]string, len(letters))
	for i, l := range letters {
		became := l.Resolution
		if l.Gone {
			became = joined(became, "its execution is not stored")
		}
		rows[i] = []string{fmt.Sprint(l.ID), ago(l.At, now), l.Reason, became, idText(l.Execution), l.Action, string(l.Worker), l.Queue}
	}
	return d.show(v, []string{"ID", "AGE", "REASON", "RESOLUTION", "EXECUTION", "ACTION", "WORKER", "QUEUE"}, rows)
}

func letterPath(id, verb string) string { return deadLettersPath + "/" + url.PathEscape(id) + verb }

func (d deadLetters) one() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Show one dead letter", Args: exactly("ID"),
		RunE: d.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var l api.DeadLetterView
			if err := c.Get(ctx, letterPath(args[0], ""), &l); err != nil {
				return err
			}
			if err := d.showAll(l, []api.DeadLetterView{l}, c.Now()); err != nil || d.output == "json" {
				return err
			}
			if l.Means != "" {
				if _, err := fmt.Fprintf(d.out, "\nIt means: %s\nWhat to do: %s\n", visible(l.Means), visible(l.WhatToDo)); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(d.out, "\nheaders %s\nbody    %s\n", visible(string(l.Headers)), visible(clipTo(string(l.Body), 4000)))
			if err == nil && l.BodyCut {
				_, err = fmt.Fprintf(d.out, "        cut: it had %d bytes, SHA-256 %s\n", l.BodySize, orNone(l.BodySHA256))
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

func (d deadLetters) requeue() *cobra.Command {
	return d.reasoned(&cobra.Command{Use: "requeue ID", Short: "Submit its execution again", Args: exactly("ID"),
		RunE: d.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v form.ExecutionView
			if err := c.Post(ctx, letterPath(args[0], "/requeue"), d.why(), &v); err != nil {
				return err
			}
			return d.printID(v)
		})})
}

func (d deadLetters) discard() *cobra.Command {
	return d.reasoned(&cobra.Command{Use: "discard ID", Short: "Mark it as handled, without a new execution", Args: exactly("ID"),
		RunE: d.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return d.order(ctx, c, letterPath(args[0], "/discard"), "dead letter "+args[0]+" is discarded")
		})})
}

func (d deadLetters) stats() *cobra.Command {
	hours := 0
	cmd := &cobra.Command{Use: "stats", Short: "Count dead letters by worker, action, reason and hour", Args: exactly(),
		RunE: d.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var v api.DeadLetterStats
			if err := c.Get(ctx, fmt.Sprintf("%s/stats?hours=%d", deadLettersPath, hours), &v); err != nil {
				return err
			}
			rows := make([][]string, len(v.Counts))
			for i, n := range v.Counts {
				rows[i] = []string{clock(n.Hour), string(n.Worker), n.Action, n.Reason, fmt.Sprint(n.Count)}
			}
			return d.show(v, []string{"HOUR", "WORKER", "ACTION", "REASON", "COUNT"}, rows)
		})}
	cmd.Flags().IntVar(&hours, "hours", 48, "how far back, 1 to 720")
	return cmd
}
