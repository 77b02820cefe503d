// Command gowork is a worker in Go that writes down what it does, for the chaos suites.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

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
		"go_work": w.run, "go_redo": w.run, "go_fail": w.fail, "go_again": w.again,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type work struct{ log *os.File }

func (w *work) note(kind string, r *worker.Run) {
	fmt.Fprintf(w.log, "%s %s %d %d - 0 0 0\n", kind, r.Execution, r.Attempt, os.Getpid())
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

func (w *work) fail(_ context.Context, r *worker.Run) (any, error) {
	w.note("start", r)
	return nil, &worker.Error{Code: "as_asked", Message: "failed as asked"}
}

func (w *work) again(_ context.Context, r *worker.Run) (any, error) {
	w.note("start", r)
	yes := true
	return nil, &worker.Error{Code: "as_asked", Message: "try again", Retriable: &yes}
}
