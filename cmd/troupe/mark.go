package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
)

// mark is the verb that names a moment in the journal.
type mark struct{ *app }

func (m mark) command() *cobra.Command {
	var labels []string
	at := ""
	cmd := &cobra.Command{
		Use: "mark NAME", Short: "Mark a moment in the journal, such as a deployment", Args: exactly("NAME"),
		Example: "  troupe mark \"deploy 1.4.2\" --label commit=4f3988a\n  troupe mark \"load test\" --at 2h",
	}
	cmd.Flags().StringArrayVar(&labels, "label", nil, "a label, name=value; repeat it for several")
	cmd.Flags().StringVar(&at, "at", "", "when: a time (2030-01-31T08:00:00Z) or an age (2h); now where left out")
	cmd.RunE = m.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		moment, err := parseBack("--at", at, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		body := api.MarkBody{Name: args[0], At: moment}
		for _, text := range labels {
			key, value, ok := strings.Cut(text, "=")
			if !ok {
				return usagef("--label must be name=value, got %q", text)
			}
			if body.Labels == nil {
				body.Labels = map[string]string{}
			}
			body.Labels[key] = value
		}
		var made api.MarkView
		if err := c.Post(ctx, "/api/v1/marks", body, &made); err != nil {
			return err
		}
		return m.show(made, []string{"AT", "MARK", "BY"}, [][]string{{clock(made.At), made.Subject, made.Caller}})
	})
	return cmd
}
