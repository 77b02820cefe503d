// Command gonode is a program with a node inside it, whose one handler writes down when it was told to stop, for the
// chaos suites. It reads those settings of `troupe node` that it needs from the environment.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
)

func main() {
	embedded.RunHelper()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log, err := os.OpenFile(os.Getenv("CHAOS_HELD"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	h := &holder{log: log}
	t, err := embedded.New(embedded.Config{
		Data: os.Getenv("TROUPE_DATA"), Store: os.Getenv("TROUPE_STORE_URL"), Broker: os.Getenv("TROUPE_MESSAGE_QUEUE_RABBITMQ_URL"),
		Prefix: os.Getenv("TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX"), Name: os.Getenv("TROUPE_NODE_NAME"), Listen: os.Getenv("TROUPE_LISTEN"),
		Workers: 4, Logger: hclog.New(&hclog.LoggerOptions{Name: "troupe", JSONFormat: true, Output: os.Stderr}),
	}, troupe.Action{Name: "chaos.hold", Handler: h.hold, Idempotent: true, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if err := t.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return t.Stop(context.Background())
}

type holder struct{ log *os.File }

func (h *holder) note(kind string, t *troupe.Task) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	fmt.Fprintf(h.log, "%s %s %d %d %d\n", kind, t.ID, t.Attempt, os.Getpid(), now.Nano())
}

// hold works for some milliseconds, with a tick every few, unless it is told to stop; when it is repeated, not at all.
func (h *holder) hold(ctx context.Context, t *troupe.Task) (any, error) {
	var p struct {
		MS int `json:"ms"`
	}
	if err := json.Unmarshal(t.Parameters, &p); err != nil {
		return nil, err
	}
	h.note("start", t)
	if t.Attempt > 1 {
		p.MS = 0
	}
	end := time.After(time.Duration(p.MS) * time.Millisecond)
	for {
		select {
		case <-ctx.Done():
			h.note("told", t)
			return nil, ctx.Err()
		case <-end:
			h.note("end", t)
			return "held", nil
		case <-time.After(5 * time.Millisecond):
			h.note("tick", t)
		}
	}
}
