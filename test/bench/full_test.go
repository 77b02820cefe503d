package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/test/servers"
)

// full is a private Postgres and a private RabbitMQ, as they are installed (fsync and synchronous_commit on), which the
// benchmarks of the full mode and River share.
type full struct {
	postgres *servers.PostgresServer
	rabbitmq *servers.RabbitMQServer
	database int
	counted  bool // Postgres keeps statistics of statements
}

func startFull(b *testing.B) *full {
	b.Helper()
	return &full{
		postgres: servers.PrivatePostgres(b, servers.PostgresOptions{Settings: map[string]string{"max_connections": "200"}}),
		rabbitmq: servers.PrivateRabbitMQ(b, servers.RabbitMQOptions{}),
	}
}

// fresh makes an empty database and returns its URL.
func (f *full) fresh(b *testing.B) string {
	b.Helper()
	f.database++
	if err := servers.Execute(f.postgres.URL, "CREATE DATABASE "+f.name()); err != nil {
		b.Fatal(err)
	}
	return f.newest()
}

// name is that of the database that was made last, and newest its URL.
func (f *full) name() string { return "bench_" + strconv.Itoa(f.database) }

func (f *full) newest() string {
	return strings.Replace(f.postgres.URL, "/postgres?", "/"+f.name()+"?", 1)
}

// on has a node use the servers, with a database and a prefix of its own.
func (f *full) on(b *testing.B, change func(*node.Config)) func(*node.Config) {
	b.Helper()
	return f.at(f.fresh(b), change)
}

// at has a node use the servers, with the database that was made last.
func (f *full) at(url string, change func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		c.StoreURL, c.BrokerURL = url, f.rabbitmq.URL
		c.Broker.Prefix = fmt.Sprintf("bench%d", f.database)
		c.NoticesOff = true // River tells nobody either; BulkTold has them on
		if change != nil {
			change(c)
		}
	}
}

// BenchmarkFull measures the full mode side by side with River on the same Postgres: bulk, callers and start latency,
// as River's own module in this folder does, and what only Troupe has.
func BenchmarkFull(b *testing.B) {
	f := startFull(b)
	b.Run("River", func(b *testing.B) { b.Log("\n" + river(b, f)) })
	b.Run("Bulk", func(b *testing.B) { fullBulk(b, f, nil) })
	b.Run("BulkTold", func(b *testing.B) { fullBulk(b, f, func(c *node.Config) { c.NoticesOff = false }) })
	b.Run("Callers", func(b *testing.B) { callers(b, f.on(b, nil), f, false) })
	b.Run("CallersWithKeys", func(b *testing.B) { callers(b, f.on(b, nil), f, true) })
	b.Run("BulkBeside", func(b *testing.B) {
		besideRiver(b, f, "bulk", func(b *testing.B) float64 { return fullBulk(b, f, nil) })
	})
	b.Run("CallersBeside", func(b *testing.B) {
		besideRiver(b, f, "callers", func(b *testing.B) float64 { return callers(b, f.on(b, nil), f, false) })
	})
	b.Run("StartLatency", func(b *testing.B) { startLatency(b, f.on(b, nil)) })
	b.Run("PythonEcho", func(b *testing.B) { pythonEcho(b, f.on(b, withPack(b, 8))) })
	b.Run("PythonBeside", func(b *testing.B) { besideCelery(b, f) })
}

// fullBulk loads 50,000 no-op executions while their pool is cordoned, then opens it, as River's client is started after
// its jobs were loaded. It returns the last rate.
func fullBulk(b *testing.B, f *full, change func(*node.Config)) (rate float64) {
	for range b.N {
		n := start(b, f.on(b, change))
		if err := n.Backend().CordonPool(context.Background(), "go", true, "bench"); err != nil {
			b.Fatal(err)
		}
		loading := time.Now()
		for range 5 {
			if _, err := n.Backend().Submit(context.Background(), requests("core.noop", 10_000, "")); err != nil {
				b.Fatal(err)
			}
		}
		loaded := time.Since(loading)
		before := f.usage()
		if err := n.Backend().CordonPool(context.Background(), "go", false, "bench"); err != nil {
			b.Fatal(err)
		}
		await(b, "idle", idle(n))
		used := f.usage()
		took, count := span(b, n)
		rate = float64(count) / took.Seconds()
		b.ReportMetric(rate, "executions/s")
		b.ReportMetric(50_000/loaded.Seconds(), "submitted/s")
		b.ReportMetric(float64(count), "completed")
		f.report(b, before, used, count)
	}
	return rate
}

