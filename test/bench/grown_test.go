package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// BenchmarkGrown compares the bulk rate of a node whose embedded store has 1,000,000 ended executions with that of a node whose store has few.
func BenchmarkGrown(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { grownBulk(b, nil, nil) })
}

// BenchmarkFullGrown is BenchmarkGrown on Postgres alone, and with RabbitMQ, where a part is over when all notices are sent.
func BenchmarkFullGrown(b *testing.B) {
	f := startFull(b)
	b.Run("Postgres", func(b *testing.B) { grownBulk(b, f, directly) })
	b.Run("RabbitMQ", func(b *testing.B) { grownBulk(b, f, tellingDefaults) })
}

// grownTurns is how often each of the two nodes is measured, by turns.
const grownTurns = 5

// grownBulk has a node execute 1,000,000 executions, or TROUPE_BENCH_GROWN, and then measures parts of 20,000 as bulk does, by turns on
// that node and on one that has just begun. Nothing is written by other ways than those of a node, and nothing is vacuumed but by the
// server itself. It reports the medians.
func grownBulk(b *testing.B, f *full, change func(*node.Config)) {
	total := scaled(1_000_000)
	if text := os.Getenv("TROUPE_BENCH_GROWN"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 10_000 {
			b.Fatalf("TROUPE_BENCH_GROWN: want a number from 10000, got %q", text)
		}
		total = n
	}
	for range b.N {
		began := time.Now()
		grown := newSide(b, f, change)
		grow(b, grown.node, total)
		grown.told()
		b.Logf("%d executions within %s", total, time.Since(began).Round(time.Second))
		fresh := newSide(b, f, change)
		fresh.part(b, f) // both are warm
		var first, last []grownPart
		for range grownTurns {
			first, last = append(first, fresh.part(b, f)), append(last, grown.part(b, f))
			b.Logf("load %s: %s; grown: %s", load(), first[len(first)-1], last[len(last)-1])
		}
		reportGrown(b, f, first, last)
	}
}

// grow has the node execute so many executions as fast as it does.
func grow(b *testing.B, n *node.Node, total int) {
	b.Helper()
	for done := 0; done < total; done += 10_000 {
		if _, err := n.Backend().Submit(context.Background(), requests("core.noop", 10_000, "")); err != nil {
			b.Fatal(err)
		}
		awaitBy(b, 50*time.Millisecond, "worked off", func() bool { return waiting(n) < 40_000 })
	}
	await(b, "idle", idle(n))
}

// grownSide is a node that is measured by turns with another one.
type grownSide struct {
	node *node.Node
	told func() // waits until all notices are sent
}

func newSide(b *testing.B, f *full, change func(*node.Config)) grownSide {
	b.Helper()
	n := start(b, f.on(b, change))
	return grownSide{n, f.told(b)}
}

// grownPart is the rate of a part, and the CPU time that it used for 10,000 executions.
type grownPart struct {
	rate float64
	used processors
}

func (p grownPart) cpu() float64 { return (p.used.node + p.used.postgres + p.used.rabbitmq).Seconds() }

func (p grownPart) String() string {
	return fmt.Sprintf("%.0f/s, %.2f cpu-s (%.2f + %.2f + %.2f)", p.rate, p.cpu(), p.used.node.Seconds(), p.used.postgres.Seconds(), p.used.rabbitmq.Seconds())
}

// part measures 20,000 executions as bulk does.
func (s grownSide) part(b *testing.B, f *full) grownPart {
	b.Helper()
	count := scaled(20_000)
	last := loadClosed(b, s.node, count)
	before, began := f.usage(), time.Now()
	openPool(b, s.node)
	workedOff(b, s.node, last)
	s.told()
	took, after := time.Since(began), f.usage()
	per := func(from, to time.Duration) time.Duration { return (to - from) * 10_000 / time.Duration(count) }
	return grownPart{float64(count) / took.Seconds(), processors{
		per(before.node, after.node), per(before.postgres, after.postgres), per(before.rabbitmq, after.rabbitmq),
	}}
}

// reportGrown reports the medians of the grown store, and compares them with those of the other one.
func reportGrown(b *testing.B, f *full, first, last []grownPart) {
	b.Helper()
	middle := func(parts []grownPart, of func(grownPart) float64) float64 {
		all := make([]float64, len(parts))
		for i, p := range parts {
			all[i] = of(p)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	rate := func(p grownPart) float64 { return p.rate }
	b.ReportMetric(middle(last, rate)/middle(first, rate), "of-first-rate")
	b.ReportMetric(middle(last, grownPart.cpu)/middle(first, grownPart.cpu), "of-first-cpu")
	b.ReportMetric(middle(first, rate), "first-executions/s")
	b.ReportMetric(middle(last, rate), "executions/s")
	b.ReportMetric(middle(last, func(p grownPart) float64 { return p.used.node.Seconds() }), "node-cpu-s/10k")
	if f != nil {
		b.ReportMetric(middle(last, func(p grownPart) float64 { return p.used.postgres.Seconds() }), "postgres-cpu-s/10k")
		b.ReportMetric(middle(last, func(p grownPart) float64 { return p.used.rabbitmq.Seconds() }), "rabbitmq-cpu-s/10k")
	}
}

// loadClosed closes the pool of core.noop and stores so many executions of it, in five calls. It returns the last one.
func loadClosed(b *testing.B, n *node.Node, count int) (last messages.ExecutionID) {
	b.Helper()
	if err := n.Backend().CordonPool(context.Background(), "go", true, "bench"); err != nil {
		b.Fatal(err)
	}
	for range 5 {
		answers, err := n.Backend().Submit(context.Background(), requests("core.noop", count/5, ""))
		if err != nil {
			b.Fatal(err)
		}
		last = answers[len(answers)-1].Execution.ID
	}
	return last
}

func openPool(b *testing.B, n *node.Node) {
	b.Helper()
	if err := n.Backend().CordonPool(context.Background(), "go", false, "bench"); err != nil {
		b.Fatal(err)
	}
}
