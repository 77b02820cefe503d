package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// BenchmarkFullGrowth reports how the rate of no-op executions, and the time from submit to start, change with the number of
// pools, workers and stored executions. The first line is the reference for the others. Each line logs the statements that took
// Postgres longest.
func BenchmarkFullGrowth(b *testing.B) {
	f := startFull(b)
	f.countStatements(b)
	b.Run("Pools1", func(b *testing.B) { growth(b, f, ground{pools: 1, workers: 200}) })
	b.Run("Pools10", func(b *testing.B) { growth(b, f, ground{pools: 10, workers: 20}) })
	b.Run("Pools100", func(b *testing.B) { growth(b, f, ground{pools: 100, workers: 2}) })
	b.Run("Workers1000", func(b *testing.B) { growth(b, f, ground{pools: 1, workers: 1000}) })
	b.Run("Waiting1M", func(b *testing.B) {
		growth(b, f, ground{pools: 1, workers: 200, stored: (*grown).wait, after: (*grown).waitingLists})
	})
	b.Run("Finished1M", func(b *testing.B) {
		growth(b, f, ground{pools: 1, workers: 200, stored: (*grown).finish, after: (*grown).finishedLists})
	})
}

// ground is the state in which a node is measured.
type ground struct {
	pools, workers int                // the go pools, and the workers of each
	stored         func(*grown)       // fills the store before the node is measured
	after          func(*grown)       // measures more
	change         func(*node.Config) // a change of the benchmarks' configuration; nil: none
}

// grown is a node in that state. Its pools are grow.p0, grow.p1 …, with one action of the same name each.
type grown struct {
	*full
	b       *testing.B
	node    *node.Node
	url     string
	actions []string
	ran     *atomic.Int64 // the runs of all actions
}

// parked is an action whose pool is cordoned.
const parked = "park.parked"

// growth measures a node in one state.
func growth(b *testing.B, f *full, on ground) {
	for range b.N {
		g := &grown{full: f, b: b, url: f.fresh(b), ran: new(atomic.Int64)}
		for i := range on.pools {
			g.actions = append(g.actions, fmt.Sprint("grow.p", i))
		}
		packs := []string{writePack(b, "grow", growPack(on)), writePack(b, "park", parkPack)}
		g.node = start(b, f.at(g.url, func(c *node.Config) {
			c.Packs = packs
			c.Handlers = map[string]messages.Handler{"grow.count": func(context.Context, *messages.Task) (any, error) {
				g.ran.Add(1)
				return nil, nil
			}}
			if on.change != nil {
				on.change(c)
			}
		}))
		if err := g.node.Backend().CordonPool(context.Background(), parked, true, "bench"); err != nil {
			b.Fatal(err)
		}
		if on.stored != nil {
			began := time.Now()
			on.stored(g)
			b.Logf("the store was filled within %s", time.Since(began).Round(time.Second))
		}
		f.forgetStatements(b)
		g.rate(scaled(20_000))
		steadily(b, g.node, scaled(500), g.actions)
		f.logStatements(b)
		if on.after != nil {
			on.after(g)
		}
	}
}

// parkPack is a pack with the pool of parked.
var parkPack = map[string]string{
	"pack.yaml":           "name: park\nversion: 1.0.0\npools:\n  - name: parked\n    runtime: go\n    workers: 1\n",
	"actions/parked.yaml": "name: parked\nruntime: go\npool: parked\nentrypoint: grow.count\n",
}

// growPack is a pack with the go pools. The action of each pool counts its runs.
func growPack(on ground) map[string]string {
	var pools strings.Builder
	files := map[string]string{}
	for i := range on.pools {
		fmt.Fprintf(&pools, "  - name: p%d\n    runtime: go\n    workers: %d\n", i, on.workers)
		files[fmt.Sprintf("actions/p%d.yaml", i)] = fmt.Sprintf("name: p%d\nruntime: go\npool: p%[1]d\nentrypoint: grow.count\n", i)
	}
	files["pack.yaml"] = "name: grow\nversion: 1.0.0\npools:\n" + pools.String()
	return files
}

