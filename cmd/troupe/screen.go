package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/node"
)

// screen is a node's log for the person who started it in a terminal: a line for each pool that starts or stops, the address, and
// what is news. What happens in every start and stop is left out; a log level below info shows all of it, line by line.
type screen struct {
	mu       sync.Mutex
	to       io.Writer
	log      hclog.Logger // of what is shown as a log line
	started  int          // pools whose line was written
	stopping bool
}

// onScreen reports whether the node's log goes to a person who has asked for nothing else.
func (v nodeVerb) onScreen(l *config.Loaded) bool {
	return v.terminal && l.Log.Format != "json" && hclog.LevelFromString(l.Log.Level) == hclog.Info
}

// newScreen returns the screen, and the logger that writes to it.
func newScreen(to io.Writer) (*screen, hclog.Logger) {
	s := &screen{to: to, log: hclog.New(&hclog.LoggerOptions{Name: "troupe", Level: hclog.Info, Output: withoutPasswords{to}, Color: hclog.AutoColor})}
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "troupe", Level: hclog.Info, Output: io.Discard})
	logger.RegisterSink(s)
	return s, logger
}

// routine are the messages that every start or stop brings.
var routine = map[string]bool{
	"Dead letter handler started": true, "worker processes are contained": true, "guardian started": true, "node started": true,
	"packs loaded again": true, "Worker shutting down gracefully": true,
}

// Accept implements hclog.SinkAdapter.
func (s *screen) Accept(name string, level hclog.Level, msg string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case level < hclog.Info:
	case level > hclog.Info:
		s.log.ResetNamed(name).Log(level, msg, args...)
	case msg == "pool started":
		s.started++
		s.line("  pool %-16s %s", value(args, "pool"), poolStarted(args))
	case msg == "pool stopped":
		s.line("  pool %-16s stopped", value(args, "pool"))
	case strings.HasPrefix(msg, "Received ") && strings.HasSuffix(msg, " signal"):
		s.stopping = true
		s.line("\r\x1b[Kstopping; what runs may end first. Ctrl-C stops it at once")
	case msg == "Worker shutdown complete":
		s.line("stopped")
	case routine[msg] || strings.HasPrefix(msg, "Deregistering worker ID: "):
	default:
		s.log.ResetNamed(name).Log(level, msg, args...)
	}
}

// line writes one; the caller holds the lock. Only what this program says itself steers the terminal.
func (s *screen) line(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = visible(text)
		}
	}
	fmt.Fprintf(s.to, format+"\n", args...)
}

// poolStarted says how many workers of a pool there are.
func poolStarted(args []any) string {
	workers, ready := value(args, "workers"), value(args, "ready")
	text := workers + " workers"
	if workers == "1" {
		text = "1 worker"
	}
	if ready != workers {
		text = ready + " of " + text + " ready; `troupe pools` says why"
	}
	return text
}

// value is the value of a key among a message's pairs.
func value(args []any, key string) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == key {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}

// welcomeWait bounds how long the address waits for slow pools.
const welcomeWait = 5 * time.Second

// welcome says where the node is, and what to try, below the lines of its pools. It says nothing once ctx has ended: the node stops, or
// cannot go on.
func (s *screen) welcome(ctx context.Context, n *node.Keeper, name, scheme string, console bool) {
	for limit := time.Now().Add(welcomeWait); time.Now().Before(limit) && !(n.Backend().Ready(ctx).Ready && s.poolsAre(ctx, n, name)); {
		select {
		case <-time.After(trimLook):
		case <-ctx.Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping && ctx.Err() == nil {
		s.line("%s", "troupe listens on "+scheme+n.Addr())
		if console {
			s.line("%s", "console: "+scheme+n.Addr()+"/console/")
		}
		s.line("%s", "try: "+tryIt(scheme, n.Addr()))
	}
}

// poolsAre reports whether each pool of the node has its line: a node is ready a moment before its slowest pool logs its start.
func (s *screen) poolsAre(ctx context.Context, n *node.Keeper, name string) bool {
	pools, err := n.Backend().Pools(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.started >= len(pools.Pools)
}

// The schemes of a node's address.
const (
	schemePlain = "http://"
	schemeTLS   = "https://"
)

func schemeOf(l *config.Loaded) string {
	if l.TLS.CertFile != "" {
		return schemeTLS
	}
	return schemePlain
}

// tryIt is a command that works in another terminal.
func tryIt(scheme, address string) string {
	server := ""
	switch {
	case scheme+address == defaultServer:
	case scheme == schemePlain: // which is what is taken where none is given
		server = " --server " + address
	default:
		server = " --server " + scheme + address
	}
	return "troupe" + server + " submit core.echo message=hi --wait"
}
