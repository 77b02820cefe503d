package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/failures"
)

// errors is the verb that groups what failed.
func (x executions) errors() *cobra.Command {
	given := map[string]*string{}
	var since, until string
	limit := 0
	cmd := &cobra.Command{
		Use: "errors", Short: "Show what failed, grouped by what it has in common", Args: exactly(),
		Long: "Show what failed within a time, the last hour where none is given. Executions of one group have the action, the code, the type and the\n" +
			"message in common, without numbers, ids and quoted texts; or what --by says. The node looks at up to 20,000 executions, for a second,\n" +
			"and the last line says so where that was not all.",
		Example: "  troupe errors --since 2h\n  troupe errors --by worker --pool python\n  troupe errors --action mypack.embed -o json",
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "what failed at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	f.StringVar(&until, "until", "", "what failed before this time: a time or an age")
	for name, help := range map[string]string{
		"by": "what a group has in common: message, code, action or worker", "action": "only this action", "pool": "only this pool", "worker": "only this worker",
		"session": "only this session", "error": "only this error code",
	} {
		given[name] = f.String(name, "", help)
	}
	f.IntVarP(&limit, "limit", "n", 50, "how many groups, 1 to 200")
	cmd.RunE = x.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		span.ask(query)
		for name, value := range given {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		var v api.ErrorGroups
		if err := c.Get(ctx, "/api/v1/errors?"+query.Encode(), &v); err != nil {
			return err
		}
		if err := x.show(v, []string{"COUNT", "FIRST", "LAST", "ACTION", "CODE", "WORKERS", "EXAMPLE", "MESSAGE"}, errorRows(v.Groups)); err != nil || x.output == "json" {
			return err
		}
		return x.sayLeft(&v)
	})
	return cmd
}

func errorRows(groups []*failures.Group) [][]string {
	rows := make([][]string, len(groups))
	for i, g := range groups {
		example := ""
		if len(g.Examples) > 0 {
			example = g.Examples[0].String()
		}
		rows[i] = []string{
			strconv.Itoa(g.N), clock(g.First), clock(g.Last), or(g.Action, sharesText(g.Actions)), or(string(g.Code), sharesText(g.Codes)),
			or(g.Worker, sharesText(g.Workers)), example, or(g.Message, g.Example),
		}
	}
	return rows
}

// sharesText is the most frequent values, each with its count.
func sharesText(shares []failures.Share) string {
	texts := make([]string, len(shares))
	for i, s := range shares {
		texts[i] = fmt.Sprintf("%s ×%d", s.Value, s.N)
	}
	return strings.Join(texts, ", ")
}

// sayLeft says what the table does not have.
func (x executions) sayLeft(v *api.ErrorGroups) error {
	if v.Left > 0 {
		if _, err := fmt.Fprintf(x.out, "%d more groups: -n shows them\n", v.Left); err != nil {
			return err
		}
	}
	if v.SearchedTo == nil {
		return nil
	}
	_, err := fmt.Fprintf(x.out, "looked at %d executions, back to what was requested at %s; there may be more: give a shorter time\n", v.SearchedTo.Walked, clock(v.SearchedTo.At))
	return err
}