// rate submits count executions, spread over the actions, and reports the rate from the first placement to the last outcome. The
// node runs them while they are submitted.
func (g *grown) rate(count int) {
	g.b.Helper()
	mark := g.number("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM execution_seq")
	before, ran := g.usage(), g.ran.Load()
	began := time.Now()
	for from := 0; from < count; from += messages.BatchMax {
		list := requests("", min(messages.BatchMax, count-from), "")
		for i := range list {
			list[i].ActionRef = g.actions[i%len(g.actions)]
		}
		if _, err := g.node.Backend().Submit(context.Background(), list); err != nil {
			g.b.Fatal(err)
		}
	}
	submitted := time.Since(began)
	await(g.b, "worked off", func() bool { return g.ran.Load()-ran >= int64(count) })
	await(g.b, "idle", func() bool { return g.number("SELECT count(*) FROM execution WHERE on_worker IS NOT NULL") == 0 })
	used := g.usage()
	took := g.number(fmt.Sprintf("SELECT extract(epoch FROM max(finished_at) - min(first_placed_at)) FROM execution WHERE seq > %.0f", mark))
	done := g.number(fmt.Sprintf("SELECT count(*) FROM execution WHERE status = 6 AND seq > %.0f", mark))
	g.b.ReportMetric(done/took, "executions/s")
	g.b.ReportMetric(float64(count)/submitted.Seconds(), "submitted/s")
	g.b.ReportMetric(done, "completed")
	g.report(g.b, before, used, count)
}

// number returns the one number that a query selects.
func (g *grown) number(query string) float64 {
	g.b.Helper()
	return queryNumber(g.b, g.url, query)
}

func queryNumber(b *testing.B, url, query string) float64 {
	b.Helper()
	rows, err := servers.Query(url, query)
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseFloat(rows[0][0], 64)
	if err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return n
}

// fill inserts a million executions directly into the tables, as if they had been submitted every 50 ms. The columns of execution
// are expressions over n, from 1, and the request's row r.
func (g *grown) fill(action, columns, values string) {
	g.b.Helper()
	const part = 100_000
	total := scaled(1_000_000)
	for from := 1; from <= total; from += part {
		g.execute(fmt.Sprintf(`WITH r AS (INSERT INTO request (seq, id, action, version, labels, timeout, stall_timeout, wait_for_worker, idempotent,
  notify, may_repeat, max_retries, retry_count, requested_at, parameters)
 SELECT nextval('execution_seq'), ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, %s, '1.0.0',
  jsonb_build_object('team', 'team' || n %% 100), '300s', '0', false, false, false, false, 0, 0, now() - (%d - n) * interval '50 ms', '{}'
 FROM generate_series(%d, %d) n RETURNING *, ('x' || right(id::text, 12))::bit(48)::bigint AS n),
 l AS (INSERT INTO execution_label (key, value, seq) SELECT 'team', labels->>'team', seq FROM r)
 INSERT INTO execution (id, seq, attempt, last_change, priority, %s) SELECT id, seq, %s FROM r`,
			action, total, from, min(from+part-1, total), columns, values))
	}
	// Otherwise autovacuum would do it during the measurement.
	g.execute("VACUUM ANALYZE request")
	g.execute("VACUUM ANALYZE execution")
	g.execute("VACUUM ANALYZE execution_label")
}

func (g *grown) execute(statement string) {
	g.b.Helper()
	if err := servers.Execute(g.url, statement); err != nil {
		g.b.Fatal(err)
	}
}

// wait stores waiting executions: half of them wait for their time, a day ahead, in the pool that is measured, and half for a
// free worker in a cordoned pool.
func (g *grown) wait() {
	g.fill(`CASE WHEN n % 2 = 0 THEN '`+g.actions[0]+`' ELSE '`+parked+`' END`,
		"status, pool, rank, timer_at, run_at",
		`0, 0, 5, 1, action, CASE WHEN n % 2 = 0 THEN 36 ELSE 4 END, CASE WHEN n % 2 = 0 THEN now() + interval '1 day' + n * interval '1 ms' END,
  CASE WHEN n % 2 = 0 THEN now() + interval '1 day' + n * interval '1 ms' ELSE requested_at END`)
}

// finish stores ended executions of a thousand sessions. One in a hundred has failed.
func (g *grown) finish() {
	g.fill(`'`+g.actions[0]+`'`,
		"status, unusual, pool, session, worker_id, worker_slot, run_at, first_placed_at, scheduled_at, started_at, finished_at, result, error",
		`1, 4, 5, CASE WHEN n % 100 = 0 THEN 7 ELSE 6 END, CASE WHEN n % 100 = 0 THEN 7 END, action, 'session' || n % 1000, 'bench/' || action || '/' || n % 200,
  n % 200, requested_at, requested_at, requested_at, requested_at, requested_at, CASE WHEN n % 100 <> 0 THEN 'null'::bytea END,
  CASE WHEN n % 100 = 0 THEN '{"code":"error","message":"x"}'::bytea END`)
}

