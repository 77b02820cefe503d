package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
)

// findings has the verb for what is wrong.
type findings struct{ *app }

func (f findings) command() *cobra.Command {
	return &cobra.Command{
		Use: "findings", Short: "Show what is wrong now, since when, and what to do", Args: exactly(),
		Long: "Show what is wrong now, by the rules of the alerts that docs/alerts.md lists, with the numbers of all nodes. The node judges the rules\n" +
			"every 15 seconds. Since is when the node that is asked has seen it first: it knows nothing from before its start, and says so\n" +
			"as long as that matters to a rule.",
		Example: "  troupe findings\n  troupe findings -o json | jq '.findings[].name'",
		RunE: f.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var v api.Findings
			if err := c.Get(ctx, "/api/v1/findings", &v); err != nil {
				return err
			}
			if f.output == "json" {
				return f.printJSON(v)
			}
			now, err := c.NodeTime(ctx)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(f.out, findingsText(&v, now))
			return err
		}),
	}
}

// findingsText is the findings one below the other, and what keeps the node from a full judgement.
func findingsText(v *api.Findings, now time.Time) string {
	var b strings.Builder
	for i := range v.Findings {
		one := &v.Findings[i]
		fmt.Fprintf(&b, "%s %s for %s, since %s\n", strings.ToUpper(visible(string(one.Severity))), visible(one.Name), short(max(0, now.Sub(one.Since))), clock(one.Since))
		for _, line := range []string{one.Message + ".", one.Means, "What to do: " + one.Do, "See " + one.Link} {
			fmt.Fprintf(&b, "  %s\n", visible(line))
		}
		b.WriteByte('\n')
	}
	switch {
	case v.At.IsZero():
		b.WriteString("The node has just started and has not judged the rules yet.\n")
	case len(v.Findings) == 0:
		fmt.Fprintf(&b, "No rule finds anything wrong at %s.\n", clock(v.At))
	default:
		fmt.Fprintf(&b, "Judged at %s.\n", clock(v.At))
	}
	if len(v.Partly) > 0 {
		fmt.Fprintf(&b, "This node judges since %s: it started then. Rules that look further back, by which a node that has run for longer may find more: %s.\n",
			clock(v.Since), visible(strings.Join(v.Partly, ", ")))
	}
	if len(v.Unknown) > 0 {
		fmt.Fprintf(&b, "Not evaluated, because no node has their numbers: %s.\n", visible(strings.Join(v.Unknown, ", ")))
	}
	for _, u := range v.Unreached {
		fmt.Fprintf(&b, "Without the numbers of node %s: %s.\n", visible(u.Node), visible(u.Why))
	}
	return b.String()
}
