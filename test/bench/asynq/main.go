// Command asynq measures Asynq (hibiken/asynq) on a Redis server of its own, in the same ways as test/bench measures Troupe, so
// that one run has both: no-op tasks loaded in bulk, callers who enqueue one by one while the tasks are worked off, and the
// time from enqueueing to start at a steady rate.
//
// It is a separate module, so that a build of Troupe does not download Asynq. The server listens on a socket in a temporary
// folder and ends with the command.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const kind = "noop"

// noop is the payload of a task: the time when it was enqueued, for the latency.
type noop struct {
	At int64 `json:"at"` // nanoseconds since 1970
}

// handler counts the tasks that ran, and keeps how long each took to start.
type handler struct {
	mu      sync.Mutex
	keep    bool
	delayed []time.Duration
}

// ProcessTask implements asynq.Handler.
func (h *handler) ProcessTask(_ context.Context, t *asynq.Task) error {
	if !h.keep {
		return nil
	}
	var payload noop
	if err := json.Unmarshal(t.Payload(), &payload); err != nil {
		return err
	}
	took := time.Since(time.Unix(0, payload.At))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delayed = append(h.delayed, took)
	return nil
}

type settings struct {
	sync          string
	jobs, callers int
	starts        int
	workers       int
	check         time.Duration
	only          string
}

func main() {
	var s settings
	flag.StringVar(&s.sync, "sync", "always", "when Redis writes to the disk: always, everysec, or default, its own default without an append-only file")
	flag.IntVar(&s.jobs, "jobs", 50_000, "tasks loaded in bulk")
	flag.IntVar(&s.starts, "starts", 500, "tasks enqueued at a steady rate for the time from enqueueing to start")
	flag.IntVar(&s.callers, "callers", 16, "callers that enqueue one by one")
	flag.IntVar(&s.workers, "workers", 100, "Concurrency; Asynq's default is the number of CPUs")
	flag.DurationVar(&s.check, "check", time.Millisecond, "TaskCheckInterval, tuned; Asynq's default is 1s")
	flag.StringVar(&s.only, "only", "", "run only bulk, callers, or start")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	server, err := startRedis(s.sync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	q := &queue{redis: server, client: asynq.NewClient(server.options()), inspector: asynq.NewInspector(server.options())}
	defer func() { err = errors.Join(err, q.client.Close(), q.inspector.Close()) }()
	parts := map[string]func(context.Context, *queue, settings) error{"bulk": bulk, "callers": callers, "start": latency}
	names := []string{"bulk", "callers", "start"}
	if s.only != "" {
		if parts[s.only] == nil {
			return fmt.Errorf("there is no part %q: give -only as bulk, callers or start", s.only)
		}
		names = []string{s.only}
	}
	for _, name := range names {
		if err := parts[name](ctx, q, s); err != nil {
			return err
		}
	}
	return nil
}

// queue is the one queue of a Redis server.
type queue struct {
	redis     *redis
	client    *asynq.Client
	inspector *asynq.Inspector
}

// serve starts the workers.
func (q *queue) serve(s settings, h *handler) (*asynq.Server, error) {
	server := asynq.NewServer(q.redis.options(), asynq.Config{Concurrency: s.workers, TaskCheckInterval: s.check, LogLevel: asynq.FatalLevel})
	mux := asynq.NewServeMux()
	mux.Handle(kind, h)
	return server, server.Start(mux)
}

// enqueue stores one task.
func (q *queue) enqueue(ctx context.Context) error {
	payload, err := json.Marshal(noop{At: time.Now().UnixNano()})
	if err != nil {
		return err
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(kind, payload))
	return err
}

// enqueueAll has callers store count tasks in all, one by one.
func (q *queue) enqueueAll(ctx context.Context, callers, count int) error {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range callers {
		all.Go(func() {
			for range count / callers {
				if err := q.enqueue(ctx); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// completed waits until no task is left, up to five minutes. Asynq deletes a task that has completed.
func (q *queue) completed() error {
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		info, err := q.inspector.GetQueueInfo("default")
		switch {
		case err != nil:
			return err
		case info.Retry+info.Archived > 0:
			return fmt.Errorf("%d tasks failed", info.Retry+info.Archived)
		case info.Size == 0:
			return nil
		}
	}
	return errors.New("tasks were not completed within five minutes")
}

// bulk stores the tasks, then starts the workers, and times them from their start until no task is left. Asynq has no call that
// stores many tasks: 16 callers store them one by one.
func bulk(ctx context.Context, q *queue, s settings) error {
	jobs := s.jobs / s.callers * s.callers
	loading := time.Now()
	if err := q.enqueueAll(ctx, s.callers, jobs); err != nil {
		return err
	}
	loaded := time.Since(loading)
	before, start := q.redis.usage(), time.Now()
	server, err := q.serve(s, &handler{})
	if err != nil {
		return err
	}
	if err := q.completed(); err != nil {
		return err
	}
	took, used := time.Since(start), q.redis.usage().minus(before)
	fmt.Printf("asynq bulk: %d tasks, loaded at %.0f/s, worked off at %.0f/s; cpu-seconds per 10,000: %s\n",
		jobs, float64(jobs)/loaded.Seconds(), float64(jobs)/took.Seconds(), used.per(jobs))
	server.Shutdown()
	return nil
}

// callers has callers enqueue one by one while the workers run.
func callers(ctx context.Context, q *queue, s settings) error {
	server, err := q.serve(s, &handler{})
	if err != nil {
		return err
	}
	jobs := s.jobs * 2 / 5 / s.callers * s.callers
	before, start := q.redis.usage(), time.Now()
	if err := q.enqueueAll(ctx, s.callers, jobs); err != nil {
		return err
	}
	if err := q.completed(); err != nil {
		return err
	}
	took, used := time.Since(start), q.redis.usage().minus(before)
	fmt.Printf("asynq callers: %d callers, %d tasks, %.0f/s; cpu-seconds per 10,000: %s\n",
		s.callers, jobs, float64(jobs)/took.Seconds(), used.per(jobs))
	server.Shutdown()
	return nil
}

// latency enqueues 50 tasks a second and tells how long each took to start.
func latency(ctx context.Context, q *queue, s settings) error {
	h := &handler{keep: true}
	server, err := q.serve(s, h)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range s.starts {
		<-tick.C
		if err := q.enqueue(ctx); err != nil {
			return err
		}
	}
	if err := q.completed(); err != nil {
		return err
	}
	server.Shutdown()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.delayed)
	fmt.Printf("asynq start latency at 50/s (check %v): p50 %v, p99 %v\n", s.check,
		h.delayed[len(h.delayed)/2].Round(10*time.Microsecond), h.delayed[len(h.delayed)*99/100].Round(10*time.Microsecond))
	return nil
}
