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

// full is a private Postgres and a private RabbitMQ with their default settings (fsync and synchronous_commit on). The benchmarks
// of the full mode and River share them.
type full struct {
	postgres *servers.PostgresServer
	rabbitmq *servers.RabbitMQServer
	database int
	counted  bool // Postgres counts statements
}

func startFull(b *testing.B) *full {
	b.Helper()
	f := &full{
		postgres: servers.PrivatePostgres(b, servers.PostgresOptions{Settings: map[string]string{"max_connections": "200"}}),
		rabbitmq: servers.PrivateRabbitMQ(b, servers.RabbitMQOptions{}),
	}
	f.versions(b)
	return f
}

// versions prints the servers' versions, in the form of a setting in benchmarks' output.
func (f *full) versions(b *testing.B) {
	b.Helper()
	rows, err := servers.Query(f.postgres.URL, "SHOW server_version")
	if err != nil {
		b.Fatal(err)
	}
	rabbitmq, err := f.rabbitmq.Ctl("version")
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("postgres: %s\nrabbitmq: %s\n", rows[0][0], strings.TrimSpace(rabbitmq))
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

// name is the name of the newest database, and newest its URL.
func (f *full) name() string { return "bench_" + strconv.Itoa(f.database) }

func (f *full) newest() string {
	return strings.Replace(f.postgres.URL, "/postgres?", "/"+f.name()+"?", 1)
}

// on is the configuration of a node on the servers, with a new database and prefix. Without servers it is the embedded store.
func (f *full) on(b *testing.B, change func(*node.Config)) func(*node.Config) {
	b.Helper()
	if f == nil {
		return change
	}
	return f.at(f.fresh(b), change)
}

// at is the configuration of a node on the servers, with the newest database.
func (f *full) at(url string, change func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		c.StoreURL, c.BrokerURL = url, f.rabbitmq.URL
		c.Broker.Prefix = fmt.Sprintf("bench%d", f.database)
		c.NoticesOff = true // rows with the default enable them: directly, tellingDefaults
		if change != nil {
			change(c)
		}
	}
}

// BenchmarkFull compares programs that use a Postgres, each with its defaults: River, Troupe on Postgres only, and Troupe with
// RabbitMQ, where each outcome is reported by a notice. Quiet is the latter without notices, Beside with the direct
// dispatch. All of them do a part one after the
// other, so that they take turns in the rounds of this benchmark. A part is over when every outcome is stored and the outbox is
// empty.
func BenchmarkFull(b *testing.B) {
	f := startFull(b)
	program := sync.OnceValue(func() string { return binary(b) })
	direct := func(b *testing.B) *member { return f.alone(b, program()) }
	broker := func(b *testing.B) *member { return f.cluster(b, program(), 1)[0] }
	type side struct {
		name string
		run  func(*testing.B)
	}
	parts := []struct {
		name  string
		sides []side
	}{
		{"Bulk", []side{
			{"River", func(b *testing.B) { river(b, f, "bulk") }},
			{"Asynq", func(b *testing.B) { asynq(b, "bulk", "always") }},
			{"AsynqUnsynced", func(b *testing.B) { asynq(b, "bulk", "default") }},
			{"Postgres", func(b *testing.B) { bulk(b, f, directly) }},
			{"RabbitMQ", func(b *testing.B) { bulk(b, f, tellingDefaults) }},
			{"Quiet", func(b *testing.B) { bulk(b, f, nil) }},
			{"Beside", func(b *testing.B) { bulk(b, f, beside) }},
		}},
		{"Callers", []side{
			{"River", func(b *testing.B) { river(b, f, "callers") }},
			{"Asynq", func(b *testing.B) { asynq(b, "callers", "always") }},
			{"AsynqUnsynced", func(b *testing.B) { asynq(b, "callers", "default") }},
			{"Postgres", func(b *testing.B) { callers(b, f, directly, false) }},
			{"RabbitMQ", func(b *testing.B) { callers(b, f, tellingDefaults, false) }},
			{"Quiet", func(b *testing.B) { callers(b, f, nil, false) }},
			{"Beside", func(b *testing.B) { callers(b, f, beside, false) }},
			{"Keys", func(b *testing.B) { callers(b, f, tellingDefaults, true) }},
			{"PostgresHTTP", func(b *testing.B) { callersHTTP(b, f, direct) }},
			{"RabbitMQHTTP", func(b *testing.B) { callersHTTP(b, f, broker) }},
		}},
		{"Start", []side{
			{"River", func(b *testing.B) { river(b, f, "tuned") }},
			{"RiverDefault", func(b *testing.B) { river(b, f, "default") }},
			{"Asynq", func(b *testing.B) { asynq(b, "start", "always") }},
			{"Postgres", func(b *testing.B) { startLatency(b, f, directly) }},
			{"RabbitMQ", func(b *testing.B) { startLatency(b, f, tellingDefaults) }},
			{"Beside", func(b *testing.B) { startLatency(b, f, beside) }},
			{"PostgresHTTP", func(b *testing.B) { startHTTP(b, direct) }},
			{"RabbitMQHTTP", func(b *testing.B) { startHTTP(b, broker) }},
		}},
		{"Python", []side{
			{"Celery", func(b *testing.B) { celery(b, f) }},
			{"Postgres", func(b *testing.B) { pythonEcho(b, f, both(withPack(b, 8), directly)) }},
			{"RabbitMQ", func(b *testing.B) { pythonEcho(b, f, both(withPack(b, 8), tellingDefaults)) }},
		}},
	}
	for _, part := range parts {
		b.Run(part.name, func(b *testing.B) {
			for _, s := range part.sides {
				b.Run(s.name, s.run)
			}
		})
	}
}

