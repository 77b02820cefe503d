// Command gowork is a worker in Go that writes down what it does, for the chaos suites.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	worker "github.com/troupe-run/troupe/sdk/go"
)

func main() {
	log, err := os.OpenFile(os.Getenv("CHAOS_LOG"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w := &work{log: log}
	err = worker.Serve(context.Background(), map[string]worker.Handler{
		"go_work": w.run, "go_redo": w.run, "go_fail": w.fail, "go_again": w.again, "go_count": w.count, "go_hold": w.hold,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type work struct{ log *os.File }

func (w *work) note(kind string, r *worker.Run) {
	session := "- 0 0 0"
	if s := r.Session; s != nil {
		session = fmt.Sprintf("%s %d %d %d", s.ID, s.Epoch, s.State, map[bool]int{true: 1}[s.Lost])
	}
	fmt.Fprintf(w.log, "%s %s %d %d %s %d\n", kind, r.Execution, r.Attempt, os.Getpid(), session, monotonic())
}

// monotonic is the clock that all processes of the machine share, in nanoseconds.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	return now.Nano()
}

// run works for some milliseconds, with a tick every few.
func (w *work) run(ctx context.Context, r *worker.Run) (any, error) {
	var p struct {
		MS int `json:"ms"`
	}
	if err := json.Unmarshal(r.Parameters, &p); err != nil {
		return nil, err
	}
	w.note("start", r)
	end := time.Now().Add(time.Duration(p.MS) * time.Millisecond)
	for time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(4 * time.Millisecond):
			w.note("tick", r)
		}
	}
	w.note("end", r)
	return map[string]any{"execution": r.Execution, "attempt": r.Attempt, "pid": os.Getpid()}, nil
}

// count counts the session's executions; the count lives in this process alone, which keeps no snapshots.
func (w *work) count(_ context.Context, r *worker.Run) (any, error) {
	n, _ := r.Session.State.(int)
	r.Session.State = n + 1
	w.note("start", r)
	w.note("end", r)
	return map[string]any{
		"execution": r.Execution, "attempt": r.Attempt, "pid": os.Getpid(), "count": n + 1, "lost": r.Session.Lost, "epoch": r.Session.Epoch,
	}, nil
}

// hold works as run does, and when it is repeated not at all.
func (w *work) hold(ctx context.Context, r *worker.Run) (any, error) {
	if r.Attempt > 1 {
		r.Parameters = json.RawMessage(`{}`)
	}
	return w.run(ctx, r)
}

func (w *work) fail(_ context.Context, r *worker.Run) (any, error) {
	w.note("start", r)
	return nil, &worker.Error{Code: "as_asked", Message: "failed as asked"}
}

func (w *work) again(_ context.Context, r *worker.Run) (any, error) {
	w.note("start", r)
	yes := true
	return nil, &worker.Error{Code: "as_asked", Message: "try again", Retriable: &yes}
}
