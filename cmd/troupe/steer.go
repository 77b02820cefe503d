package main

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/process/check"
	"github.com/troupe-run/troupe/sdk"
)

// worker is the verb that steers one worker, and tests programs that want to be one.
func (f fleet) worker() *cobra.Command {
	cmd := &cobra.Command{Use: "worker", Short: "Steer one worker, or test a worker program",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("worker knows no verb %q; `troupe worker --help` lists them", args[0])
			}
			return usagef("worker needs a verb: check, get, kill, cordon, uncordon or probe")
		}}
	cmd.AddCommand(workerCheck(f).command(), f.workerGet(),
		f.workerVerb("kill", "End a worker at once; it is replaced", "/kill", "is killed and replaced"),
		f.workerVerb("cordon", "Give a worker no more work", "/cordon", "gets no more work"),
		f.workerVerb("uncordon", "Give a worker work again", "/uncordon", "gets work again"),
		f.workerProbe())
	return cmd
}

func (f fleet) workerVerb(verb, about, path, said string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: about, Args: exactly("ID"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := workerPath(args[0], path)
			if err != nil {
				return err
			}
			return f.order(ctx, c, path, fmt.Sprintf("worker %s %s", args[0], said))
		}),
	}
}

// order posts to a path and says what came of it.
func (a *app) order(ctx context.Context, c *client.Client, path, said string) error {
	var v map[string]any
	if err := c.Post(ctx, path, nil, &v); err != nil {
		return err
	}
	if a.output == "json" {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintln(a.out, visible(said))
	return err
}

func (f fleet) workerGet() *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show a worker with its history", Args: exactly("ID"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return f.showWorker(ctx, c, args[0])
		}),
	}
}

func (f fleet) workerProbe() *cobra.Command {
	return &cobra.Command{
		Use: "probe ID", Short: "Probe a worker now", Args: exactly("ID"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := workerPath(args[0], "/health")
			if err != nil {
				return err
			}
			var v api.HealthView
			if err := c.Post(ctx, path, nil, &v); err != nil {
				return err
			}
			return f.show(v, []string{"WORKER", "STATE", "HEALTH", "GRADE", "LAST FAILURE"},
				[][]string{{string(v.Worker), v.State, v.Health, v.Grade, v.LastError}})
		}),
	}
}

// workerCheck is the verb that tests a program against the worker protocol. It asks no node.
type workerCheck struct{ *app }

func (w workerCheck) command() *cobra.Command {
	opts := check.Options{}
	parameters, busy := "", ""
	cmd := &cobra.Command{
		Use: "check [flags] -- CMD [ARG…]", Short: "Test a program against the worker protocol",
		Long:    "Start a program as a node would and test it against every rule of docs/protocol.md. Exit 0 when none is broken.",
		Example: "  troupe worker check -- python3 -m troupe_worker\n  troupe worker check --rule hello --rule ping -- ./my-worker",
	}
	f := cmd.Flags()
	f.StringVar(&opts.Action, "action", "", "action to execute")
	f.StringVar(&opts.Entrypoint, "entrypoint", "", "file:function of the action, where the program loads files")
	f.StringVar(&opts.Root, "root", "", "the pack's folder; where left out, this one")
	f.StringVar(&parameters, "params", "", "parameters of the action, a JSON object")
	f.StringVar(&busy, "busy-params", "", "parameters that make the action run for some seconds")
	f.StringArrayVar(&opts.Rules, "rule", nil, "only this rule; may be repeated")
	f.StringArrayVar(&opts.Env, "env", nil, "KEY=value for the program; may be repeated")
	f.DurationVar(&opts.Patience, "patience", 0, "how long an answer may take (5s)")
	f.DurationVar(&opts.InitTimeout, "init-timeout", 0, "how long the answer to hello may take (30s)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("worker check: CMD is missing, as in `troupe worker check -- python3 worker.py`")
		}
		opts.Parameters, opts.BusyParameters = []byte(parameters), []byte(busy)
		if opts.Root == "" {
			opts.Root, _ = os.Getwd()
		}
		return w.check(cmd.Context(), args, opts)
	}
	return cmd
}

// sdkEnv are the variables by which a program finds the SDKs in a folder as a node's workers do. A path that the call gives wins.
func (w workerCheck) sdkEnv(folder string) (env []string) {
	for _, r := range config.Runtimes() {
		if r.SDK.Variable == "" {
			continue
		}
		path := r.SDK.Path(folder)
		if own := w.env(r.SDK.Variable, ""); own != "" {
			path = own + string(os.PathListSeparator) + path
		}
		env = append(env, r.SDK.Variable+"="+path)
	}
	return env
}

func (w workerCheck) check(ctx context.Context, argv []string, opts check.Options) (err error) {
	guardian, err := process.NewGuardian(process.Config{})
	if err != nil {
		return err
	}
	defer guardian.Close()
	kits, err := os.MkdirTemp("", "troupe-sdk-")
	if err != nil {
		return fmt.Errorf("make a folder for the SDKs: %w", err)
	}
	defer os.RemoveAll(kits)
	if err := sdk.Materialize(kits); err != nil {
		return err
	}
	opts.Env = append(w.sdkEnv(kits), opts.Env...)
	table := w.screenOut(false)
	if w.output == "json" {
		table = discard{}
	}
	report, err := check.Run(ctx, guardian, argv, opts, table)
	if err != nil {
		return err
	}
	if w.output == "json" {
		if err := w.printJSON(report); err != nil {
			return err
		}
	}
	if !report.Passed() {
		return errSilent
	}
	return nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// cordon makes the verbs cordon and uncordon, of a node, pool or worker.
func (f fleet) cordon(on bool) *cobra.Command {
	verb, about, said := "cordon", "Give a node, pool or worker no more work", "gets no more work"
	if !on {
		verb, about, said = "uncordon", "Give a node, pool or worker work again", "gets work again"
	}
	return &cobra.Command{
		Use: verb + " node|pool|worker NAME", Short: about,
		Long: about + ". Any node passes it on to the one that has it; where two live nodes share a name, give the incarnation.",
		Args: exactly("node, pool or worker", "NAME"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := thingPath(args[0], args[1], "/"+verb)
			if err != nil {
				return err
			}
			return f.order(ctx, c, path, fmt.Sprintf("%s %s %s", args[0], args[1], said))
		}),
	}
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
	return &cobra.Command{
		Use: "drain NODE", Short: "Let a node take no more work and finish what runs", Args: exactly("NODE"),
		Long: "Let a node take no more work, finish what runs, and end. Any node passes it on; where two live nodes share a name, give the\n" +
			"incarnation.",
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return f.order(ctx, c, "/api/v1/nodes/"+url.PathEscape(args[0])+"/drain", fmt.Sprintf("node %s drains", args[0]))
		}),
	}
}
