package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/process/check"
	"github.com/troupe-run/troupe/sdk"
)

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
	f.StringVar(&opts.Root, "root", "", "the pack's folder; left out: the current one")
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