// lists reports the time for a page of 100, the median and the maximum of 50 pages for each filter.
func (g *grown) lists(filters map[string]store.Filter) {
	g.b.Helper()
	for name, filter := range filters {
		filter.Limit = 100
		g.timed("list-"+name, func() error {
			_, err := g.node.Backend().List(context.Background(), filter)
			return err
		})
	}
}

func (g *grown) timed(name string, do func() error) {
	g.b.Helper()
	samples := make([]time.Duration, 50)
	for i := range samples {
		began := time.Now()
		if err := do(); err != nil {
			g.b.Fatal(err)
		}
		samples[i] = time.Since(began)
	}
	slices.Sort(samples)
	g.b.ReportMetric(float64(samples[25])/float64(time.Millisecond), name+"-p50-ms")
	g.b.ReportMetric(float64(samples[49])/float64(time.Millisecond), name+"-max-ms")
}

func (g *grown) waitingLists() {
	g.lists(map[string]store.Filter{
		"all": {}, "requested": {Statuses: []messages.Status{messages.Requested}}, "pool": {Pools: []string{parked}},
	})
	g.timed("pools", func() error { _, err := g.node.Backend().Pools(context.Background(), ""); return err })
}

func (g *grown) finishedLists() {
	middle := int64(scaled(1_000_000) / 2)
	g.lists(map[string]store.Filter{
		"all": {}, "middle": {Before: middle}, "completed": {Statuses: []messages.Status{messages.Completed}},
		"failed": {Statuses: []messages.Status{messages.Failed}}, "action": {Actions: []string{g.actions[0]}}, "pool": {Pools: []string{g.actions[0]}},
		"empty-pool": {Pools: []string{parked}}, "session": {Sessions: []string{"session7"}}, "label": {Labels: [][2]string{{"team", "team7"}}},
		"worker": {Workers: []string{"bench/grow.p0/7"}}, "failed-of-session": {Sessions: []string{"session500"}, Statuses: []messages.Status{messages.Failed}},
	})
	g.timed("pools", func() error { _, err := g.node.Backend().Pools(context.Background(), ""); return err })
}

// countStatements enables pg_stat_statements, if it is installed, and reports whether it is.
func (f *full) countStatements(b *testing.B) bool {
	b.Helper()
	if queryNumber(b, f.postgres.URL, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'") == 0 {
		return false
	}
	if err := servers.Execute(f.postgres.URL, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'"); err != nil {
		b.Fatal(err)
	}
	if err := f.postgres.Stop(); err != nil {
		b.Fatal(err)
	}
	if err := f.postgres.Start(); err != nil {
		b.Fatal(err)
	}
	if err := servers.Execute(f.postgres.URL, "CREATE EXTENSION pg_stat_statements"); err != nil {
		b.Fatal(err)
	}
	f.counted = true
	return true
}

// forgetStatements resets the counters.
func (f *full) forgetStatements(b *testing.B) {
	b.Helper()
	if !f.counted {
		return
	}
	if _, err := servers.Query(f.postgres.URL, "SELECT pg_stat_statements_reset()"); err != nil {
		b.Fatal(err)
	}
}

// logStatements logs the statements on the newest database with the longest total time.
func (f *full) logStatements(b *testing.B) {
	b.Helper()
	if !f.counted {
		return
	}
	rows, err := servers.Query(f.postgres.URL, `SELECT calls, round(total_exec_time), round(mean_exec_time::numeric, 2), round(max_exec_time::numeric, 1),
 left(regexp_replace(query, '\s+', ' ', 'g'), 150) FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = '`+
		f.name()+`') AND calls > 1 ORDER BY total_exec_time DESC LIMIT 7`)
	if err != nil {
		b.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "load %s; calls, ms in all, mean, longest, statement\n", load())
	for _, row := range rows {
		fmt.Fprintln(&out, strings.Join(row, "\t"))
	}
	b.Log(out.String())
}

// load is the machine's load averages. They show how far the figures can be trusted.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
