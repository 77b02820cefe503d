package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/messages/secret"
)

// Exit codes. A verb that reports an execution's failure, or any error, ends with exitFailed.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitStopped = 130
)

// defaultServer is where a node listens that was told nothing else.
const defaultServer = "http://127.0.0.1:7070"

// app is one call of the command line: what it reads, where it writes, and the flags of every verb. The verbs themselves belong to types
// that embed it.
type app struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	hide     func() error               // keeps other processes of its user from reading this one, which a node wants; nil: nothing does
	forget   func(*config.Loaded) error // takes a configuration's secrets out of what the system shows of this process; nil: nothing does
	inSight  error                      // why secrets stay in sight of others. Only a node tells: it is there for long, and beside workers
	terminal bool                       // err is a terminal: progress may be drawn
	screen   bool                       // out is a terminal
	keyboard bool                       // in is a terminal, so a person may be asked
	width    int                        // of that terminal, which tables are fitted to; 0: out is none

	server  string
	tls     client.TLS
	output  string // table, json
	reason  string // why a command is given, for the journal
	running bool   // a verb has begun, so an error is no longer one of usage
}

// errSilent ends a verb with exitFailed when everything has been said already.
var errSilent = errors.New("")

// errLeft ends a verb with exitStopped when it has said what goes on without it.
var errLeft = errors.New("left")

// usageError is a mistake in the call itself.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run carries out one call and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errSilent):
		return exitFailed
	case errors.As(err, &usage) || !a.running:
		fmt.Fprintf(a.err, "troupe: %s\nRun `troupe help` for the verbs and `troupe VERB --help` for their flags.\n", paragraph(secret.Text(err.Error())))
		return exitUsage
	case errors.Is(err, errLeft):
		return exitStopped
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.err, "troupe: stopped")
		return exitStopped
	}
	a.sayError(err)
	return exitFailed
}

// sayError tells of an error, whose text may be another node's.
func (a *app) sayError(err error) {
	fmt.Fprintf(a.err, "troupe: %s\n", paragraph(secret.Text(err.Error())))
}

// root is the command with every verb.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Run code in supervised worker pools",
		Long:          "Troupe runs code in supervised worker pools. Submit executions of actions, and watch and control the workers that run them.",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "table" && a.output != "json" {
				return usagef("-o must be table or json, got %q", a.output)
			}
			a.running = true
			return nil
		},
	}
	root.PersistentFlags().StringVar(&a.server, "server", a.env("TROUPE_SERVER", defaultServer), "address of the node (TROUPE_SERVER); TROUPE_TOKEN holds the token")
	if server := root.PersistentFlags().Lookup("server"); server != nil {
		server.DefValue = secret.Address(server.DefValue) // --help shows it
	}
	for _, file := range []struct {
		into            *string
		flag, env, help string
	}{
		{&a.tls.CAFile, "ca-file", "TROUPE_CA_FILE", "PEM file of the authority of the node's certificate, for https:// addresses; empty: the system's"},
		{&a.tls.CertFile, "cert-file", "TROUPE_CERT_FILE", "PEM file of a client certificate, instead of a token"},
		{&a.tls.KeyFile, "key-file", "TROUPE_KEY_FILE", "PEM file of the key of --cert-file"},
	} {
		root.PersistentFlags().StringVar(file.into, file.flag, a.env(file.env, ""), file.help+" ("+file.env+")")
		root.PersistentFlags().Lookup(file.flag).DefValue = ""
	}
	root.PersistentFlags().StringVarP(&a.output, "output", "o", a.env("TROUPE_OUTPUT", "table"), "table for people, json for programs")
	for _, group := range a.verbs() {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, verb := range group.verbs {
			verb.GroupID = group.id
			root.AddCommand(verb)
		}
	}
	completion{a}.addTo(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if strings.Contains(err.Error(), "time: ") { // of a duration, and the library names no form
			err = fmt.Errorf("%w; want a number with a unit, such as 30s, 5m or 2h", err)
		}
		return usageError{err}
	})
	return root
}

// verbGroup is what --help shows under one title.
type verbGroup struct {
	id, title string
	verbs     []*cobra.Command
}

// verbs are made by a type for each family of them, which embeds the app.
func (a *app) verbs() []verbGroup {
	work, all, configured := executions{a}, fleet{a}, configuration{a}
	submit, tree, chaos, bench := &submission{executions: work}, &treeAsk{app: a}, &havoc{app: a}, &load{app: a}
	return []verbGroup{
		{"work", "Work:", []*cobra.Command{
			submit.command(), work.get(), work.list(), work.wait(), work.logs(), work.cancel(), work.retry(), work.why(), work.timeline(), work.errors(), work.facets(),
			many{a}.command(), many{a}.operations(), many{a}.operation(),
		}},
		{"see", "See:", []*cobra.Command{
			all.workers(), all.pools(), all.pool(), all.nodes(), sessions{a}.command(), all.actions(), tree.command(), cells{a}.command(), top{a}.command(), overview{a}.command(), findings{a}.command(), series{a}.command(), ledger{a}.command(), history{a}.command(), different{a}.command(), mark{a}.command(), deadLetters{a}.command(), webhookCalls{a}.command(), whoami{a}.command(),
		}},
		{"steer", "Steer:", []*cobra.Command{
			all.worker(), all.cordon(true), all.cordon(false), all.drain(), reloading{a}.command(), chaos.command(),
		}},
		{"run", "Run:", []*cobra.Command{
			nodeVerb{configured}.command(), configured.command(), doctor{configured}.command(), migrator{configured}.command(),
			tokenVerbs{a}.command(), cluster{configured}.command(), bench.command(), versionVerb{a}.command(),
		}},
	}
}

// env reads a variable of the call's environment.
func (a *app) env(name, otherwise string) string {
	for _, entry := range a.environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok && value != "" {
			return value
		}
	}
	return otherwise
}

// client makes the client of the node that the call names.
func (a *app) client() (*client.Client, error) {
	c, err := client.New(a.server, a.env("TROUPE_TOKEN", ""))
	if err != nil {
		return nil, err
	}
	return c, c.Secure(a.tls)
}

// withClient makes a verb of what it asks the node.
func (a *app) withClient(verb func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return usageError{err}
		}
		defer c.Close()
		return verb(cmd.Context(), c, args)
	}
}

// exactly wants the named arguments, and says which one is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s: %s is missing", cmd.CommandPath(), names[len(args)])
		}
		if len(args) > len(names) {
			return usagef("%s: %q is one argument too many", cmd.CommandPath(), secret.Address(args[len(names)]))
		}
		return nil
	}
}

// atMost takes up to these arguments, each of which may be left out from the end.
func atMost(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return exactly(names[:min(len(args), len(names))]...)(cmd, args)
	}
}
