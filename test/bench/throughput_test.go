package bench

import (
	"context"
	"testing"
	"time"
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
func BenchmarkCallers(b *testing.B) { callers(b, nil, nil, false) }

// BenchmarkStartLatency submits 50 a second for ten seconds and reports the time from submit to start.
func BenchmarkStartLatency(b *testing.B) { startLatency(b, nil) }

// BenchmarkPythonEcho runs a warm Python echo end to end, durably, with 8 workers.
func BenchmarkPythonEcho(b *testing.B) { pythonEcho(b, withPack(b, 8)) }
