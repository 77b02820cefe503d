package bench

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/submit"
)

// moments collects the times at which workers of one pool were lost and became ready.
type moments struct {
	pool        string
	lost, ready chan time.Time
}

func watch(pool string) *moments {
	return &moments{pool: pool, lost: make(chan time.Time, 4096), ready: make(chan time.Time, 4096)}
}

func (m *moments) transition(pool string, e lifecycle.Entry) {
	switch {
	case pool != m.pool:
	case e.Reason == lifecycle.InitComplete:
		m.ready <- time.Now()
	case e.To == lifecycle.Terminating:
		m.lost <- time.Now()
	}
}

// steady allows an immediate restart after every failure, so that the benchmark measures restarts and not their back-off.
func steady(c *node.Config) { c.Restart = restart.Policy{Intensity: 1 << 20, Period: time.Second} }

// BenchmarkPanicRecovery reports the time from a go handler's panic until its worker is ready again.
func BenchmarkPanicRecovery(b *testing.B) {
	seen := watch("go")
	fell := make(chan time.Time, 1)
	n := start(b, func(c *node.Config) {
		steady(c)
		c.Workers = map[messages.Runtime]int{"go": 1}
		c.Actions = []messages.Action{{Ref: "bench.fall"}}
		c.Handlers = map[string]messages.Handler{"bench.fall": func(context.Context, *messages.Task) (any, error) {
			fell <- time.Now()
			panic("on purpose")
		}}
		c.Transitions = seen.transition
	})
	<-seen.ready
	var samples []time.Duration
	for range 500 {
		if _, err := n.Backend().Submit(context.Background(), requests("bench.fall", 1, "")); err != nil {
			b.Fatal(err)
		}
		at := <-fell
		samples = append(samples, (<-seen.ready).Sub(at))
	}
	percentiles(b, "ready", samples, time.Microsecond, "us")
}

// BenchmarkKillRecovery kills a Python worker by SIGKILL. It reports when the node noticed it, when the next worker was ready,
// and how long a start takes alone.
func BenchmarkKillRecovery(b *testing.B) {
	seen := watch("bench.echo")
	pack := withPack(b, 1)
	alone := ownStart(b)
	n := start(b, func(c *node.Config) { steady(c); pack(c); c.Transitions = seen.transition })
	<-seen.ready
	var noticed, replaced []time.Duration
	for range 30 {
		pid := pidOf(b, n, "bench.echo")
		at := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		lost := <-seen.lost
		noticed = append(noticed, lost.Sub(at))
		replaced = append(replaced, (<-seen.ready).Sub(at))
	}
	percentiles(b, "noticed", noticed, time.Millisecond, "ms")
	percentiles(b, "replaced", replaced, time.Millisecond, "ms")
	b.ReportMetric(float64(alone)/float64(time.Millisecond), "own-start-p50-ms")
}

func pidOf(b *testing.B, n *node.Node, pool string) int {
	b.Helper()
	pid := 0
	await(b, "a worker with a process", func() bool {
		all, err := n.Backend().Workers(context.Background(), pool, "")
		if err == nil && len(all.Workers) > 0 && all.Workers[0].State == "ready" {
			pid = all.Workers[0].Pid
		}
		return pid > 0
	})
	return pid
}

// BenchmarkStorm makes 1,000 handlers panic as fast as their pool allows. It reports how long 200 echoes take meanwhile in
// another pool.
func BenchmarkStorm(b *testing.B) {
	pack := withPack(b, 2)
	n := start(b, func(c *node.Config) {
		steady(c)
		pack(c)
		c.Actions = []messages.Action{{Ref: "bench.fall"}}
		c.Handlers = map[string]messages.Handler{"bench.fall": func(context.Context, *messages.Task) (any, error) { panic("on purpose") }}
	})
	before := echoes(b, n, 200)
	if _, err := n.Backend().Submit(context.Background(), requests("bench.fall", 1000, "")); err != nil {
		b.Fatal(err)
	}
	during := echoes(b, n, 200)
	await(b, "idle", idle(n))
	percentiles(b, "calm", before, time.Millisecond, "ms")
	percentiles(b, "storm", during, time.Millisecond, "ms")
}

// echoes runs Python echoes one after the other and returns the time of each from submit to outcome.
func echoes(b *testing.B, n *node.Node, count int) []time.Duration {
	b.Helper()
	var samples []time.Duration
	for range count {
		at := time.Now()
		submitted, err := n.Backend().Submit(context.Background(), []submit.Request{
			{ActionRef: "bench.echo", Parameters: json.RawMessage(`{"text":"hi"}`)},
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		e, err := n.Backend().Wait(ctx, submitted[0].Execution.ID)
		cancel()
		if err != nil || e.Status != messages.Completed {
			b.Fatalf("echo: %v %v", e.Status, err)
		}
		samples = append(samples, time.Since(at))
	}
	return samples
}
