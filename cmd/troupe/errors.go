package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/failures"
)

// errors is the verb that groups what failed.
func (x executions) errors() *cobra.Command {
	wants, by := newWanted(), ""
	limit := 0
	cmd := &cobra.Command{
		Use: "errors", Short: "Show what failed, grouped by what it has in common", Args: exactly(),
		Long: "Show what failed within a time, the last hour where none is given. Executions of one group have the action, the code, the type and the\n" +
			"message in common, without numbers, ids and quoted texts; or what --by says. The node looks at up to 20,000 executions, for 60 ms,\n" +
			"and the last line says so where that was not all.",
		Example: "  troupe errors --since 2h\n  troupe errors --by worker --pool python\n  troupe errors --action mypack.embed -o json",
	}
	f := cmd.Flags()
	wants.flags(f)
	f.Lookup("since").Usage = "what failed at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)"
	f.Lookup("until").Usage = "what failed before this time: a time or an age"
	f.Lookup("status").Usage = "only these of failed, timed_out and abandoned"
	f.StringVar(&by, "by", "", "what a group has in common: message, code, action or worker")
	f.IntVarP(&limit, "limit", "n", 50, "how many groups, 1 to 200")
	cmd.RunE = x.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		query, _, err := wants.query(ctx, c)
		if err != nil {
			return err
		}
		query.Set("limit", strconv.Itoa(limit))
		if by != "" {
			query.Set("by", by)
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
	if !v.KeptFrom.IsZero() {
		if _, err := fmt.Fprintf(x.out, "what failed before %s is deleted by its retention; `troupe series` still counts it\n", clock(v.KeptFrom)); err != nil {
			return err
		}
	}
	if v.SearchedTo == nil {
		return nil
	}
	_, err := fmt.Fprintf(x.out, "looked at %d executions, back to what was requested at %s; there may be more: give a shorter time\n", v.SearchedTo.Walked, clock(v.SearchedTo.At))
	return err
}