// processors is CPU time by process.
type processors struct{ node, postgres, rabbitmq time.Duration }

func (f *full) usage() processors {
	return processors{cpu(), ticks(f.postgres.Pids()), ticks(f.rabbitmq.Pids())}
}

// report gives the CPU time between two looks in seconds per 10,000 executions.
func (f *full) report(b *testing.B, from, to processors, count int) {
	scale := 10_000 / float64(count)
	b.ReportMetric((to.node-from.node).Seconds()*scale, "node-cpu-s/10k")
	b.ReportMetric((to.postgres-from.postgres).Seconds()*scale, "postgres-cpu-s/10k")
	b.ReportMetric((to.rabbitmq-from.rabbitmq).Seconds()*scale, "rabbitmq-cpu-s/10k")
}

// ticks is the CPU time of processes, with what their ended children had used (proc(5): clock ticks of 1/100 s).
func ticks(pids []int) time.Duration {
	total := 0
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue // it has ended between the two looks; its parent counts it
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		for _, field := range fields[11:15] {
			n, err := strconv.Atoi(field)
			if err == nil {
				total += n
			}
		}
	}
	return time.Duration(total) * 10 * time.Millisecond
}

// callers has 16 callers submit 20,000 executions one by one, each with an idempotency key if keys, while they are worked off. It
// returns the last rate.
func callers(b *testing.B, change func(*node.Config), f *full, keys bool) (rate float64) {
	for range b.N {
		n := start(b, change)
		var before processors
		if f != nil {
			before = f.usage()
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 1250 {
					request := requests("core.noop", 1, "")
					if keys {
						request[0].IdempotencyKey = messages.NewExecutionID().String()
					}
					if _, err := n.Backend().Submit(context.Background(), request); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		await(b, "idle", idle(n))
		rate = 20_000 / time.Since(began).Seconds()
		b.ReportMetric(rate, "executions/s")
		if f != nil {
			f.report(b, before, f.usage(), 20_000)
		}
	}
	return rate
}

// startLatency submits 50 a second for ten seconds and reports the time from submit to start.
func startLatency(b *testing.B, change func(*node.Config)) {
	for range b.N {
		steadily(b, start(b, change), 500, []string{"core.noop"})
	}
}

// steadily submits so many executions of the actions in turn, 50 a second, and reports the time from submit to start.
func steadily(b *testing.B, n *node.Node, count int, actions []string) {
	b.Helper()
	var samples []time.Duration
	var ids []messages.ExecutionID
	asked := map[messages.ExecutionID]time.Time{}
	ticker := time.NewTicker(20 * time.Millisecond)
	for i := range count {
		<-ticker.C
		at := time.Now()
		submitted, err := n.Backend().Submit(context.Background(), requests(actions[i%len(actions)], 1, ""))
		if err != nil {
			b.Fatal(err)
		}
		id := submitted[0].Execution.ID
		ids, asked[id] = append(ids, id), at
	}
	ticker.Stop()
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		e, err := n.Backend().Wait(ctx, id)
		cancel()
		if err != nil || e.Status != messages.Completed {
			b.Fatalf("execution %s is %s: %v", id, e.Status, err)
		}
		samples = append(samples, e.StartedAt.Sub(asked[id]))
	}
	percentiles(b, "start", samples, time.Millisecond, "ms")
}

// pythonEcho runs a warm Python echo end to end, durably.
func pythonEcho(b *testing.B, change func(*node.Config)) (rate float64) {
	for range b.N {
		n := start(b, change)
		if _, err := n.Backend().Submit(context.Background(), requests("bench.echo", 500, `{"text":"warm"}`)); err != nil {
			b.Fatal(err)
		}
		await(b, "warm", idle(n))
		began := time.Now()
		if _, err := n.Backend().Submit(context.Background(), requests("bench.echo", 10_000, `{"text":"hello"}`)); err != nil {
			b.Fatal(err)
		}
		await(b, "idle", idle(n))
		rate = 10_000 / time.Since(began).Seconds()
		b.ReportMetric(rate, "executions/s")
	}
	return rate
}
