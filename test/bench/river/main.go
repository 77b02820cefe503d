// Command river measures River (riverqueue/river) on a Postgres server, or on SQLite, in the same ways as test/bench measures
// Troupe, so that one run has both: no-op jobs loaded in bulk, callers who insert one by one while the jobs are worked off,
// and the time from insert to start at a steady rate.
//
// It is a separate module, so that a build of Troupe does not download River. On Postgres it makes its own schema in the given
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

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

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
	file          string
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
	flag.StringVar(&s.file, "file", "", "file of the SQLite database, instead of -url")
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
	switch {
	case (s.url == "") == (s.file == ""):
		return errors.New("give the database: -url postgres://… or -file PATH")
	case s.file != "":
		d, err := openSQLite(ctx, s.file)
		if err != nil {
			return err
		}
		return measure(ctx, d, s)
	default:
		d, err := openPostgres(ctx, s.url)
		if err != nil {
			return err
		}
		return measure(ctx, d, s)
	}
}

// database is one that River's tables are in. T is the transaction of its driver.
type database[T any] struct {
	driver riverdriver.Driver[T]
	schema string
	// rows counts the rows that a query finds, and exec runs a statement. In both {jobs} is the table of the jobs.
	rows  func(ctx context.Context, query string) (int, error)
	exec  func(ctx context.Context, statement string) error
	close func() error
}

// measure makes River's tables and runs the parts.
func measure[T any](ctx context.Context, d *database[T], s settings) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	migrator, err := rivermigrate.New(d.driver, &rivermigrate.Config{Schema: d.schema, Logger: quiet()})
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
		{"bulk", func() error { return bulk(ctx, d, s) }},
		{"callers", func() error { return callers(ctx, d, s) }},
		{"tuned", func() error { return latency(ctx, d, s, "tuned") }},
		{"default", func() error { return latency(ctx, d, defaults(s), "default") }},
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

func client[T any](d *database[T], s settings, w *worker) (*river.Client[T], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return river.NewClient(d.driver, &river.Config{
		Schema: d.schema, Workers: workers, Logger: quiet(), FetchCooldown: s.cooldown, FetchPollInterval: s.poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}},
	})
}

// bulk loads the jobs, then starts the client and times it from its start until the last job is completed in the store.
func bulk[T any](ctx context.Context, d *database[T], s settings) error {
	w := &worker{}
	c, err := client(d, s, w)
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
	if err := d.completed(ctx, s.jobs); err != nil {
		return err
	}
	took, used := time.Since(start), cpu(s.postmaster).minus(before)
	fmt.Printf("river bulk: %d jobs, loaded at %.0f/s, worked off at %.0f/s; cpu-seconds per 10,000: %s\n",
		s.jobs, float64(s.jobs)/loaded.Seconds(), float64(s.jobs)/took.Seconds(), used.per(s.jobs))
	return errors.Join(c.Stop(ctx), d.exec(ctx, "DELETE FROM {jobs}"))
}

// callers inserts one by one from several callers while the client works off.
func callers[T any](ctx context.Context, d *database[T], s settings) error {
	w := &worker{}
	c, err := client(d, s, w)
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
	if err := d.completed(ctx, jobs/s.callers*s.callers); err != nil {
		return err
	}
	took, used := time.Since(start), cpu(s.postmaster).minus(before)
	fmt.Printf("river callers: %d callers, %d jobs, %.0f/s; cpu-seconds per 10,000: %s\n",
		s.callers, jobs, float64(jobs)/took.Seconds(), used.per(jobs))
	return errors.Join(c.Stop(ctx), d.exec(ctx, "DELETE FROM {jobs}"))
}

// latency inserts 50 jobs a second, for ten seconds unless told otherwise, and tells how long each took to start.
func latency[T any](ctx context.Context, d *database[T], s settings, how string) error {
	w := &worker{keep: true}
	c, err := client(d, s, w)
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
	if err := d.completed(ctx, jobs); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.delayed)
	fmt.Printf("river start latency at 50/s (%s: cooldown %v, poll %v): p50 %v, p99 %v\n", how, s.cooldown, s.poll,
		w.delayed[len(w.delayed)/2].Round(10*time.Microsecond), w.delayed[len(w.delayed)*99/100].Round(10*time.Microsecond))
	return errors.Join(c.Stop(ctx), d.exec(ctx, "DELETE FROM {jobs}"))
}

// completed waits until n jobs are completed in the store, up to five minutes: first the last one, whose row an index finds, and then all.
func (d *database[T]) completed(ctx context.Context, n int) error {
	looks := []string{
		"SELECT count(*) FROM {jobs} WHERE id = (SELECT max(id) FROM {jobs}) AND state <> 'completed'",
		"SELECT count(*) FROM (SELECT 1 FROM {jobs} WHERE state <> 'completed' LIMIT 1) AS left_over",
	}
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		left, err := d.rows(ctx, looks[0])
		if err == nil && left == 0 && len(looks) > 1 {
			looks = looks[1:]
			left, err = d.rows(ctx, looks[0])
		}
		if err != nil || left == 0 {
			return err
		}
	}
	return fmt.Errorf("%d jobs were not completed within five minutes", n)
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
