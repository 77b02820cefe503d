package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
)

func (a *app) reload() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Let the node read its packs again", Args: exactly(),
		Long: "Let the node read its packs again. It first starts one worker of each pool whose packs have changed. If one does not start,\n" +
			"nothing is reloaded: the code from before runs on, and the exit code is 1. Else the workers of these pools are replaced, one\n" +
			"by one; running work ends on the old code. A pool that was broken is tried too: where its worker starts now, all start at\n" +
			"once; where it does not, the rest is reloaded, and the exit code is 1.",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			shown := progress{app: a}
			shown.say("a worker of each changed pool is being started")
			var v api.ReloadReport
			err := c.Patient().Post(ctx, "/api/v1/reload", nil, &v)
			shown.done()
			if err != nil {
				return a.reloadRefused(err)
			}
			var rows [][]string
			for _, part := range []struct {
				what  string
				names []string
			}{{"pack", v.Packs}, {"added", v.Added}, {"changed", v.Changed}, {"removed", v.Removed}, {"workers replaced", v.Replaced}} {
				for _, name := range part.names {
					rows = append(rows, []string{part.what, name})
				}
			}
			if err := a.show(v, []string{"WHAT", "NAME"}, rows); err != nil || len(v.Broken) == 0 {
				return err
			}
			fmt.Fprintln(a.err, "troupe: the packs are reloaded, and pools that were broken still are:")
			a.sayFailures(v.Broken)
			return errSilent
		}),
	}
}

// reloadRefused says which pack keeps a reload from being carried out, and where its code fails.
func (a *app) reloadRefused(err error) error {
	var refused *client.Error
	var details api.ReloadFailures
	if !errors.As(err, &refused) || refused.Code != string(messages.CodeReloadFailed) || json.Unmarshal(refused.Details, &details) != nil {
		return err
	}
	if a.output == "json" {
		if err := a.printJSON(details); err != nil {
			return err
		}
		return errSilent
	}
	fmt.Fprintln(a.err, "troupe: nothing is reloaded, the code from before runs on:")
	a.sayFailures(details.Pools)
	return errSilent
}

func (a *app) sayFailures(failures []api.ReloadFailure) {
	for _, f := range failures {
		a.sayIndented("  ", f.String())
		a.sayIndented("    ", f.Traceback)
	}
}

// sayIndented writes a program's text to standard error, each line behind the indent.
func (a *app) sayIndented(indent, text string) {
	for line := range strings.Lines(visibleLines(text)) {
		fmt.Fprintln(a.err, indent+strings.TrimRight(line, "\n"))
	}
}
