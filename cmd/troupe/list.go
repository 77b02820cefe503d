package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/supervisor/api"
)

// pageMax is the API's largest page.
const pageMax = 1000

func (a *app) list() *cobra.Command {
	var status []string
	var action, pool, session, worker, label string
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "List executions, newest first", Args: exactly(),
		Example: "  troupe list --status failed,timed_out\n  troupe list --label team=a -n 1000 -o json",
	}
	f := cmd.Flags()
	f.StringSliceVar(&status, "status", nil, "only these statuses")
	f.StringVar(&action, "action", "", "only this action")
	f.StringVar(&pool, "pool", "", "only this pool")
	f.StringVar(&session, "session", "", "only this session")
	f.StringVar(&worker, "worker", "", "only this worker")
	f.StringVar(&label, "label", "", "only with this label, name=value")
	f.IntVarP(&limit, "limit", "n", 20, "how many")
	cmd.RunE = a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if limit < 1 {
			return usagef("--limit must be 1 or more, got %d", limit)
		}
		query := url.Values{"status": status}
		for name, value := range map[string]string{"action": action, "pool": pool, "session": session, "worker": worker, "label": label} {
			if value != "" {
				query.Set(name, value)
			}
		}
		list, err := pages(ctx, c, query, limit)
		if err != nil {
			return err
		}
		return a.showExecutions(list, list.Executions)
	})
	return cmd
}

// pages reads as many pages as limit asks for.
func pages(ctx context.Context, c *client.Client, query url.Values, limit int) (all api.ExecutionList, err error) {
	all.Executions = []api.ExecutionView{}
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(all.Executions), pageMax)))
		page, err := c.Executions(ctx, query)
		if err != nil {
			return all, err
		}
		all.Executions = append(all.Executions, page.Executions...)
		all.NextCursor = page.NextCursor
		if page.NextCursor == "" || len(all.Executions) >= limit {
			return all, nil
		}
		query.Set("cursor", page.NextCursor)
	}
}

func executionPath(id, verb string) string {
	return "/api/v1/executions/" + url.PathEscape(id) + verb
}

func (a *app) wait() *cobra.Command {
	return &cobra.Command{
		Use: "wait ID", Short: "Wait for an execution's end and print its result", Args: exactly("ID"),
		Long: "Wait for an execution's end, and that of its retries. Print the result as JSON and exit 0, or the error on standard error and exit 1.",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			v, err := c.Execution(ctx, args[0])
			if err == nil {
				v, err = a.untilEnd(ctx, c, v)
			}
			if err != nil {
				return err
			}
			return a.outcome(v)
		}),
	}
}

func (a *app) cancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID…", Short: "Cancel executions", Args: someIDs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.eachID(args, func(id string) (api.ExecutionView, error) { return c.Cancel(ctx, id) })
		}),
	}
}

func (a *app) retry() *cobra.Command {
	return &cobra.Command{
		Use: "retry ID…", Short: "Submit ended executions again, as new ones of their chains", Args: someIDs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.eachID(args, func(id string) (api.ExecutionView, error) { return c.Retry(ctx, id) })
		}),
	}
}

func someIDs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s: ID is missing", cmd.CommandPath())
	}
	return nil
}

// eachID does one thing to every execution. One that fails does not hinder the others.
func (a *app) eachID(ids []string, do func(id string) (api.ExecutionView, error)) error {
	failed := false
	for _, id := range ids {
		v, err := do(id)
		if err != nil {
			fmt.Fprintf(a.err, "troupe: %s\n", err)
			failed = true
			continue
		}
		if a.output == "json" {
			if err := a.printJSON(v); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.out, "%s %s\n", v.ID, v.Status)
	}
	if failed {
		return errSilent
	}
	return nil
}
