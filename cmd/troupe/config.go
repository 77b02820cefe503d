package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/cmd/troupe/config"
)

// configFlags adds --config and a flag for every key that has one.
func configFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "YAML file (TROUPE_CONFIG)")
	for _, k := range config.Defaults() {
		switch {
		case k.Flag == "":
		case k.Type() == "list":
			flags.StringArray(k.Flag, nil, k.Help+" May be repeated ("+k.Env+")")
		default:
			flags.String(k.Flag, "", k.Help+" ("+k.Env+")")
		}
	}
}

// configuration reads what a node is configured with, and is the verb that prints it.
type configuration struct{ *app }

// load reads the configuration that the call's flags, environment and file make.
func (c configuration) load(flags *pflag.FlagSet) (*config.Loaded, error) {
	return c.loadFrom(c.sources(flags))
}

// loadFrom reads a configuration and takes its secrets out of what the system shows of this process.
func (c configuration) loadFrom(sources config.Sources) (*config.Loaded, error) {
	loaded, err := config.Load(sources)
	if err == nil && c.forget != nil {
		c.inSight = errors.Join(c.inSight, c.forget(loaded))
	}
	return loaded, err
}

func (c configuration) sources(flags *pflag.FlagSet) config.Sources {
	sources := config.Sources{File: c.env("TROUPE_CONFIG", ""), Environ: c.environ, Flags: map[string][]string{}}
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		sources.Flags[f.Name] = values
	})
	if file, given := sources.Flags["config"]; given {
		sources.File = file[0]
	}
	return sources
}

func (c configuration) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Print the whole effective configuration of a node, and where each value comes from", Args: exactly(),
		Long: "Print the configuration that `troupe node` would have with the same flags, environment and file: every key, its value,\n" +
			"and the source of the value. Secrets are redacted. If it is not valid, print every problem and exit 1.\n" +
			"With --running, print the configuration that the node at --server has; it needs the scope admin.",
	}
	running := cmd.Flags().Bool("running", false, "print the configuration of the running node instead")
	configFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *running {
			return c.withClient(c.printRunning)(cmd, args)
		}
		loaded, err := c.load(cmd.Flags())
		if err != nil {
			return err
		}
		for _, w := range loaded.Warnings {
			fmt.Fprintf(c.err, "warning: %s\n", visible(w))
		}
		return c.print(shownSettings(loaded))
	}
	return cmd
}

// printRunning prints what a running node says of itself.
func (c configuration) printRunning(ctx context.Context, client *client.Client, _ []string) error {
	var v api.ConfigView
	if err := client.Get(ctx, "/api/v1/config", &v); err != nil {
		return err
	}
	return c.print(v.Settings)
}

func (c configuration) print(settings []api.Setting) error {
	rows := make([][]string, len(settings))
	for i, s := range settings {
		rows[i] = []string{s.Key, s.Value, s.Source}
	}
	return c.show(settings, []string{"KEY", "VALUE", "SOURCE"}, rows)
}

// shownSettings is every key of a configuration as it may be shown: without secrets.
func shownSettings(l *config.Loaded) []api.Setting {
	settings := make([]api.Setting, len(l.Keys))
	for i, k := range l.Keys {
		settings[i] = api.Setting{Key: k.Path, Value: k.Value(), Source: k.Source}
	}
	return settings
}
