package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/operate/view"
)

// worker is the verb that steers one worker, and tests programs that want to be one.
func (f fleet) worker() *cobra.Command {
	cmd := &cobra.Command{Use: "worker", Short: "Control one worker, or test a worker program",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("worker knows no verb %q; `troupe worker --help` lists them", args[0])
			}
			return usagef("worker needs a verb: check, get, runs, kill, cordon, uncordon or probe")
		}}
	cmd.AddCommand(workerCheck(f).command(), f.workerGet(), f.workerRuns(),
		f.workerVerb("kill", "End a worker at once; it is replaced", "/kill", "is killed and replaced"),
		f.workerVerb("cordon", "Give a worker no more work", "/cordon", "gets no more work"),
		f.workerVerb("uncordon", "Give a worker work again", "/uncordon", "gets work again"),
		f.workerProbe())
	return cmd
}

func (f fleet) workerVerb(verb, about, path, said string) *cobra.Command {
	return f.reasoned(&cobra.Command{
		Use: verb + " ID", Short: about, Args: exactly("ID"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := workerPath(args[0], path)
			if err != nil {
				return err
			}
			return f.order(ctx, c, path, fmt.Sprintf("worker %s %s", args[0], said))
		}),
	})
}

func (f fleet) workerGet() *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show a worker with its history", Args: exactly("ID"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return f.showWorker(ctx, c, args[0])
		}),
	}
}

func (f fleet) workerRuns() *cobra.Command {
	return &cobra.Command{
		Use: "runs ID", Short: "Show the last runs of a worker, newest first", Args: exactly("ID"),
		Long: "Show the last runs of a worker, up to 64, newest first. Its node remembers those since it started. Where it remembers none, they are\n" +
			"looked for among the newest 20,000 executions; the last line says so where there may be more.",
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := workerPath(args[0], "/runs")
			if err != nil {
				return err
			}
			var v view.WorkerRuns
			if err := c.Get(ctx, path, &v); err != nil {
				return err
			}
			if err := f.show(v, []string{"EXECUTION", "ACTION", "STATUS", "CODE", "ATTEMPT", "SESSION", "STARTED", "RAN"}, runRows(v.Runs)); err != nil {
				return err
			}
			if v.Unsearched && f.output != "json" {
				_, err = fmt.Fprintln(f.out, "looked at as many executions as may be; there may be more runs")
			}
			return err
		}),
	}
}

func runRows(runs []view.Run) [][]string {
	rows := make([][]string, len(runs))
	for i, r := range runs {
		ran := ""
		if !r.FinishedAt.IsZero() {
			ran = short(r.FinishedAt.Sub(r.StartedAt))
		}
		rows[i] = []string{idText(r.Execution), r.Action, r.Status.String(), string(r.Code), fmt.Sprint(r.Attempt), r.Session, clock(r.StartedAt), ran}
	}
	return rows
}

func (f fleet) workerProbe() *cobra.Command {
	return f.reasoned(&cobra.Command{
		Use: "probe ID", Short: "Probe a worker now", Args: exactly("ID"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := workerPath(args[0], "/health")
			if err != nil {
				return err
			}
			var v api.HealthView
			if err := c.Post(ctx, path, f.why(), &v); err != nil {
				return err
			}
			return f.show(v, []string{"WORKER", "STATE", "HEALTH", "GRADE", "LAST FAILURE"},
				[][]string{{string(v.Worker), v.State, v.Health, v.Grade, v.LastError}})
		}),
	})
}

// cordon makes the verbs cordon and uncordon, of a node, pool or worker.
func (f fleet) cordon(on bool) *cobra.Command {
	verb, about, said := "cordon", "Give a node, pool or worker no more work", "gets no more work"
	if !on {
		verb, about, said = "uncordon", "Give a node, pool or worker work again", "gets work again"
	}
	return f.reasoned(&cobra.Command{
		Use: verb + " node|pool|worker NAME", Short: about,
		Long: about + ". You may ask any node. If two live nodes share a name, give the incarnation.",
		Args: exactly("node, pool or worker", "NAME"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := thingPath(args[0], args[1], "/"+verb)
			if err != nil {
				return err
			}
			return f.order(ctx, c, path, fmt.Sprintf("%s %s %s", args[0], args[1], said))
		}),
	})
}

// thingPath is the API's path of a thing that can be steered.
func thingPath(kind, name, verb string) (string, error) {
	switch kind {
	case "worker":
		return workerPath(name, verb)
	case "pool":
		return "/api/v1/pools/" + url.PathEscape(name) + verb, nil
	case "node":
		return "/api/v1/nodes/" + url.PathEscape(name) + verb, nil
	}
	return "", usagef("%q must be node, pool or worker", kind)
}

func (f fleet) drain() *cobra.Command {
	return f.reasoned(&cobra.Command{
		Use: "drain NODE", Short: "Let a node take no more work and finish its running work", Args: exactly("NODE"),
		Long: "Let a node take no more work, finish its running work, and end. You may ask any node. If two live nodes share a name, give the\n" +
			"incarnation.",
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return f.order(ctx, c, "/api/v1/nodes/"+url.PathEscape(args[0])+"/drain", fmt.Sprintf("node %s drains", args[0]))
		}),
	})
}
