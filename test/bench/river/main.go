// Command river measures River (riverqueue/river) on a Postgres server in the same ways as test/bench/full_test.go
// measures Troupe, so that one run on one server has both: no-op jobs loaded in bulk, callers who insert one by one
// while the jobs are worked off, and the time from insert to start at a steady rate.
//
// It is a separate module, so that a build of Troupe does not download River. It makes its own schema in the given
// database and drops it at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const schema = "river_bench"

// noop is the job. It has the time of its insert, for the latency.
type noop struct {
	At int64 `json:"at"` // nanoseconds since 1970
}

func (noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[noop]
	done    atomic.Int64
	mu      sync.Mutex
	keep    bool
	delayed []time.Duration
}

func (w *worker) Work(_ context.Context, job *river.Job[noop]) error {
	w.done.Add(1)
	if w.keep {
		took := time.Since(time.Unix(0, job.Args.At))
		w.mu.Lock()
		w.delayed = append(w.delayed, took)
		w.mu.Unlock()
	}
	return nil
}

type settings struct {
	url           string
	jobs, callers int
	starts        int
	workers       int
	cooldown      time.Duration
	poll          time.Duration
	postmaster    int
	only          string
}

func main() {
	var s settings
	flag.StringVar(&s.url, "url", "", "URL of the Postgres database")
	flag.IntVar(&s.jobs, "jobs", 50_000, "jobs loaded in bulk")
	flag.IntVar(&s.starts, "starts", 500, "jobs inserted at a steady rate for the time from insert to start")
	flag.IntVar(&s.callers, "callers", 16, "callers that insert one by one")
	flag.IntVar(&s.workers, "workers", 2000, "MaxWorkers, as River's own benchmark has it")
	flag.DurationVar(&s.cooldown, "cooldown", time.Millisecond, "FetchCooldown, tuned; River's default is 100ms")
	flag.DurationVar(&s.poll, "poll", 20*time.Millisecond, "FetchPollInterval, tuned; River's default is 1s")
	flag.IntVar(&s.postmaster, "postmaster", 0, "pid of the Postgres server, for its CPU time")
	flag.StringVar(&s.only, "only", "", "run only bulk, callers, tuned or default")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.url == "" {
		return errors.New("give the database as -url postgres://…")
	}
	cfg, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return err
	}
	cfg.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return err
	}
	defer func() { _, _ = pool.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE") }()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	parts := []struct {
		name string
		run  func() error
	}{
		{"bulk", func() error { return bulk(ctx, pool, s) }},
		{"callers", func() error { return callers(ctx, pool, s) }},
		{"tuned", func() error { return latency(ctx, pool, s, "tuned") }},
		{"default", func() error { return latency(ctx, pool, defaults(s), "default") }},
	}
	ran := false
	for _, part := range parts {
		if s.only != "" && s.only != part.name {
			continue
		}
		ran = true
		if err := part.run(); err != nil {
			return err
		}
	}
	if !ran {
		return fmt.Errorf("there is no part %q: give -only as bulk, callers, tuned or default", s.only)
	}
	return nil
}

func defaults(s settings) settings {
	s.cooldown, s.poll = river.FetchCooldownDefault, river.FetchPollIntervalDefault
	return s
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func client(pool *pgxpool.Pool, s settings, w *worker) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: schema, Workers: workers, Logger: quiet(), FetchCooldown: s.cooldown, FetchPollInterval: s.poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}},
	})
}

