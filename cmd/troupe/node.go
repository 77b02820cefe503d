package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages/secret"
	"github.com/troupe-run/troupe/node"
)

// nodeVerb is the verb node.
type nodeVerb struct{ configuration }

func (v nodeVerb) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "node", Short: "Run a node", Args: exactly(),
		Long: "Run a node until SIGTERM or SIGINT. It then takes no more work, lets running work finish, and ends. A second signal stops it\n" +
			"at once. SIGHUP reads the packs again. Without a configuration it keeps everything in one file and listens on 127.0.0.1:7070.\n" +
			"With --store and --broker it shares Postgres and RabbitMQ with other nodes, and waits for these servers at its start.",
		Example: "  troupe node\n  troupe node --packs ./packs --data /var/lib/troupe\n" +
			"  TROUPE_STORE_URL=postgres://troupe:…@db/troupe troupe node --broker amqp://troupe:…@mq/\n  troupe config   # prints its configuration",
	}
	configFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// Of the verbs only this one: what a worker leaves behind is found by its environment, which nobody reads of a hidden process.
		if v.hide != nil {
			v.inSight = errors.Join(v.inSight, v.hide())
		}
		loaded, err := v.load(cmd.Flags())
		if err != nil {
			return err
		}
		shown, logger := (*screen)(nil), hclog.Logger(nil)
		if v.onScreen(loaded) {
			shown, logger = newScreen(v.err)
		} else {
			logger = v.logger(loaded)
		}
		if v.inSight != nil {
			logger.Warn("secrets of this node are in sight of its user's processes", "error", strings.ReplaceAll(v.inSight.Error(), "\n", "; "))
		}
		for _, w := range loaded.Warnings {
			logger.Warn(w)
		}
		if loaded.Exposed != "" {
			logger.Warn("configuration file is readable by every user", "problem", loaded.Exposed)
		}
		return v.run(context.WithoutCancel(cmd.Context()), loaded, shown, logger)
	}
	return cmd
}

// logger writes to standard error: lines for people on a terminal, JSON elsewhere.
func (v nodeVerb) logger(l *config.Loaded) hclog.Logger {
	human := l.Log.Format == "human" || (l.Log.Format == "auto" && v.terminal)
	options := &hclog.LoggerOptions{Name: "troupe", Level: hclog.LevelFromString(l.Log.Level), Output: withoutPasswords{v.err}, JSONFormat: !human}
	if human && v.terminal {
		options.Color = hclog.AutoColor
	}
	return hclog.New(options)
}

// withoutPasswords is a log whose lines show no password of an address, whatever library's error it stands in. hclog writes a line at
// a time.
type withoutPasswords struct{ io.Writer }

