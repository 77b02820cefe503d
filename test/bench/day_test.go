package bench

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// BenchmarkDay runs as many executions as a busy node has in a day, 1,000,000 (or TROUPE_BENCH_DAY). It reports memory,
// goroutines and descriptors after a tenth of them and at the end. A difference between the two is a leak.
func BenchmarkDay(b *testing.B) {
	total := 1_000_000
	if text := os.Getenv("TROUPE_BENCH_DAY"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 100_000 {
			b.Fatalf("TROUPE_BENCH_DAY: want a number from 100000, got %q", text)
		}
		total = n
	}
	n := start(b, nil)
	began := time.Now()
	for done := 0; done < total; done += 10_000 {
		if _, err := n.Backend().Submit(context.Background(), requests("core.noop", 10_000, "")); err != nil {
			b.Fatal(err)
		}
		awaitBy(b, 100*time.Millisecond, "worked off", func() bool { return waiting(n) < 20_000 })
		if done+10_000 == total/10 {
			await(b, "idle", idle(n))
			footprint(b, "tenth")
		}
	}
	await(b, "idle", idle(n))
	b.ReportMetric(float64(total)/time.Since(began).Seconds(), "executions/s")
	footprint(b, "end")
}

func footprint(b *testing.B, when string) {
	b.Helper()
	runtime.GC()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(resident(b, os.Getpid())/(1<<20), "resident-MiB-"+when)
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines-"+when)
	b.ReportMetric(float64(len(open)), "descriptors-"+when)
}
