package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/rollup"
)

// ledger has the verb that says whether an execution is missing.
type ledger struct{ *app }

func (l ledger) command() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use: "ledger", Short: "Show what became of the executions of a time, and whether any is missing", Args: exactly(),
		Long: "Show how the executions ended that were requested in a time, such as that of a deployment, how many are open, and how many have ended and\n" +
			"were deleted by retention (purged). Together they must be as many as the nodes counted when they stored them. The command exits with 1\n" +
			"where one is missing.\n" +
			"Nodes count by minute, so the time begins and ends with one.",
		Example: "  troupe ledger\n  troupe ledger --since 2030-01-31T08:00:00Z --until 2030-01-31T08:10:00Z",
	}
	cmd.Flags().StringVar(&since, "since", "1h", "from this minute on: a time (2030-01-31T08:00:00Z) or an age (2h)")
	cmd.Flags().StringVar(&until, "until", "", "up to the end of this minute: a time or an age; now where left out")
	cmd.RunE = l.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		query := url.Values{}
		span.ask(query)
		var v rollup.Ledger
		if err := c.Get(ctx, "/api/v1/ledger?"+query.Encode(), &v); err != nil {
			return err
		}
		if err := l.show(v, []string{"EXECUTIONS", "N"}, ledgerRows(&v)); err != nil {
			return err
		}
		if l.output != "json" {
			l.verdict(&v)
		}
		if !v.AddsUp {
			return fmt.Errorf("%d executions are missing that a node has stored", v.Missing)
		}
		return nil
	})
	return cmd
}

// verdict prints what the table means.
func (l ledger) verdict(v *rollup.Ledger) {
	_, _ = fmt.Fprintf(l.out, "\nRequested from %s to %s. ", clock(v.From), clock(v.To))
	switch {
	case !v.AddsUp:
		_, _ = fmt.Fprintln(l.out, "It does not add up.")
	case v.Rest != nil && v.To.Equal(v.From):
		_, _ = fmt.Fprintln(l.out, "Nothing is compared.")
	default:
		_, _ = fmt.Fprintln(l.out, "It adds up: none is missing.")
	}
	if v.Rest != nil {
		_, _ = fmt.Fprintf(l.out, "Not compared, because more are not counted at once: about %d that were submitted from %s to %s, by the nodes' counts.\n",
			v.Rest.Submitted, clock(v.Rest.From), clock(v.Rest.To))
	}
	if !v.Until.IsZero() {
		_, _ = fmt.Fprintf(l.out, "Ask again with --since %s.\n", v.Until.UTC().Format(time.RFC3339))
	}
	for _, note := range v.Notes {
		_, _ = fmt.Fprintln(l.out, "Note: "+note+".")
	}
}

// ledgerRows are the accepted ones, what became of them, and what is known of them beside that.
func ledgerRows(v *rollup.Ledger) [][]string {
	row := func(what string, n any) []string { return []string{what, fmt.Sprint(n)} }
	rows := [][]string{row("accepted", v.Accepted)}
	for _, list := range [][]rollup.StatusCount{v.Ended, v.Open} {
		for _, s := range list {
			rows = append(rows, row("  "+s.Status.String(), s.N))
		}
	}
	rows = append(rows, row("  purged", v.PurgedText()), row("counted by nodes", v.Counted), row("missing", v.Missing))
	for _, also := range []struct {
		what string
		n    int64
	}{{"retries of others", v.Retries}, {"interrupted by a worker's end", v.Repeated}, {"taken back, not claimed since", v.TakenBack}, {"told of lost state", v.StateLost},
		{"times that a session's state was restored", v.Restored.N}, {"runs that met a session's lost state", v.Lost.N}} {
		if also.n > 0 {
			rows = append(rows, row(also.what, also.n))
		}
	}
	return rows
}
