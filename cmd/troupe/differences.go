package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/differences"
)

// different has the verb that compares a time with the one before.
type different struct{ *app }

func (d different) command() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use: "differences", Short: "Show what is different in a time from the same length before it", Args: exactly(),
		Long: "Compare a time, the last hour where none is given, with the same length before it, and show what is different, the weightiest first:\n" +
			"errors that are new or more frequent, actions that fail more or run longer, versions, pools where work waits, workers in trouble,\n" +
			"nodes that came and went, servers that were away, and commands of operators such as reload. Times marked ≈ are within 19 %.",
		Example: "  troupe differences\n  troupe differences --since 2030-01-31T03:00:00Z --until 2030-01-31T03:30:00Z\n  troupe differences --since 24h -o json",
	}
	cmd.Flags().StringVar(&since, "since", "1h", "from this minute on: a time (2030-01-31T08:00:00Z) or an age (2h)")
	cmd.Flags().StringVar(&until, "until", "", "up to the end of this minute: a time or an age; now where left out")
	cmd.RunE = d.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		query := url.Values{}
		span.ask(query)
		var v differences.Differences
		if err := c.Get(ctx, "/api/v1/differences?"+query.Encode(), &v); err != nil {
			return err
		}
		if err := d.show(v, []string{"WHAT", "VALUE", "BEFORE"}, differenceRows(v.Found)); err != nil || d.output == "json" {
			return err
		}
		return d.compared(&v)
	})
	return cmd
}

// compared prints which times the figures are of, and what they lack.
func (d different) compared(v *differences.Differences) error {
	text := fmt.Sprintf("\nFrom %s to %s, before from %s. Counts are known up to %s.\n", clock(v.From), clock(v.To), clock(v.Before), clock(v.Until))
	if v.Left > 0 {
		text += fmt.Sprintf("%d lighter differences are left out.\n", v.Left)
	}
	for _, note := range v.Notes {
		text += "Note: " + visible(note) + ".\n"
	}
	_, err := fmt.Fprint(d.out, text)
	return err
}

func differenceRows(list []differences.Difference) [][]string {
	rows := make([][]string, len(list))
	for i := range list {
		f := &list[i]
		rows[i] = []string{f.Text, figure(f.Unit, f.Value), figure(f.Unit, f.Before)}
	}
	return rows
}

// figure is a figure with its unit.
func figure(unit differences.Unit, value float64) string {
	switch unit {
	case differences.Share:
		return strconv.FormatFloat(100*value, 'f', 1, 64) + " %"
	case differences.Millis:
		return about(value)
	case differences.Seconds:
		return short(time.Duration(value * float64(time.Second)))
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