// directly is a node without RabbitMQ: nodes hand work to each other and send no notices. This is the default of a node with a
// store and no broker.
func directly(c *node.Config) { c.BrokerURL, c.NoticesOff = "", false }

// beside is a node with RabbitMQ whose work is handed over directly, with notices.
func beside(c *node.Config) { c.Dispatch, c.NoticesOff = node.DispatchDirect, false }

// tellingDefaults enables notices, which is the default.
func tellingDefaults(c *node.Config) { c.NoticesOff = false }

// both makes two changes of a configuration. The second may be nil.
func both(first, then func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		first(c)
		if then != nil {
			then(c)
		}
	}
}

// bulk submits 50,000 no-op executions while their pool is cordoned, and then uncordons it: River's client is also started after
// its jobs were inserted. The time is from then until the last outcome is stored and its notice sent. f is nil for the embedded
// store.
func bulk(b *testing.B, f *full, change func(*node.Config)) {
	count := scaled(50_000)
	for range b.N {
		n := start(b, f.on(b, change))
		loading := time.Now()
		last := loadClosed(b, n, count)
		b.ReportMetric(float64(count)/time.Since(loading).Seconds(), "submitted/s")
		told := f.told(b)
		before, began := f.usage(), time.Now()
		openPool(b, n)
		workedOff(b, n, last)
		ended := time.Now()
		told()
		b.ReportMetric(float64(time.Since(ended).Milliseconds()), "ms-until-told")
		b.ReportMetric(float64(count)/time.Since(began).Seconds(), "executions/s")
		f.report(b, before, f.usage(), count)
	}
}

// processors is CPU time by process.
type processors struct{ node, postgres, rabbitmq time.Duration }

func (f *full) usage() processors {
	if f == nil {
		return processors{node: cpu()}
	}
	return processors{cpu(), ticks(f.postgres.Pids()), ticks(f.rabbitmq.Pids())}
}

// report reports the CPU time between from and to, in seconds per 10,000 executions.
func (f *full) report(b *testing.B, from, to processors, count int) {
	scale := 10_000 / float64(count)
	b.ReportMetric((to.node-from.node).Seconds()*scale, "node-cpu-s/10k")
	if f == nil {
		return
	}
	b.ReportMetric((to.postgres-from.postgres).Seconds()*scale, "postgres-cpu-s/10k")
	b.ReportMetric((to.rabbitmq-from.rabbitmq).Seconds()*scale, "rabbitmq-cpu-s/10k")
}

