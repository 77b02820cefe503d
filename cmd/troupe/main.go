// Command troupe is a node and its command line: one binary, one file per verb. The verbs speak to a node over its
// HTTP API through the client package; only `node`, `config`, `doctor`, `migrate`, `cluster` and `worker check` work on this
// machine itself. Flags, the environment and files are read here and in config, and nowhere else.
//
// Its tests take long: they build the program, start and end nodes, and print pages that do not end.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // TZ is followed on machines that have no zones

	"github.com/mattn/go-isatty"

	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/process"
)

func main() {
	process.RunHelper()
	args, environ := ownArguments(), os.Environ()
	// The variables of libpq and of OpenTelemetry's exporter stay for the connections that are still to come.
	inSight := forgetVariables(config.SecretVariables(environ), []string{"PGPASSWORD", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"})
	// The verb node counts signals by itself and takes no notice of this context.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: environ,
		hide: process.HideFromPeers, forget: forgetSecrets, inSight: inSight,
		terminal: isatty.IsTerminal(os.Stderr.Fd()), screen: isatty.IsTerminal(os.Stdout.Fd()), keyboard: isatty.IsTerminal(os.Stdin.Fd()),
	}
	if a.screen {
		a.width = columnsOf(os.Stdout)
	}
	code := a.run(ctx, args)
	stop()
	os.Exit(code)
}

// forgetSecrets takes what is secret in a configuration out of what /proc shows of this process.
func forgetSecrets(l *config.Loaded) error {
	return errors.Join(forgetVariables(l.TokenVariables(), nil), forgetArguments(l.SecretArguments()))
}
