package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/keyframe"
)

// cells has the verb that shows all workers as letters, now or at a time.
type cells struct{ *app }

func (f cells) command() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use: "fleet", Short: "Show nodes and pools with a letter for each worker, now or at a time", Args: exactly(),
		Long: "Show each node's part of each pool with a letter for the worker of each slot, and how many in a row have it: r(8)b is eight ready workers\n" +
			"and a busy one. i is initializing, d degraded, t terminating, x terminated, - no worker. With --at it shows what was recorded of a time\n" +
			"of the past. There u is a worker that worked, ready or busy, because runs that end well are not recorded one by one; ? is not known.",
		Example: "  troupe fleet\n  troupe fleet --at 2030-01-31T08:00:00Z\n  troupe fleet --at 15m -o json",
	}
	cmd.Flags().StringVar(&at, "at", "", "what there was then: a time (2030-01-31T08:00:00Z) or an age (2h); now where left out")
	cmd.RunE = f.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		moment, err := parseBack("--at", at, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		path := "/api/v1/fleet"
		if !moment.IsZero() {
			path += "?" + url.Values{"at": {moment.UTC().Format(time.RFC3339Nano)}}.Encode()
		}
		var v api.Fleet
		if err := c.Get(ctx, path, &v); err != nil {
			return err
		}
		if err := f.show(v, []string{"POOL", "NODE", "STATE", "ROUTING", "SESSIONS", "WORKERS"}, cellRows(&v)); err != nil || f.output == "json" {
			return err
		}
		f.tail(&v)
		return nil
	})
	return cmd
}

// tail prints what the table does not show, and what is not known.
func (f cells) tail(v *api.Fleet) {
	_, _ = fmt.Fprintf(f.out, "\nAt %s.\n", clock(v.At))
	for _, note := range v.Notes {
		_, _ = fmt.Fprintln(f.out, visible("Not known: "+note+"."))
	}
	for _, u := range v.Unreached {
		_, _ = fmt.Fprintln(f.out, visible("Not reached: "+u.Node+": "+u.Why))
	}
}

// cellRows are the nodes' parts of the pools, and the nodes without one.
func cellRows(v *api.Fleet) (rows [][]string) {
	shown := map[string]bool{}
	states := map[string]*keyframe.FleetNode{}
	for i := range v.Nodes {
		states[v.Nodes[i].Incarnation.String()] = &v.Nodes[i]
	}
	state := func(n *keyframe.FleetNode) string {
		if n == nil {
			return ""
		}
		if n.Cordoned {
			return n.State + " cordoned"
		}
		return n.State
	}
	for i := range v.Pools {
		p := &v.Pools[i]
		name := p.Name
		if p.Broken {
			name += " broken"
		}
		if p.Cordoned {
			name += " cordoned"
		}
		shown[p.Incarnation.String()] = true
		sessions := ""
		if p.Bound > 0 {
			sessions = strconv.Itoa(p.Bound)
		}
		rows = append(rows, []string{name, p.Node, state(states[p.Incarnation.String()]), p.Mode, sessions, keyframe.Runs([]byte(p.Slots))})
	}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; !shown[n.Incarnation.String()] {
			rows = append(rows, []string{"", n.Name, state(n), "", "", ""})
		}
	}
	return rows
}
