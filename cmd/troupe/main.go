// Command troupe is a node and its command line: one binary, one file per verb. The verbs speak to a node over its
// HTTP API through the client package; only `node`, `config`, `doctor`, `migrate` and `worker check` work on this
// machine itself. Flags, the environment and files are read here and in config, and nowhere else.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/troupe-run/troupe/actors/process"
)

func main() {
	process.RunHelper()
	// The verb node counts signals by itself and takes no notice of this context.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(),
		terminal: isatty.IsTerminal(os.Stderr.Fd()), screen: isatty.IsTerminal(os.Stdout.Fd()),
	}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
