package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// benchLabel marks a run's executions, so that they can be counted.
const benchLabel = "troupe-bench"

// load is the verb bench: what it submits, and how.
type load struct {
	*app
	action         string
	count, callers int
	batch          int
	params         string
	run            string
	deadline       time.Duration
}

// rates is what a run measured. Rates are per second, times in milliseconds.
type rates struct {
	Action         string         `json:"action"`
	Executions     int            `json:"executions"`
	Callers        int            `json:"callers"`
	Batch          int            `json:"batch"`
	SubmitSeconds  float64        `json:"submit_seconds"`
	SubmitRate     float64        `json:"submit_rate"`
	SubmitP50      float64        `json:"submit_p50_ms"`
	SubmitP99      float64        `json:"submit_p99_ms"`
	FinishSeconds  float64        `json:"finish_seconds"` // first placement to last outcome
	FinishRate     float64        `json:"finish_rate"`
	SubmitToStart  float64        `json:"submit_to_start_p50_ms"`
	SubmitToStart9 float64        `json:"submit_to_start_p99_ms"`
	Statuses       map[string]int `json:"statuses"`
}

func (l *load) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Submit many small executions to a running node and report the rates", Args: exactly(),
		Example: "  troupe bench -n 50000 --batch 1000\n  troupe bench -n 20000 --callers 16 --batch 1",
	}
	f := cmd.Flags()
	f.StringVar(&l.action, "action", "core.noop", "action to run")
	f.StringVar(&l.params, "params", "{}", "its parameters, a JSON object")
	f.IntVarP(&l.count, "count", "n", 10_000, "executions")
	f.IntVar(&l.callers, "callers", 1, "callers at once")
	f.IntVar(&l.batch, "batch", 1000, "executions of one call; 1: one by one")
	f.DurationVar(&l.deadline, "deadline", 10*time.Minute, "how long the run may take")
	cmd.RunE = l.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if l.count < 1 || l.callers < 1 || l.callers > 1024 || l.batch < 1 || l.batch > messages.BatchMax {
			return usagef("want --count 1 or more, --callers 1 to 1024 and --batch 1 to %d", messages.BatchMax)
		}
		l.run = messages.NewExecutionID().String()
		ctx, cancel := context.WithTimeout(ctx, l.deadline)
		defer cancel()
		r, err := l.measure(ctx, c)
		if err != nil {
			return fmt.Errorf("bench (executions carry the label %s=%s): %w", benchLabel, l.run, err)
		}
		return l.showRates(r)
	})
	return cmd
}

func (l *load) measure(ctx context.Context, c *client.Client) (rates, error) {
	p := &progress{app: l.app}
	defer p.done()
	r := rates{Action: l.action, Executions: l.count, Callers: l.callers, Batch: l.batch}
	began := time.Now()
	times, err := l.submitAll(ctx, c, func(n int64) { p.say("submitted %d of %d", n, l.count) })
	if err != nil {
		return r, err
	}
	r.SubmitSeconds = time.Since(began).Seconds()
	r.SubmitRate = float64(l.count) / r.SubmitSeconds
	r.SubmitP50, r.SubmitP99 = quantiles(times)
	if err := l.ended(ctx, c, p); err != nil {
		return r, err
	}
	return r, l.judge(ctx, c, &r)
}

// submitAll submits everything with as many callers at once, and returns how long each call took.
func (l *load) submitAll(ctx context.Context, c *client.Client, said func(int64)) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	times := make([][]time.Duration, l.callers)
	var callers sync.WaitGroup
	for i := range l.callers {
		callers.Go(func() {
			for {
				n := min(l.batch, l.count-int(next.Add(int64(l.batch)))+l.batch)
				if n <= 0 || ctx.Err() != nil {
					return
				}
				at := time.Now()
				if err := l.call(ctx, c, n); err != nil {
					cancel(err)
					return
				}
				times[i] = append(times[i], time.Since(at))
				if total := done.Add(int64(n)); total%1000 < int64(n) {
					said(total)
				}
			}
		})
	}
	callers.Wait()
	return slices.Concat(times...), context.Cause(ctx)
}

func (l *load) call(ctx context.Context, c *client.Client, n int) error {
	r := submit.Request{ActionRef: l.action, Parameters: json.RawMessage(l.params), Labels: map[string]string{benchLabel: l.run}}
	if l.batch == 1 {
		_, err := c.Submit(ctx, r, 0)
		return err
	}
	_, err := c.SubmitBatch(ctx, slices.Repeat([]submit.Request{r}, n))
	return err
}

func (l *load) query(statuses string, limit int) url.Values {
	q := url.Values{"label": {benchLabel + "=" + l.run}, "limit": {fmt.Sprint(limit)}}
	if statuses != "" {
		q.Set("status", statuses)
	}
	return q
}

// ended waits until none of the run's executions is left.
func (l *load) ended(ctx context.Context, c *client.Client, p *progress) error {
	const look = 100 * time.Millisecond
	for {
		page, err := c.Executions(ctx, l.query("requested,scheduling,scheduled,running,cancelling", 1))
		if err != nil || len(page.Executions) == 0 {
			return err
		}
		p.say("waiting for %s and those before it", page.Executions[0].ID)
		if _, err := c.WaitFor(ctx, page.Executions[0].ID.String(), time.Second); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}

// judge reads the run's executions and computes what they say.
func (l *load) judge(ctx context.Context, c *client.Client, r *rates) error {
	r.Statuses = map[string]int{}
	all, _, err := pages(ctx, c, l.query("", pageMax), span{}, l.count+1)
	if err != nil {
		return err
	}
	var first, last time.Time
	var starts []time.Duration
	for _, e := range all.Executions {
		r.Statuses[e.Status.String()]++
		placed := e.ScheduledAt
		if placed.IsZero() { // it was handed to its worker directly, and its claim placed it
			placed = e.StartedAt
		}
		if first.IsZero() || placed.Before(first) {
			first = placed
		}
		if e.FinishedAt.After(last) {
			last = e.FinishedAt
		}
		starts = append(starts, e.StartedAt.Sub(e.RequestedAt))
	}
	if span := last.Sub(first).Seconds(); span > 0 {
		r.FinishSeconds, r.FinishRate = span, float64(len(all.Executions))/span
	}
	r.SubmitToStart, r.SubmitToStart9 = quantiles(starts)
	return nil
}

// quantiles returns the median and the 99th percentile, in milliseconds.
func quantiles(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[min(int(q*float64(len(times))), len(times)-1)].Microseconds()) / 1000
	}
	return at(0.5), at(0.99)
}

func (l *load) showRates(r rates) error {
	rows := [][]string{
		{"submitted", fmt.Sprintf("%d of %s, %d a call, %d callers", r.Executions, r.Action, r.Batch, r.Callers)},
		{"submit rate", fmt.Sprintf("%.0f/s", r.SubmitRate)},
		{"submit call", fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", r.SubmitP50, r.SubmitP99)},
		{"finish rate", fmt.Sprintf("%.0f/s, first placement to last outcome", r.FinishRate)},
		{"submit to start", fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", r.SubmitToStart, r.SubmitToStart9)},
	}
	for _, s := range messages.Statuses() {
		if n := r.Statuses[s.String()]; n > 0 {
			rows = append(rows, []string{s.String(), fmt.Sprint(n)})
		}
	}
	return l.show(r, []string{"MEASURED", "VALUE"}, rows)
}
