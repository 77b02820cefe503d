package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/api"
)

// BenchmarkBulk submits 50,000 no-op executions in batches of 10,000, durably, and reports the rate from the first
// placement to the last outcome.
func BenchmarkBulk(b *testing.B) {
	for range b.N {
		n := start(b, nil)
		before := cpu()
		began := time.Now()
		for range 5 {
			if _, err := n.Backend().Submit(context.Background(), requests("core.noop", 10_000, "")); err != nil {
				b.Fatal(err)
			}
		}
		submitted := time.Since(began)
		await(b, "idle", idle(n))
		took, count := span(b, n)
		b.ReportMetric(float64(count)/took.Seconds(), "executions/s")
		b.ReportMetric(float64(50_000)/submitted.Seconds(), "submitted/s")
		b.ReportMetric((cpu()-before).Seconds()/5, "cpu-s/10k")
		b.ReportMetric(float64(count), "completed")
	}
}

// BenchmarkCallers has 16 callers submit 20,000 executions one by one while they are worked off.
func BenchmarkCallers(b *testing.B) {
	for range b.N {
		n := start(b, nil)
		began := time.Now()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 1250 {
					if _, err := n.Backend().Submit(context.Background(), requests("core.noop", 1, "")); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		await(b, "idle", idle(n))
		b.ReportMetric(20_000/time.Since(began).Seconds(), "executions/s")
	}
}

// BenchmarkStartLatency submits 50 a second for ten seconds and reports the time from submit to start.
func BenchmarkStartLatency(b *testing.B) {
	for range b.N {
		n := start(b, nil)
		var samples []time.Duration
		var ids []messages.ExecutionID
		asked := map[messages.ExecutionID]time.Time{}
		ticker := time.NewTicker(20 * time.Millisecond)
		for range 500 {
			<-ticker.C
			at := time.Now()
			submitted, err := n.Backend().Submit(context.Background(), requests("core.noop", 1, ""))
			if err != nil {
				b.Fatal(err)
			}
			id := submitted[0].Execution.ID
			ids, asked[id] = append(ids, id), at
		}
		ticker.Stop()
		await(b, "idle", idle(n))
		for _, id := range ids {
			e, err := n.Backend().Get(context.Background(), id)
			if err != nil {
				b.Fatal(err)
			}
			samples = append(samples, e.StartedAt.Sub(asked[id]))
		}
		percentiles(b, "start", samples, time.Millisecond, "ms")
	}
}

// BenchmarkPythonEcho runs a warm Python echo end to end, durably, with 8 workers.
func BenchmarkPythonEcho(b *testing.B) {
	for range b.N {
		n := start(b, withPack(b, 8))
		if _, err := n.Backend().Submit(context.Background(), requests("bench.echo", 500, `{"text":"warm"}`)); err != nil {
			b.Fatal(err)
		}
		await(b, "warm", idle(n))
		began := time.Now()
		var batch []api.SubmitRequest = requests("bench.echo", 10_000, `{"text":"hello"}`)
		if _, err := n.Backend().Submit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		await(b, "idle", idle(n))
		b.ReportMetric(10_000/time.Since(began).Seconds(), "executions/s")
	}
}