func (w withoutPasswords) Write(line []byte) (int, error) {
	if !bytes.Contains(line, []byte("://")) && !bytes.Contains(bytes.ToLower(line), []byte("assw")) {
		return w.Writer.Write(line)
	}
	if _, err := io.WriteString(w.Writer, secret.JSON(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// run runs a node from its start to its stop. Signals are taken from the start on, so that one that comes while
// the node starts is obeyed too.
func (v nodeVerb) run(ctx context.Context, l *config.Loaded, shown *screen, logger hclog.Logger) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	defer signal.Stop(signals)
	fatal := make(chan error, 1)
	settings := nodeConfig(&l.Config, logger)
	settings.Settings = shownSettings(l)
	settings.Fatal = func(err error) {
		select {
		case fatal <- err:
		default: // the first one stops the node; the others follow from it
		}
	}
	defer node.Tune()()
	n, err := node.NewKeeper(settings)
	if err != nil {
		return err
	}
	closeProfiler, err := profile(l.Debug.PprofListen, logger)
	if err != nil {
		return err
	}
	defer closeProfiler()
	r := &nodeRun{node: n, signals: signals, fatal: fatal, logger: logger}
	if stopped, err := r.start(ctx); err != nil || stopped {
		return err
	}
	go trim(ctx, n)
	serving, leave := context.WithCancel(ctx)
	defer leave()
	switch {
	case len(fatal) > 0: // it cannot go on
	case shown != nil:
		go shown.welcome(serving, n, l.Node.Name, schemeOf(l), l.Console.Mode != api.ConsoleOff)
	case v.terminal:
		fmt.Fprintf(v.err, "troupe listens on %s%s; try: %s\n", schemeOf(l), n.Addr(), tryIt(schemeOf(l), n.Addr()))
	}
	return r.untilStopped(ctx, serving, leave)
}

// nodeRun is a node that this process runs, and what ends it.
type nodeRun struct {
	node    *node.Keeper
	signals <-chan os.Signal
	fatal   <-chan error // why it cannot go on
	logger  hclog.Logger
}

// start brings the node up, unless a signal ends that: a node of the full mode may wait long for its servers.
func (r *nodeRun) start(ctx context.Context) (stopped bool, err error) {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	began := make(chan error, 1)
	go func() { began <- r.node.Start(starting) }()
	for {
		select {
		case s := <-r.signals:
			if s == syscall.SIGHUP {
				continue // it reads its packs now
			}
			r.logger.Info("Received " + signalName(s) + " signal")
			stopped = true
			cancel()
		case err := <-began:
			switch {
			case stopped && err == nil: // the signal came too late to end the start
				return true, r.stop(ctx)
			case stopped && errors.Is(err, context.Canceled):
				r.logger.Info("node stopped before it had started")
				return true, nil
			}
			return stopped, err
		}
	}
}

// trimWait bounds the wait for the end of a start, and trimLook how often it is looked for.
const (
	trimWait = time.Minute
	trimLook = 200 * time.Millisecond
)

// trim gives the start's leftovers back to the system once the pools are up, and what an idle node does not need until ctx ends.
func trim(ctx context.Context, n *node.Keeper) {
	for limit := time.Now().Add(trimWait); ctx.Err() == nil && time.Now().Before(limit) && !n.Backend().Ready(ctx).Ready; {
		time.Sleep(trimLook)
	}
	n.KeepTrim(ctx)
}

// untilStopped serves signals until one asks for the end, or the node cannot go on. That ends serving, by leave.
func (r *nodeRun) untilStopped(ctx, serving context.Context, leave func()) error {
	wanted := make(chan struct{}, 1)
	defer close(wanted)
	go func() { // beside the signals: a reload takes as long as its slowest worker to start, and a stop is not to wait for it
		for range wanted {
			r.reload(serving)
		}
	}()
	for {
		select {
		case s := <-r.signals:
			if s == syscall.SIGHUP {
				select {
				case wanted <- struct{}{}:
				default: // one is to come already
				}
				continue
			}
			r.logger.Info("Received " + signalName(s) + " signal")
			leave()
			return r.stop(ctx)
		case err := <-r.fatal:
			leave() // first, for nothing is to be said of a start below that line
			r.logger.Error("node cannot go on", "error", err)
			return errors.Join(err, r.stop(ctx))
		}
	}
}

func signalName(s os.Signal) string {
	if s == syscall.SIGTERM {
		return "SIGTERM"
	}
	return "SIGINT"
}

func (r *nodeRun) reload(ctx context.Context) {
	report, err := r.node.Reload(ctx, "")
	if err != nil && ctx.Err() != nil {
		return // the node is told to stop
	}
	if err != nil {
		r.logger.Error("packs not reloaded; the node goes on with those it has", "error", err)
		return
	}
	r.logger.Info("packs reloaded", "packs", report.Packs, "added", report.Added, "removed", report.Removed, "changed", report.Changed)
}

// stop ends the node in order; a second signal ends it at once.
func (r *nodeRun) stop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.node.Stop(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case s := <-r.signals:
			if s != syscall.SIGHUP {
				r.logger.Warn("second signal: stopping at once", "signal", signalName(s))
				cancel()
			}
		}
	}
}

// profile serves the Go profiler where an address is given.
func profile(address string, logger hclog.Logger) (func(), error) {
	if address == "" {
		return func() {}, nil
	}
	server, listener, err := debug.Profiler(address)
	if err != nil {
		return nil, err
	}
	logger.Info("profiler listens", "address", listener.Addr())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Warn("profiler ended", "error", err)
		}
	}()
	return func() {
		if err := server.Close(); err != nil {
			logger.Warn("profiler not closed", "error", err)
		}
		<-done
	}, nil
}
