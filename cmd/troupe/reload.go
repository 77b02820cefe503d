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

// reloading is the verb reload.
type reloading struct{ *app }

func (r reloading) command() *cobra.Command {
	return r.reasoned(&cobra.Command{
		Use: "reload", Short: "Let the node read its packs again", Args: exactly(),
		Long: "Let the node read its packs again. It first starts one worker of each pool whose packs have changed. If one does not start,\n" +
			"nothing is reloaded: the old code runs on, and the exit code is 1. Otherwise the workers of these pools are replaced, one by\n" +
			"one, and running work ends on the old code. A broken pool is tried too. If its worker starts now, all its workers start at\n" +
			"once. If it does not, the rest is reloaded, and the exit code is 1.",
		RunE: r.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			shown := progress{app: r.app}
			shown.say("a worker of each changed pool is being started")
			var v api.ReloadReport
			err := c.Patient().Post(ctx, "/api/v1/reload", r.why(), &v)
			shown.done()
			if err != nil {
				return r.refused(err)
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
			if err := r.show(v, []string{"WHAT", "NAME"}, rows); err != nil || len(v.Broken) == 0 {
				return err
			}
			fmt.Fprintln(r.err, "troupe: the packs are reloaded, and pools that were broken still are:")
			r.sayFailures(v.Broken)
			return errSilent
		}),
	})
}

// refused says which pack keeps a reload from being carried out, and where its code fails.
func (r reloading) refused(err error) error {
	var refused *client.Error
	var details api.ReloadFailures
	if !errors.As(err, &refused) || refused.Code != string(messages.CodeReloadFailed) || json.Unmarshal(refused.Details, &details) != nil {
		return err
	}
	if r.output == "json" {
		if err := r.printJSON(details); err != nil {
			return err
		}
		return errSilent
	}
	fmt.Fprintln(r.err, "troupe: nothing is reloaded, the code from before runs on:")
	r.sayFailures(details.Pools)
	return errSilent
}

func (r reloading) sayFailures(failures []api.ReloadFailure) {
	for _, f := range failures {
		r.sayIndented("  ", f.String())
		r.sayIndented("    ", f.Traceback)
	}
}

// sayIndented writes a program's text to standard error, each line behind the indent.
func (r reloading) sayIndented(indent, text string) {
	for line := range strings.Lines(visibleLines(text)) {
		fmt.Fprintln(r.err, indent+strings.TrimRight(line, "\n"))
	}
}