// bulk loads the jobs, then starts the client and times it from its start until the last job is completed in the store.
func bulk(ctx context.Context, pool *pgxpool.Pool, s settings) error {
	w := &worker{}
	c, err := client(pool, s, w)
	if err != nil {
		return err
	}
	loading := time.Now()
	const batch = 10_000
	for left := s.jobs; left > 0; left -= batch {
		jobs := make([]river.InsertManyParams, min(batch, left))
		for i := range jobs {
			jobs[i] = river.InsertManyParams{Args: noop{}}
		}
		if _, err := c.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	loaded := time.Since(loading)
	before, start := cpu(s.postmaster), time.Now()
	if err := c.Start(ctx); err != nil {
		return err
	}
	if err := completed(ctx, pool, s.jobs); err != nil {
		return err
	}
	took, used := time.Since(start), cpu(s.postmaster).minus(before)
	fmt.Printf("river bulk: %d jobs, loaded at %.0f/s, worked off at %.0f/s; cpu-seconds per 10,000: %s\n",
		s.jobs, float64(s.jobs)/loaded.Seconds(), float64(s.jobs)/took.Seconds(), used.per(s.jobs))
	return errors.Join(c.Stop(ctx), clear(ctx, pool))
}

// callers inserts one by one from several callers while the client works off.
func callers(ctx context.Context, pool *pgxpool.Pool, s settings) error {
	w := &worker{}
	c, err := client(pool, s, w)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	jobs := s.jobs * 2 / 5
	before, start := cpu(s.postmaster), time.Now()
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range s.callers {
		all.Go(func() {
			for range jobs / s.callers {
				if _, err := c.Insert(ctx, noop{}, nil); err != nil {
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
	if err := completed(ctx, pool, jobs/s.callers*s.callers); err != nil {
		return err
	}
	took, used := time.Since(start), cpu(s.postmaster).minus(before)
	fmt.Printf("river callers: %d callers, %d jobs, %.0f/s; cpu-seconds per 10,000: %s\n",
		s.callers, jobs, float64(jobs)/took.Seconds(), used.per(jobs))
	return errors.Join(c.Stop(ctx), clear(ctx, pool))
}

// latency inserts 50 jobs a second, for ten seconds unless told otherwise, and tells how long each took to start.
func latency(ctx context.Context, pool *pgxpool.Pool, s settings, how string) error {
	w := &worker{keep: true}
	c, err := client(pool, s, w)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	jobs := s.starts
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range jobs {
		<-tick.C
		if _, err := c.Insert(ctx, noop{At: time.Now().UnixNano()}, nil); err != nil {
			return err
		}
	}
	if err := completed(ctx, pool, jobs); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.delayed)
	fmt.Printf("river start latency at 50/s (%s: cooldown %v, poll %v): p50 %v, p99 %v\n", how, s.cooldown, s.poll,
		w.delayed[len(w.delayed)/2].Round(10*time.Microsecond), w.delayed[len(w.delayed)*99/100].Round(10*time.Microsecond))
	return errors.Join(c.Stop(ctx), clear(ctx, pool))
}

// completed waits until n jobs are completed in the store, up to five minutes.
func completed(ctx context.Context, pool *pgxpool.Pool, n int) error {
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		var left int
		err := pool.QueryRow(ctx, "SELECT count(*) FROM (SELECT 1 FROM "+schema+".river_job WHERE state <> 'completed' LIMIT 1) AS left_over").Scan(&left)
		if err != nil || left == 0 {
			return err
		}
	}
	return fmt.Errorf("%d jobs were not completed within five minutes", n)
}

func clear(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "TRUNCATE "+schema+".river_job")
	return err
}

// usage is CPU time by process.
type usage struct{ own, postgres time.Duration }

func (u usage) minus(v usage) usage { return usage{u.own - v.own, u.postgres - v.postgres} }

func (u usage) per(jobs int) string {
	scale := 10_000 / float64(jobs)
	text := fmt.Sprintf("client %.2f", u.own.Seconds()*scale)
	if u.postgres > 0 {
		text += fmt.Sprintf(", postgres %.2f", u.postgres.Seconds()*scale)
	}
	return text
}

func cpu(postmaster int) usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	u := usage{own: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	if postmaster > 0 {
		u.postgres = family(postmaster)
	}
	return u
}

// family is the CPU time of the server and its children, ended ones included.
func family(postmaster int) time.Duration {
	total := time.Duration(0)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parent, self, children := times(pid)
		if pid == postmaster {
			total += self + children
		} else if parent == postmaster {
			total += self
		}
	}
	return total
}

// times reads a process's parent, its own CPU time, and that of its children that have ended (proc(5): clock ticks of
// 1/100 s).
func times(pid int) (parent int, self, children time.Duration) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, 0, 0
	}
	number := func(i int) int {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0
		}
		return n
	}
	const tick = 10 * time.Millisecond
	return number(1), time.Duration(number(11)+number(12)) * tick, time.Duration(number(13)+number(14)) * tick
}
