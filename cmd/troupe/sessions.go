package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// sessions has the verbs for them.
type sessions struct{ *app }

// sessionPath is a session's path, of POOL/NAME. No pool's name holds a slash.
func sessionPath(arg string) (string, error) {
	pool, name, ok := strings.Cut(arg, "/")
	if !ok || pool == "" || name == "" {
		return "", usagef("%q must be POOL/NAME; `troupe sessions` lists them", arg)
	}
	return "/api/v1/sessions/" + url.PathEscape(pool) + "/" + url.PathEscape(name), nil
}

func (s sessions) get() *cobra.Command {
	return &cobra.Command{
		Use: "get POOL/NAME", Short: "Show one session and what runs in it", Args: exactly("POOL/NAME"),
		RunE: s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := sessionPath(args[0])
			if err != nil {
				return err
			}
			var v view.Session
			if err := c.Get(ctx, path, &v); err != nil {
				return err
			}
			var nodes api.NodeList
			if err := c.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
				return err
			}
			if s.output == "json" {
				return s.printJSON(struct {
					namedSession
					Affinity  string               `json:"affinity,omitempty"`
					Execution messages.ExecutionID `json:"execution,omitzero"`
				}{namedSessions([]store.Session{v.Session}, nodes.Nodes)[0], v.Affinity, v.Execution})
			}
			row := sessionRows([]store.Session{v.Session}, nodes.Nodes, c.Now())[0]
			runs := ""
			if !v.Execution.IsZero() {
				runs = v.Execution.String()
			}
			return s.show(v, []string{"POOL", "SESSION", "WORKER", "EPOCH", "IDLE", "EXECUTION"}, [][]string{append(row, runs)})
		}),
	}
}

func (s sessions) end() *cobra.Command {
	return &cobra.Command{
		Use: "end POOL/NAME", Short: "End an idle session: its worker drops its state", Args: exactly("POOL/NAME"),
		Long: "End an idle session. Its binding ends, its worker's program is told to drop its state, and the session's next execution\n" +
			"is told that the state is lost. A session in which something is placed or runs is not ended.",
		RunE: s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := sessionPath(args[0])
			if err != nil {
				return err
			}
			var v view.Session
			if err := c.Delete(ctx, path, &v); err != nil {
				return err
			}
			if s.output == "json" {
				return s.printJSON(v)
			}
			_, err = fmt.Fprintln(s.out, visible("session "+args[0]+" has ended"))
			return err
		}),
	}
}