// ticks is the CPU time of processes, with that of their ended children (proc(5): clock ticks of 1/100 s).
func ticks(pids []int) time.Duration {
	total := 0
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue // it has ended in between, and its parent has its time
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

// callersCount is the number of executions that 16 callers submit.
func callersCount() int { return scaled(20_000) / 16 * 16 }

// callers makes 16 callers in the node's process submit 20,000 executions one by one, with an idempotency key if keys is set. The
// node runs them meanwhile. The part ends when all outcomes are stored and their notices sent.
func callers(b *testing.B, f *full, change func(*node.Config), keys bool) {
	for range b.N {
		n := start(b, f.on(b, change))
		told := f.told(b)
		before, began := f.usage(), time.Now()
		bySixteen(b, func() error {
			request := requests("core.noop", 1, "")
			if keys {
				request[0].IdempotencyKey = messages.NewExecutionID().String()
			}
			_, err := n.Backend().Submit(context.Background(), request)
			return err
		})
		await(b, "idle", idle(n))
		told()
		b.ReportMetric(float64(callersCount())/time.Since(began).Seconds(), "executions/s")
		f.report(b, before, f.usage(), callersCount())
	}
}

// bySixteen makes 16 callers call, callersCount times in total.
func bySixteen(b *testing.B, call func() error) {
	b.Helper()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range callersCount() / 16 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// startLatency submits 50 executions a second for ten seconds and reports the time from submit to start.
func startLatency(b *testing.B, f *full, change func(*node.Config)) {
	for range b.N {
		steadily(b, start(b, f.on(b, change)), scaled(500), []string{"core.noop"})
	}
}

// steadily submits count executions of the actions in turn, 50 a second, and reports the time from submit to start.
func steadily(b *testing.B, n *node.Node, count int, actions []string) {
	b.Helper()
	paced(b, count, func(i int) (messages.ExecutionID, error) {
		submitted, err := n.Backend().Submit(context.Background(), requests(actions[i%len(actions)], 1, ""))
		if err != nil {
			return messages.ExecutionID{}, err
		}
		return submitted[0].Execution.ID, nil
	}, func(ctx context.Context, id messages.ExecutionID) (messages.Status, time.Time, error) {
		e, err := n.Backend().Wait(ctx, id)
		return e.Status, e.StartedAt, err
	})
}

// paced submits count executions, 50 a second, waits for their ends and reports the time from submit to start.
func paced(b *testing.B, count int, ask func(int) (messages.ExecutionID, error),
	end func(context.Context, messages.ExecutionID) (messages.Status, time.Time, error)) {
	b.Helper()
	var samples []time.Duration
	var ids []messages.ExecutionID
	asked := map[messages.ExecutionID]time.Time{}
	ticker := time.NewTicker(20 * time.Millisecond)
	for i := range count {
		<-ticker.C
		at := time.Now()
		id, err := ask(i)
		if err != nil {
			b.Fatal(err)
		}
		ids, asked[id] = append(ids, id), at
	}
	ticker.Stop()
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		status, started, err := end(ctx, id)
		cancel()
		if err != nil || status != messages.Completed {
			b.Fatalf("execution %s is %s: %v", id, status, err)
		}
		samples = append(samples, started.Sub(asked[id]))
	}
	percentiles(b, "start", samples, time.Millisecond, "ms")
}

// pythonEcho measures executions of a Python echo with a running worker and a durable store, until all outcomes are stored and
// their notices sent.
func pythonEcho(b *testing.B, f *full, change func(*node.Config)) {
	count := scaled(10_000)
	for range b.N {
		n := start(b, f.on(b, change))
		told := f.told(b)
		if _, err := n.Backend().Submit(context.Background(), requests("bench.echo", 500, `{"text":"warm"}`)); err != nil {
			b.Fatal(err)
		}
		await(b, "warm", idle(n))
		before, began := f.usage(), time.Now()
		if _, err := n.Backend().Submit(context.Background(), requests("bench.echo", count, `{"text":"hello"}`)); err != nil {
			b.Fatal(err)
		}
		await(b, "idle", idle(n))
		told()
		b.ReportMetric(float64(count)/time.Since(began).Seconds(), "executions/s")
		f.report(b, before, f.usage(), count)
	}
}
