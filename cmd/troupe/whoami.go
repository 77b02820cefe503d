package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
)

// whoami has the verb for who the caller is.
type whoami struct{ *app }

func (w whoami) command() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show who you are to the node, and what you may do", Args: exactly(),
		Long: "Show who you are to the node, by which proof (token, certificate, or local for a caller on its machine), all scopes that you may use,\n" +
			"and the node that answers.",
		RunE: w.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var v api.MeView
			if err := c.Get(ctx, "/api/v1/me", &v); err != nil {
				return err
			}
			scopes := make([]string, len(v.Scopes))
			for i, s := range v.Scopes {
				scopes[i] = string(s)
			}
			return w.show(v, []string{"NAME", "BY", "SCOPES", "EXPIRES", "NODE", "VERSION", "STORE"},
				[][]string{{v.Name, v.Via, strings.Join(scopes, ","), clock(v.ExpiresAt), v.Node, v.Version, v.Store}})
		}),
	}
}
